"""Recorded history beside a checkpoint: Parquet files that grow, are merged, and go.

A border writes one file (`recent`), under a name made of the batch's number, so a batch that is run
again writes the same file again. Beside the batches, on a thread, the files of a group of batches
become Parquet, one file of each kind; of what is kept for long, those of a finished block of
batches are merged into one. What is new is written before what it replaces is deleted: a reader
takes the wider of two that overlap, and Parquet before what is recent; whoever opens the history
next deletes what was left.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from evenflow.errors import InputError
from evenflow.history import decode, recent
from evenflow.history.encode import Tables, tables_of
from evenflow.history.schema import SCHEMAS
from evenflow.model import Decision, Outcome, Snapshot
from evenflow.store import Store

FOLDER = "history"
GROUP = 16
BLOCK = 64
KEPT_BATCHES = 1024
# Small, and what is asked for long afterwards.
_LONG = frozenset({"decisions", "outcomes", "plans"})
_LONGER = 16
_GROUP_ROWS = 100_000
_DISTINCT = (pa.float64(), pa.uint64())


class Part(NamedTuple):
    """A file and the batches that it holds."""

    kind: str
    first: int
    last: int

    @property
    def batches(self) -> int:
        """How many batches it has room for."""
        return self.last - self.first + 1

    @property
    def name(self) -> str:
        """Its name below the checkpoint."""
        return f"{FOLDER}/{self.kind}/{self.first:012d}-{self.last:012d}.parquet"


class History:
    """Appends to the history of one checkpoint; the last `kept` batches stay.

    Batches become Parquet when the `group` that they belong to is over, or when it is closed.
    """

    def __init__(
        self, store: Store, kept: int = KEPT_BATCHES, block: int = BLOCK, group: int = GROUP
    ) -> None:
        if block % group:
            raise ValueError(f"a block of {block} batches is not made of whole groups of {group}")
        self._store = store
        self._kept = max(kept, block)
        self._block, self._group = block, group
        self._plans: dict[str, int] = {}  # those of this block, and the batch whose file has them
        self._planned = -1  # the block
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="evenflow-history")
        self._filing: Future[None] | None = None
        self._recent = recent.read(store)
        for kind in SCHEMAS:
            _, strays = _parts(store, kind)
            self._delete(strays)

    def append(
        self,
        snapshot: Snapshot,
        decisions: Sequence[Decision] = (),
        outcomes: Sequence[Outcome] = (),
    ) -> None:
        """Record a batch, and all that was decided and found out at its end.

        Those before it are committed by now, so that they are recorded for good.
        """
        batch = snapshot.batch
        tables = tables_of(snapshot, decisions, outcomes)
        tables["plans"] = self._new_plans(tables["plans"], batch)
        recent.write(self._store, batch, tables)
        begun = batch // self._group * self._group
        over = self._take(begun)
        self._recent = {b: rows for b, rows in self._recent.items() if b < batch} | {batch: tables}
        if over:
            self.wait()
            self._filing = self._thread.submit(self._file, over, batch)

    def close(self, head: int) -> None:
        """Make Parquet of everything before the batch that comes next; it is final."""
        self.wait()
        last, self._recent = self._take(head), {}
        if last:
            self._file(last, head)

    def _take(self, before: int) -> dict[int, Tables]:
        """Return what is recent and older than a batch; it counts as recent no longer."""
        taken = {b: rows for b, rows in self._recent.items() if b < before}
        self._recent = {b: rows for b, rows in self._recent.items() if b >= before}
        return taken

    def wait(self) -> None:
        """Wait for the thread, and raise what it failed by."""
        if self._filing is not None:
            filing, self._filing = self._filing, None
            filing.result()

    def _file(self, batches: Mapping[int, Tables], now: int) -> None:
        """Make Parquet of batches, a file for each group."""
        for _, group in groupby(sorted(batches), lambda batch: batch // self._group):
            numbers = list(group)
            for kind in SCHEMAS:
                rows = [batches[b][kind] for b in numbers if kind in batches[b]]
                if any(map(len, rows)):
                    self._write(Part(kind, numbers[0], numbers[-1]), rows)
            recent.delete(self._store, numbers)
        self._tidy(now)

    def _new_plans(self, rows: pa.Table, batch: int) -> pa.Table:
        if self._planned != batch // self._block:
            self._plans, self._planned = {}, batch // self._block
        names = rows["plan"].to_pylist()
        for name in names:
            self._plans.setdefault(name, batch)
        return rows.filter(pa.array([self._plans[name] == batch for name in names]))

    def _tidy(self, batch: int) -> None:
        """Delete what is too old, and merge the files of blocks that ended before a batch."""
        for kind in SCHEMAS:
            parts, _ = _parts(self._store, kind)
            first = batch - self._kept * (_LONGER if kind in _LONG else 1)
            self._delete(part for part in parts if part.last < first)
            if kind in _LONG:  # the others are large, and few
                self._merge([part for part in parts if part.last >= first], batch)

    def _merge(self, parts: Iterable[Part], batch: int) -> None:
        blocks: dict[int, list[Part]] = {}
        for part in parts:
            is_over = part.last // self._block < batch // self._block
            if part.batches < self._block and is_over:
                blocks.setdefault(part.first // self._block, []).append(part)
        for block, small in blocks.items():
            first = block * self._block
            merged = Part(small[0].kind, first, first + self._block - 1)
            self._write(merged, (_read(self._store, part) for part in small))
            self._delete(small)

    def _write(self, part: Part, tables: Iterable[pa.Table]) -> None:
        sink, schema = pa.BufferOutputStream(), SCHEMAS[part.kind]
        # Hashes and measurements hardly ever repeat.
        repeating = [field.name for field in schema if field.type not in _DISTINCT]
        with pq.ParquetWriter(sink, schema, use_dictionary=repeating) as writer:
            for group in _gathered(tables):
                writer.write_table(group)
        self._store.write(part.name, [sink.getvalue()])

    def _delete(self, parts: Iterable[Part]) -> None:
        self._store.delete(part.name for part in parts)


def has_history(store: Store) -> bool:
    """Tell whether anything was recorded beside a checkpoint."""
    return bool(store.names(recent.FOLDER) or _parts(store, "batches")[0])


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
    waiting = recent.read(store)  # first: what becomes Parquet meanwhile is found twice, not never
    parts = {kind: _parts(store, kind)[0] for kind in SCHEMAS}
    batches = [*(part.last for part in parts["batches"]), *waiting]
    if not batches:
        raise InputError(
            f"{store.uri} has no recorded history; give the checkpoint of a flow that was "
            "started with balancing"
        )
    first = 0 if last is None else max(batches) - last + 1
    tables = {kind: _rows(store, kind, parts[kind], waiting, first) for kind in SCHEMAS}
    plans = decode.plans_of(tables["plans"])
    return (
        decode.snapshots_of(tables, plans),
        decode.decisions_of(tables["decisions"], plans),
        decode.outcomes_of(tables["outcomes"]),
    )


def _rows(
    store: Store, kind: str, parts: list[Part], waiting: Mapping[int, Tables], first: int
) -> pa.Table:
    """Return the rows from a batch on; of plans all, as they stand where they were first used."""
    tables = [_read(store, part) for part in parts if part.last >= first or kind == "plans"]
    tables += [
        rows[kind]
        for batch, rows in sorted(waiting.items())
        if kind in rows and not any(part.first <= batch <= part.last for part in parts)
    ]
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
