"""The report of a worker task to the driver at the end of a batch."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from evenflow.model.waiting_count import WaitingCount
from evenflow.spark.protocol.key_counts import (
    KeyCounts,
    decode_key_counts,
    encode_key_counts,
)
from evenflow.spark.protocol.ledger import DerivedRows, HandOff
from evenflow.storage import records
from evenflow.storage.bundle import PartRef

REPORT_COLUMNS = "report binary, keys binary"


@dataclass(slots=True)
class QueryStats:
    """One query on one worker in one batch.

    rows_in      rows of its streams, also those that the router combined
    work_rows    rows that the worker processed: a partial row of the router counts as one
    groups       partial rows that a combinable aggregate received or made of its rows
    uncombined   whether the router sent rows that it should have combined
    late_rows    stream -> rows behind the watermark
    produced     results, or pairs examined for a match: what its rows cost besides themselves
    """

    rows_in: int = 0
    work_rows: int = 0
    groups: int = 0
    uncombined: bool = False
    rows_out: int = 0
    cpu_seconds: float = 0.0
    state_bytes: int = 0
    late_rows: Mapping[str, int] = field(default_factory=dict)
    produced: float = 0.0


@dataclass(slots=True)
class SetAsideCount:
    """Rows of a source that were set aside in one batch.

    invalid, ahead  rows without a valid event time, and too far ahead of the batch's clock
    stored_bytes    what was stored of them, within the bounds
    """

    invalid: int = 0
    ahead: int = 0
    stored_bytes: int = 0


@dataclass(slots=True)
class Report:
    """One worker's batch; the worker task fills it in, the driver reads it.

    state_ref          index of the worker's state; None if the state did not change
    live_files         files that the state consists of
    due_us             query uid -> event time at which it emits without new rows
    max_event_time_us  stream -> latest event time of the rows received
    shipped_bytes      stream -> bytes received
    results, poison    query uid, or stream -> (stored rows, number of rows)
    set_aside          stream -> how many rows were set aside, stored or not
    handoffs           state that other workers take in
    published          derived rows for other workers
    failed             query uid -> reason
    subscriptions      template uid -> how many it has on this worker, if its state changed
    waiting            query uid -> what waits of a slowed query, before any of it moves
    key_counts         query uid -> rows, results and state of its keys, for keyed queries
    """

    worker: int
    state_ref: PartRef | None = None
    live_files: tuple[str, ...] = ()
    due_us: dict[str, int] = field(default_factory=dict)
    max_event_time_us: dict[str, int] = field(default_factory=dict)
    shipped_bytes: dict[str, int] = field(default_factory=dict)
    query_stats: dict[str, QueryStats] = field(default_factory=dict)
    results: dict[str, tuple[PartRef, int]] = field(default_factory=dict)
    poison: dict[str, tuple[PartRef, int]] = field(default_factory=dict)
    set_aside: dict[str, SetAsideCount] = field(default_factory=dict)
    handoffs: list[HandOff] = field(default_factory=list)
    published: list[DerivedRows] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    subscriptions: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, WaitingCount] = field(default_factory=dict)
    key_counts: dict[str, KeyCounts] = field(default_factory=dict)
    cpu_seconds: float = 0.0
    idle: bool = False

    def encode(self) -> tuple[bytes, bytes]:
        """Return the report as JSON, and its thousands of keys as an Arrow stream."""
        report = records.encode(replace(self, key_counts={}))
        return report, encode_key_counts(self.key_counts)

    @classmethod
    def decode(cls, report: bytes, keys: bytes) -> "Report":
        """Read back what `encode` wrote."""
        decoded = records.decode(bytes(report), Report)
        decoded.key_counts = decode_key_counts(keys)
        return decoded
