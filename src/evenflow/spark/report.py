"""What a worker tells the driver at the end of a batch."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from evenflow.spark import counting
from evenflow.spark.bundle import Ref
from evenflow.spark.counting import KeyCounts


@dataclass(slots=True)
class QueryStats:
    """One query on one worker in one batch; `late` counts rows behind the watermark by stream.

    `made` is what its rows led to, which costs besides the rows themselves: results, or pairs
    that were looked at for a match.
    """

    rows_in: int = 0
    rows_out: int = 0
    cpu_seconds: float = 0.0
    state_bytes: int = 0
    late: Mapping[str, int] = field(default_factory=dict)
    made: float = 0.0


@dataclass(slots=True)
class Report:
    """One worker's batch.

    state     where the worker's state stands now; None: as it stood before the batch
    live      files which that state is made of
    due       query uid -> event time at which it has something to say
    seen_us   stream -> latest event time among the rows received
    shipped   stream -> bytes of the blobs received
    results   query uid -> (where, rows)
    handoffs  state that leaves: (query uid, worker, where)
    published derived rows: (query uid, worker, where)
    failed    query uid -> reason
    poison    stream -> (where, rows)
    keys      query uid -> what its keys took, for keyed queries
    """

    slot: int
    state: Ref | None = None
    live: tuple[str, ...] = ()
    due: dict[str, int] = field(default_factory=dict)
    seen_us: dict[str, int] = field(default_factory=dict)
    shipped: dict[str, int] = field(default_factory=dict)
    queries: dict[str, QueryStats] = field(default_factory=dict)
    results: dict[str, tuple[Ref, int]] = field(default_factory=dict)
    handoffs: list[tuple[str, int, Ref]] = field(default_factory=list)
    published: list[tuple[str, int, Ref]] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    poison: dict[str, tuple[Ref, int]] = field(default_factory=dict)
    keys: dict[str, KeyCounts] = field(default_factory=dict)
    cpu_seconds: float = 0.0
    idle: bool = False

    def pack(self) -> tuple[str, bytes]:
        """Return the report as text, and of its thousands of keys the bytes."""
        record = asdict(replace(self, keys={}))
        return json.dumps(record, separators=(",", ":")), counting.to_bytes(self.keys)

    @classmethod
    def unpack(cls, text: str, keys: bytes) -> "Report":
        """Read back what `pack` gave."""
        record: dict[str, Any] = json.loads(text)
        return cls(
            slot=record["slot"],
            state=None if record["state"] is None else Ref(*record["state"]),
            live=tuple(record["live"]),
            due=record["due"],
            seen_us=record["seen_us"],
            shipped=record["shipped"],
            queries={uid: QueryStats(**stats) for uid, stats in record["queries"].items()},
            results={uid: (Ref(*ref), rows) for uid, (ref, rows) in record["results"].items()},
            handoffs=[(uid, slot, Ref(*ref)) for uid, slot, ref in record["handoffs"]],
            published=[(uid, slot, Ref(*ref)) for uid, slot, ref in record["published"]],
            failed=record["failed"],
            poison={name: (Ref(*ref), rows) for name, (ref, rows) in record["poison"].items()},
            keys=counting.from_bytes(keys),
            cpu_seconds=record["cpu_seconds"],
            idle=record["idle"],
        )
