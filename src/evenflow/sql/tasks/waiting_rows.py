"""Rows of a slowed query that wait for their turn: part of its state on a worker.

A batch is cut into slices by the contents of its rows, so all workers cut it alike. The slices of
all batches are numbered one after the other, and a slowed query takes them in this order: what it
sees is a stream with other, later batches.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model.arrays import Indices
from evenflow.model.hashing import hash_contents
from evenflow.model.waiting_count import WaitingCount
from evenflow.sql.tasks.segments import SegmentStore

SLICES = 16  # of a batch
LABEL = "waiting:"
ColumnNames = Mapping[str, tuple[str, ...]]


class WaitingRows:
    """The waiting rows of one task, by stream; they are saved and moved with its state.

    `columns` are those that the query reads of each stream, `keys` those of them that are its key.
    Columns are stored by their position: `_t` is the slice, `_w` the watermark when the row came.
    """

    def __init__(self, columns: ColumnNames, keys: ColumnNames) -> None:
        self._columns, self._keys = columns, keys
        self._stores: dict[str, SegmentStore] = {}

    def stores(self) -> dict[str, SegmentStore]:
        """Return the stores that have rows, by their labels in a manifest."""
        return {LABEL + stream: store for stream, store in self._stores.items() if len(store)}

    def store(self, stream: str) -> SegmentStore:
        """Return the store of a stream."""
        if stream not in self._stores:
            columns, key = self._columns[stream], self._keys.get(stream)
            places = key and tuple(f"c{columns.index(name)}" for name in key)
            self._stores[stream] = SegmentStore(places or None)
        return self._stores[stream]

    def take_turn(
        self, rows: Mapping[str, pa.Table], batch: int, watermark_us: int, until: int | None
    ) -> dict[str, pa.Table]:
        """Add the new rows of a batch; return all rows before slice `until`, in order."""
        taken = {}
        for stream, table in rows.items():
            parts = self._take(stream, until)
            new = table.select(self._columns[stream]) if len(table) else table
            if len(new) and until is not None:
                slices = batch * SLICES + row_slices(new)
                self._add(stream, new, slices, watermark_us, until)
                new = new.filter(pa.array(slices < until))
            parts += [new] if len(new) or not parts else []
            taken[stream] = pa.concat_tables(parts)
        return taken

    def _take(self, stream: str, until: int | None) -> list[pa.Table]:
        store = self._stores.get(stream)
        if store is None or not len(store):
            return []
        end = np.iinfo(np.int64).max if until is None else until
        parts = [rows for _, rows in store.rows_between(0, end)]
        store.drop_before(end)
        if not parts:
            return []
        slices = np.concatenate([part["_t"].to_numpy() for part in parts])
        rows = pa.concat_tables(parts).take(pa.array(np.argsort(slices, kind="stable")))
        names = self._columns[stream]
        return [rows.select([f"c{at}" for at in range(len(names))]).rename_columns(list(names))]

    def _add(
        self, stream: str, rows: pa.Table, slices: Indices, watermark_us: int, until: int
    ) -> None:
        waits = slices >= until
        stored = rows.filter(pa.array(waits))
        stored = stored.rename_columns([f"c{at}" for at in range(rows.num_columns)])
        stored = stored.append_column("_t", pa.array(slices[waits]))
        came = pa.array(np.full(len(stored), watermark_us))
        store = self.store(stream)
        store.append(stored.append_column("_w", came))
        store.compact()

    def count(self) -> WaitingCount | None:
        """Return how much waits; None if nothing does."""
        stores = [store for store in self._stores.values() if len(store)]
        if not stores:
            return None
        runs = [run for store in stores for run in store.runs]
        return WaitingCount(
            rows=sum(map(len, stores)),
            bytes=sum(store.nbytes for store in stores),
            first=min(int(run.times[run.first_live]) for run in runs),
            watermark_us=min(pc.min(run.live_rows["_w"]).as_py() for run in runs),
        )

    def close(self) -> None:
        """Free the rows."""
        self._stores.clear()


def row_slices(rows: pa.Table) -> Indices:
    """Return the slice of each row in its batch, by its contents."""
    return (hash_contents(rows.columns) >> np.uint64(32)).astype(np.int64) % SLICES


NO_WAITING_ROWS = WaitingRows({}, {})
