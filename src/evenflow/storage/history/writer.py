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
from evenflow.model import Decision, Outcome, Snapshot
from evenflow.storage.file_store import FileStore
from evenflow.storage.history import decode, pending
from evenflow.storage.history.encode import TablesByKind, encode_batch
from evenflow.storage.history.schema import SCHEMAS

HISTORY_FOLDER = "history"
BATCHES_PER_GROUP = 16
BATCHES_PER_BLOCK = 64
RETAINED_BATCHES = 1024
# Small, and what is asked for long afterwards.
_LONG_RETENTION_KINDS = frozenset({"decisions", "outcomes", "plans"})
_LONG_RETENTION_FACTOR = 16
_MIN_ROW_GROUP_ROWS = 100_000
_HIGH_CARDINALITY_TYPES = (pa.float64(), pa.uint64())


class HistoryFile(NamedTuple):
    """A file and the batches that it holds."""

    kind: str
    first_batch: int
    last_batch: int

    @property
    def batch_count(self) -> int:
        """How many batches it has room for."""
        return self.last_batch - self.first_batch + 1

    @property
    def path(self) -> str:
        """Its name below the checkpoint."""
        return (
            f"{HISTORY_FOLDER}/{self.kind}/{self.first_batch:012d}-{self.last_batch:012d}.parquet"
        )


