"""The function that Spark runs to store a backfill: parts of rows in the order of their times."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model.time import event_times_us
from evenflow.spark.protocol.backfill import PART_ROWS, BackfillPart, list_file
from evenflow.spark.worker.set_aside import separate_rows
from evenflow.storage import records
from evenflow.storage.bundle import Bundle, pack
from evenflow.storage.file_store import FileStore
from evenflow.storage.options import StorageOptions

STORED_PART_COLUMNS = "part binary, invalid bigint"


@dataclass(frozen=True, slots=True)
class StoreBackfillTask:
    """For mapInArrow over sorted rows of a stream: stores them, returns a record of each part.

    Rows without a valid time are counted and not stored.
    """

    uri: str
    options: StorageOptions
    name: str
    stream: str
    schema: pa.Schema
    time: str
    power_safe: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Store the rows of one partition."""
        store = FileStore(self.uri, power_safe=self.power_safe, options=self.options)
        for gathered in _gather(batches):
            rows = gathered.select(self.schema.names).cast(self.schema)
            valid, _, invalid, _ = separate_rows(rows, self.time, None)
            stored = [records.encode(self._store(store, valid))] if len(valid) else [b""]
            columns = [pa.array(stored, pa.binary()), pa.array([invalid], pa.int64())]
            yield pa.RecordBatch.from_arrays(columns, names=["part", "invalid"])

    def _store(self, store: FileStore, rows: pa.Table) -> BackfillPart:
        bundle = Bundle(f"{list_file(self.name)}-{uuid.uuid4().hex}")
        ref = bundle.add(pack(rows.combine_chunks(), codec="zstd"))
        bundle.write(store, durable=True)
        times = event_times_us(rows[self.time])
        first_us, last_us = (value.as_py() for value in pc.min_max(times).values())
        return BackfillPart(self.stream, ref, len(rows), first_us, last_us)


def _gather(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield tables of so many rows as a part has."""
    gathered: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        gathered, count = [*gathered, batch], count + len(batch)
        while count >= PART_ROWS:
            table = pa.Table.from_batches(gathered)
            yield table.slice(0, PART_ROWS)
            gathered, count = table.slice(PART_ROWS).to_batches(), count - PART_ROWS
    if count:
        yield pa.Table.from_batches(gathered)
