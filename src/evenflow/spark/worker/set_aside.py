"""Rows that are set aside: their event time is invalid, or too far ahead of the batch's clock.

One row from the year 2199 would raise the watermark, and all later rows would be late. What is
stored of them is bounded; how many there were is counted on.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.errors import StorageError
from evenflow.model.time import (
    MAX_EVENT_TIME_US,
    MIN_EVENT_TIME_US,
    event_times_us,
    valid_time_mask,
)
from evenflow.storage.file_store import FileStore

MAX_TASK_BYTES = 2 << 20  # stored rows of one router task
MAX_BATCH_BYTES = 16 << 20  # of a stream in one batch
MAX_STREAM_BYTES = 256 << 20  # of a stream in all batches
_COUNTS_KEY = b"evenflow.set_aside"
_BATCH_TIMESTAMP = re.compile(rb'"batchTimestampMs":(\d+)')


@dataclass(slots=True)
class SetAside:
    """Rows set aside: how many for which reason, and as many of them as the bound allows."""

    invalid: int = 0
    ahead: int = 0
    rows: list[pa.Table] = field(default_factory=list)
    max_bytes: int = MAX_TASK_BYTES

    def add(self, rows: pa.Table, *, invalid: int, ahead: int) -> None:
        """Count rows, and keep those that fit."""
        self.invalid, self.ahead = self.invalid + invalid, self.ahead + ahead
        left = self.max_bytes - sum(table.nbytes for table in self.rows)
        if rows.nbytes > left:
            rows = rows.slice(0, max(0, left) * len(rows) // rows.nbytes)
        if len(rows):
            self.rows.append(rows)

    def to_table(self, schema: pa.Schema) -> pa.Table:
        """Return the rows with the counts, for the worker that stores them."""
        rows = pa.concat_tables([schema.empty_table(), *self.rows])
        counts = json.dumps({"invalid": self.invalid, "ahead": self.ahead})
        return rows.replace_schema_metadata({_COUNTS_KEY: counts.encode()})

    @classmethod
    def merge(cls, tables: Iterable[pa.Table], max_bytes: int) -> "SetAside":
        """Join what router tasks set aside."""
        merged = cls(max_bytes=max_bytes)
        for table in tables:
            merged.add(
                table.replace_schema_metadata(), **json.loads(table.schema.metadata[_COUNTS_KEY])
            )
        return merged


def separate_rows(
    rows: pa.Table, time: str, latest_us: int | None
) -> tuple[pa.Table, pa.Table, int, int]:
    """Return rows to route, rows to set aside, and how many of these are invalid and ahead.

    `latest_us` is the latest event time that is not too far ahead; None: any valid time.
    """
    times_us = event_times_us(rows[time])
    end_us = MAX_EVENT_TIME_US if latest_us is None else min(MAX_EVENT_TIME_US, latest_us + 1)
    low, high = pc.min_max(times_us, skip_nulls=False).values()  # NULL if any time is NULL
    if low.is_valid and low.as_py() >= MIN_EVENT_TIME_US and high.as_py() < end_us:
        return rows, rows.slice(0, 0), 0, 0
    valid = valid_time_mask(times_us)
    timely = pc.and_(valid, pc.fill_null(pc.less(times_us, end_us), False))
    invalid = len(rows) - (pc.sum(valid).as_py() or 0)
    aside = rows.filter(pc.invert(timely))
    return rows.filter(timely), aside, invalid, len(aside) - invalid


def latest_time_us(
    store: FileStore, batch: int, max_ahead_us: int | None, clock_us: int | None
) -> int | None:
    """Return the latest event time that is not too far ahead; None: any valid time."""
    if max_ahead_us is None:
        return None
    return (batch_clock_us(store, batch) if clock_us is None else clock_us) + max_ahead_us


def batch_clock_us(store: FileStore, batch: int) -> int:
    """Return when Spark planned a batch: a batch that runs again has the same clock."""
    file = f"spark/offsets/{batch}"
    found = _BATCH_TIMESTAMP.search(bytes(store.read(file)))
    if found is None:
        raise StorageError(f"{store.uri}/{file} has no batchTimestampMs; max_ahead needs it")
    return int(found[1]) * 1000
