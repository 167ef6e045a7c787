"""Recorded history beside a checkpoint: Parquet files that grow, are merged, and go.

A batch writes one small file of each kind under a name made of its number, so a batch that is run
again writes the same files again. Files of a finished block of batches are merged into one. A
merged file is written before the small ones are deleted: a reader takes the wider of two that
overlap, and whoever opens the history next deletes what was left.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from evenflow.errors import InputError
from evenflow.history import decode
from evenflow.history.encode import tables_of
from evenflow.history.schema import SCHEMAS
from evenflow.model import Decision, Outcome, Snapshot
from evenflow.store import Store

FOLDER = "history"
BLOCK = 64
KEPT_BATCHES = 1024
# Small, and what is asked for long afterwards.
_LONG = frozenset({"decisions", "outcomes", "plans"})
_LONGER = 16
_GROUP_ROWS = 100_000


class Part(NamedTuple):
    """A file and the batches that it holds."""

    kind: str
    first: int
    last: int

    @property
    def name(self) -> str:
        """Its name below the checkpoint."""
        return f"{FOLDER}/{self.kind}/{self.first:012d}-{self.last:012d}.parquet"


class History:
    """Appends to the history of one checkpoint; the last `kept` batches stay.

    Files are merged when a block of batches is over.
    """

    def __init__(self, store: Store, kept: int = KEPT_BATCHES, block: int = BLOCK) -> None:
        self._store = store
        self._kept = max(kept, block)
        self._block = block
        self._plans: dict[str, int] = {}  # those of this block, and the batch whose file has them
        for kind in SCHEMAS:
            _, strays = _parts(store, kind)
            self._delete(strays)

    def append(
        self,
        snapshot: Snapshot,
        decisions: Sequence[Decision] = (),
        outcomes: Sequence[Outcome] = (),
    ) -> None:
        """Record a batch, and all that was decided and found out at its end."""
        batch = snapshot.batch
        if batch % self._block == 0:
            self._plans = {}
            self.compact(batch)
        tables = tables_of(snapshot, decisions, outcomes)
        tables["plans"] = self._new_plans(tables["plans"], batch)
        for kind in SCHEMAS:
            part = Part(kind, batch, batch)
            if kind in tables and tables[kind].num_rows:
                self._write(part, [tables[kind]])
            else:
                self._delete([part])  # of an attempt that did not count

    def _new_plans(self, rows: pa.Table, batch: int) -> pa.Table:
        names = rows["plan"].to_pylist()
        for name in names:
            self._plans.setdefault(name, batch)
        return rows.filter(pa.array([self._plans[name] == batch for name in names]))

    def compact(self, batch: int) -> None:
        """Merge the files of all blocks that ended before a batch, and delete what is too old."""
        for kind in SCHEMAS:
            parts, _ = _parts(self._store, kind)
            kept = self._kept * (_LONGER if kind in _LONG else 1)
            self._delete(part for part in parts if part.last < batch - kept)
            blocks: dict[int, list[Part]] = {}
            for part in parts:
                is_over = part.last // self._block < batch // self._block
                if part.first == part.last and is_over and part.last >= batch - kept:
                    blocks.setdefault(part.first // self._block, []).append(part)
            for block, small in blocks.items():
                first = block * self._block
                merged = Part(kind, first, first + self._block - 1)
                self._write(merged, (_read(self._store, part) for part in small))
                self._delete(small)

    def _write(self, part: Part, tables: Iterable[pa.Table]) -> None:
        sink = pa.BufferOutputStream()
        # A file of one batch is written in the batch's time and soon merged.
        compression = "snappy" if part.first == part.last else "zstd"
        with pq.ParquetWriter(sink, SCHEMAS[part.kind], compression=compression) as writer:
            for group in _gathered(tables):
                writer.write_table(group)
        self._store.write(part.name, [sink.getvalue()])

    def _delete(self, parts: Iterable[Part]) -> None:
        self._store.delete(part.name for part in parts)


def has_history(store: Store) -> bool:
    """Tell whether anything was recorded beside a checkpoint."""
    return bool(_parts(store, "batches")[0])


def read_history(
    checkpoint: str, last: int | None = None
) -> tuple[list[Snapshot], list[Decision], list[Outcome]]:
    """Read what was recorded beside a checkpoint, oldest first; `last`: only so many batches.

    It may be of a flow that is running.
    """
    store = Store(checkpoint)
    for _ in range(3):
        try:
            return _read_all(store, last)
        except FileNotFoundError:  # merged while we looked
            continue
    return _read_all(store, last)


def _read_all(
    store: Store, last: int | None
) -> tuple[list[Snapshot], list[Decision], list[Outcome]]:
    batches, _ = _parts(store, "batches")
    if not batches:
        raise InputError(
            f"{store.uri} has no recorded history; give the checkpoint of a flow that was "
            "started with balancing"
        )
    first = 0 if last is None else batches[-1].last - last + 1
    tables = {kind: _rows(store, kind, first) for kind in SCHEMAS}
    plans = decode.plans_of(tables["plans"])
    return (
        decode.snapshots_of(tables, plans),
        decode.decisions_of(tables["decisions"], plans),
        decode.outcomes_of(tables["outcomes"]),
    )


def _rows(store: Store, kind: str, first: int) -> pa.Table:
    """Return the rows from a batch on; of plans all, as they stand where they were first used."""
    parts, _ = _parts(store, kind)
    tables = [_read(store, part) for part in parts if part.last >= first or kind == "plans"]
    rows = pa.concat_tables([SCHEMAS[kind].empty_table(), *tables])
    if "batch" not in rows.column_names or not first:
        return rows
    return rows.filter(pc.greater_equal(rows["batch"], first))


def _read(store: Store, part: Part) -> pa.Table:
    return pq.read_table(pa.BufferReader(store.read(part.name)), schema=SCHEMAS[part.kind])


def _parts(store: Store, kind: str) -> tuple[list[Part], list[Part]]:
    """Return the files of a kind in order, and those that a wider one has made needless."""
    found = []
    for name in store.names(f"{FOLDER}/{kind}"):
        first, _, rest = name.removesuffix(".parquet").partition("-")
        found.append(Part(kind, int(first), int(rest)))
    found.sort(key=lambda part: (part.first, -part.last))
    used: list[Part] = []
    for part in found:
        if not used or part.last > used[-1].last:
            used.append(part)
    return used, [part for part in found if part not in used]


def _gathered(tables: Iterable[pa.Table]) -> Iterable[pa.Table]:
    """Put small tables together, so that a file has few groups of rows and none is huge."""
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        if rows >= _GROUP_ROWS:
            yield pa.concat_tables(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_tables(waiting)