class HistoryWriter:
    """Appends to the history of one checkpoint; the last `kept` batches stay.

    Batches become Parquet when the `group` that they belong to is over, or when it is closed.
    """

    def __init__(
        self,
        store: FileStore,
        kept: int = RETAINED_BATCHES,
        block: int = BATCHES_PER_BLOCK,
        group: int = BATCHES_PER_GROUP,
    ) -> None:
        if block % group:
            raise ValueError(f"a block of {block} batches is not made of whole groups of {group}")
        self._store = store
        self._retained_batches = max(kept, block)
        self._batches_per_block, self._batches_per_group = block, group
        self._plan_batches: dict[
            str, int
        ] = {}  # those of this block, and the batch whose file has them
        self._plans_block = -1  # the block
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="evenflow-history")
        self._compaction: Future[None] | None = None
        self._pending = pending.read_pending(store)
        for kind in SCHEMAS:
            _, strays = _list_files(store, kind)
            self._delete_files(strays)

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
        tables = encode_batch(snapshot, decisions, outcomes)
        tables["plans"] = self._plans_new_in_block(tables["plans"], batch)
        pending.write_pending(self._store, batch, tables)
        begun = batch // self._batches_per_group * self._batches_per_group
        over = self._take_pending(begun)
        self._pending = {b: rows for b, rows in self._pending.items() if b < batch} | {
            batch: tables
        }
        if over:
            self.wait_for_compaction()
            self._compaction = self._thread.submit(self._compact, over, batch)

    def close(self, head: int) -> None:
        """Make Parquet of everything before the batch that comes next; it is final."""
        self.wait_for_compaction()
        last, self._pending = self._take_pending(head), {}
        if last:
            self._compact(last, head)

    def _take_pending(self, before: int) -> dict[int, TablesByKind]:
        """Return what is recent and older than a batch; it counts as recent no longer."""
        taken = {b: rows for b, rows in self._pending.items() if b < before}
        self._pending = {b: rows for b, rows in self._pending.items() if b >= before}
        return taken

    def wait_for_compaction(self) -> None:
        """Wait for the thread, and raise what it failed by."""
        if self._compaction is not None:
            filing, self._compaction = self._compaction, None
            filing.result()

    def _compact(self, batches: Mapping[int, TablesByKind], now: int) -> None:
        """Make Parquet of batches, a file for each group."""
        for _, group in groupby(sorted(batches), lambda batch: batch // self._batches_per_group):
            numbers = list(group)
            for kind in SCHEMAS:
                rows = [batches[b][kind] for b in numbers if kind in batches[b]]
                if any(map(len, rows)):
                    self._write_file(HistoryFile(kind, numbers[0], numbers[-1]), rows)
            pending.delete_pending(self._store, numbers)
        self._expire_and_merge(now)

    def _plans_new_in_block(self, rows: pa.Table, batch: int) -> pa.Table:
        if self._plans_block != batch // self._batches_per_block:
            self._plan_batches, self._plans_block = {}, batch // self._batches_per_block
        names = rows["plan"].to_pylist()
        for name in names:
            self._plan_batches.setdefault(name, batch)
        return rows.filter(pa.array([self._plan_batches[name] == batch for name in names]))

    def _expire_and_merge(self, batch: int) -> None:
        """Delete what is too old, and merge the files of blocks that ended before a batch."""
        for kind in SCHEMAS:
            parts, _ = _list_files(self._store, kind)
            first = batch - self._retained_batches * (
                _LONG_RETENTION_FACTOR if kind in _LONG_RETENTION_KINDS else 1
            )
            self._delete_files(part for part in parts if part.last_batch < first)
            if kind in _LONG_RETENTION_KINDS:  # the others are large, and few
                self._merge_blocks([part for part in parts if part.last_batch >= first], batch)

    def _merge_blocks(self, parts: Iterable[HistoryFile], batch: int) -> None:
        blocks: dict[int, list[HistoryFile]] = {}
        for part in parts:
            is_over = part.last_batch // self._batches_per_block < batch // self._batches_per_block
            if part.batch_count < self._batches_per_block and is_over:
                blocks.setdefault(part.first_batch // self._batches_per_block, []).append(part)
        for block, small in blocks.items():
            first = block * self._batches_per_block
            merged = HistoryFile(small[0].kind, first, first + self._batches_per_block - 1)
            self._write_file(merged, (_read_file(self._store, part) for part in small))
            self._delete_files(small)

    def _write_file(self, part: HistoryFile, tables: Iterable[pa.Table]) -> None:
        sink, schema = pa.BufferOutputStream(), SCHEMAS[part.kind]
        # Hashes and measurements hardly ever repeat.
        repeating = [field.name for field in schema if field.type not in _HIGH_CARDINALITY_TYPES]
        with pq.ParquetWriter(sink, schema, use_dictionary=repeating) as writer:
            for group in _coalesce(tables):
                writer.write_table(group)
        self._store.write(part.path, [sink.getvalue()])

    def _delete_files(self, parts: Iterable[HistoryFile]) -> None:
        self._store.delete(part.path for part in parts)


def has_history(store: FileStore) -> bool:
    """Tell whether anything was recorded beside a checkpoint."""
    return bool(store.list_names(pending.PENDING_FOLDER) or _list_files(store, "batches")[0])


def read_history(
    checkpoint: str, last: int | None = None
) -> tuple[list[Snapshot], list[Decision], list[Outcome]]:
    """Read what was recorded beside a checkpoint, oldest first; `last`: only so many batches.

    It may be of a flow that is running.
    """
    store = FileStore(checkpoint)
    for _ in range(3):
        try:
            return _read_all(store, last)
        except FileNotFoundError:  # merged while we looked
            continue
    return _read_all(store, last)


def _read_all(
    store: FileStore, last: int | None
) -> tuple[list[Snapshot], list[Decision], list[Outcome]]:
    waiting = pending.read_pending(
        store
    )  # first: what becomes Parquet meanwhile is found twice, not never
    parts = {kind: _list_files(store, kind)[0] for kind in SCHEMAS}
    batches = [*(part.last_batch for part in parts["batches"]), *waiting]
    if not batches:
        raise InputError(
            f"{store.uri} has no recorded history; give the checkpoint of a flow that was "
            "started with balancing"
        )
    first = 0 if last is None else max(batches) - last + 1
    tables = {kind: _read_rows(store, kind, parts[kind], waiting, first) for kind in SCHEMAS}
    plans = decode.decode_plans(tables["plans"])
    return (
        decode.decode_snapshots(tables, plans),
        decode.decode_decisions(tables["decisions"], plans),
        decode.decode_outcomes(tables["outcomes"]),
    )


def _read_rows(
    store: FileStore,
    kind: str,
    parts: list[HistoryFile],
    waiting: Mapping[int, TablesByKind],
    first: int,
) -> pa.Table:
    """Return the rows from a batch on; of plans all, as they stand where they were first used."""
    tables = [
        _read_file(store, part) for part in parts if part.last_batch >= first or kind == "plans"
    ]
    tables += [
        rows[kind]
        for batch, rows in sorted(waiting.items())
        if kind in rows and not any(part.first_batch <= batch <= part.last_batch for part in parts)
    ]
    rows = pa.concat_tables([SCHEMAS[kind].empty_table(), *tables])
    if "batch" not in rows.column_names or not first:
        return rows
    return rows.filter(pc.greater_equal(rows["batch"], first))


def _read_file(store: FileStore, part: HistoryFile) -> pa.Table:
    return pq.read_table(pa.BufferReader(store.read(part.path)), schema=SCHEMAS[part.kind])


def _list_files(store: FileStore, kind: str) -> tuple[list[HistoryFile], list[HistoryFile]]:
    """Return the files of a kind in order, and those that a wider one has made needless."""
    found = []
    for name in store.list_names(f"{HISTORY_FOLDER}/{kind}"):
        first, _, rest = name.removesuffix(".parquet").partition("-")
        found.append(HistoryFile(kind, int(first), int(rest)))
    found.sort(key=lambda part: (part.first_batch, -part.last_batch))
    used: list[HistoryFile] = []
    for part in found:
        if not used or part.last_batch > used[-1].last_batch:
            used.append(part)
    return used, [part for part in found if part not in used]


def _coalesce(tables: Iterable[pa.Table]) -> Iterable[pa.Table]:
    """Put small tables together, so that a file has few groups of rows and none is huge."""
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        if rows >= _MIN_ROW_GROUP_ROWS:
            yield pa.concat_tables(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_tables(waiting)
