"""What a worker tells the driver at the end of a batch."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from evenflow.spark.worker import key_counts
from evenflow.spark.worker.key_counts import KeyCounts
from evenflow.storage.bundle import PartRef


@dataclass(slots=True)
class QueryStats:
    """One query on one worker in one batch; `late_rows` counts rows behind the watermark by stream.

    `produced` is what its rows led to, which costs besides the rows themselves: results, or pairs
    that were looked at for a match.
    """

    rows_in: int = 0
    rows_out: int = 0
    cpu_seconds: float = 0.0
    state_bytes: int = 0
    late_rows: Mapping[str, int] = field(default_factory=dict)
    produced: float = 0.0


@dataclass(slots=True)
class Report:
    """One worker's batch.

    state     where the worker's state stands now; None: as it stood before the batch
    live_files  files which that state is made of
    due_us    query uid -> event time at which it has something to say
    max_event_time_us  stream -> latest event time among the rows received
    shipped_bytes  stream -> bytes of the blobs received
    results   query uid -> (where, rows)
    handoffs  state that leaves: (query uid, worker, where)
    published derived rows: (query uid, worker, where)
    failed    query uid -> reason
    poison    stream -> (where, rows)
    key_counts  query uid -> what its keys took, for keyed queries
    """

    worker: int
    state: PartRef | None = None
    live_files: tuple[str, ...] = ()
    due_us: dict[str, int] = field(default_factory=dict)
    max_event_time_us: dict[str, int] = field(default_factory=dict)
    shipped_bytes: dict[str, int] = field(default_factory=dict)
    query_stats: dict[str, QueryStats] = field(default_factory=dict)
    results: dict[str, tuple[PartRef, int]] = field(default_factory=dict)
    handoffs: list[tuple[str, int, PartRef]] = field(default_factory=list)
    published: list[tuple[str, int, PartRef]] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    poison: dict[str, tuple[PartRef, int]] = field(default_factory=dict)
    key_counts: dict[str, KeyCounts] = field(default_factory=dict)
    cpu_seconds: float = 0.0
    idle: bool = False

    def encode(self) -> tuple[str, bytes]:
        """Return the report as text, and of its thousands of keys the bytes."""
        record = asdict(replace(self, key_counts={}))
        return json.dumps(record, separators=(",", ":")), key_counts.encode_key_counts(
            self.key_counts
        )

    @classmethod
    def decode(cls, text: str, keys: bytes) -> "Report":
        """Read back what `encode` gave."""
        record: dict[str, Any] = json.loads(text)
        return cls(
            worker=record["slot"],
            state=None if record["state"] is None else PartRef(*record["state"]),
            live_files=tuple(record["live"]),
            due_us=record["due"],
            max_event_time_us=record["seen_us"],
            shipped_bytes=record["shipped"],
            query_stats={uid: QueryStats(**stats) for uid, stats in record["queries"].items()},
            results={uid: (PartRef(*ref), rows) for uid, (ref, rows) in record["results"].items()},
            handoffs=[(uid, slot, PartRef(*ref)) for uid, slot, ref in record["handoffs"]],
            published=[(uid, slot, PartRef(*ref)) for uid, slot, ref in record["published"]],
            failed=record["failed"],
            poison={name: (PartRef(*ref), rows) for name, (ref, rows) in record["poison"].items()},
            key_counts=key_counts.decode_key_counts(keys),
            cpu_seconds=record["cpu_seconds"],
            idle=record["idle"],
        )
