"""What a worker tells the driver at the end of a batch."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from evenflow.spark.bundle import Ref


@dataclass(slots=True)
class QueryStats:
    """One query on one worker in one batch; `late` counts rows behind the watermark by stream."""

    rows_in: int = 0
    rows_out: int = 0
    cpu_seconds: float = 0.0
    state_bytes: int = 0
    late: Mapping[str, int] = field(default_factory=dict)


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
    cpu_seconds: float = 0.0
    idle: bool = False

    def to_json(self) -> str:
        """Return the report as text."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Report":
        """Read back what `to_json` gave."""
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
            cpu_seconds=record["cpu_seconds"],
            idle=record["idle"],
        )
