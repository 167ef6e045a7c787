"""Writes the history of a checkpoint.

1. A commit writes one Arrow file per batch (pending), with the driver's epoch in its name. A batch
   that runs again replaces its file; that of a driver which was fenced is not read.
2. A thread compacts each group of pending batches into Parquet, one file per kind of row.
3. The small kinds are retained longer: their files are merged, one per block of several groups.

New files are written before old ones are deleted. After a crash both may exist: readers prefer the
file with more batches, and Parquet over pending; the next writer deletes the replaced files.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby

import pyarrow as pa

from evenflow.model import Decision, HistoryKind, Outcome, Snapshot
from evenflow.storage.file_store import FileStore
from evenflow.storage.history.encode import TablesByKind, encode_batch
from evenflow.storage.history.files import (
    HistoryFile,
    delete_pending,
    list_files,
    read_pending,
    write_pending,
)
from evenflow.storage.history.schema import SCHEMAS

BATCHES_PER_GROUP = 16
BATCHES_PER_BLOCK = 64
RETAINED_BATCHES = 1024
_LONG_RETENTION_KINDS = frozenset(
    {HistoryKind.DECISIONS, HistoryKind.OUTCOMES, HistoryKind.PLANS}
)  # small, and useful for a long time
_LONG_RETENTION_FACTOR = 16
# If that of the batches is there, the files of all kinds are.
COMPACTION_ORDER = sorted(SCHEMAS, key=lambda kind: kind == HistoryKind.BATCHES)


class HistoryWriter:
    """Appends batches to the history of one checkpoint and retains the last `retained`.

    Lives in the driver as long as the run. `append` and `close` are called by the thread that
    commits; the writer's own thread compacts and merges.
    """

    def __init__(
        self,
        store: FileStore,
        retained: int = RETAINED_BATCHES,
        block: int = BATCHES_PER_BLOCK,
        group: int = BATCHES_PER_GROUP,
        epoch: int = 0,
        check_fence: Callable[[], None] = lambda: None,
    ) -> None:
        if block % group:
            raise ValueError(f"block must be a multiple of group, got {block} and {group}")
        self._store, self._epoch, self._check_fence = store, epoch, check_fence
        self._retained_batches = max(retained, block)
        self._batches_per_block, self._batches_per_group = block, group
        self._plans_block = -1  # the block of the last batch
        self._plan_batches: dict[str, int] = {}  # plan -> batch of that block that stores it
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="evenflow-history")
        self._compaction: Future[None] | None = None
        compacted = list_files(store, HistoryKind.BATCHES)[0]
        self._pending = {
            batch: rows
            for batch, rows in read_pending(store).items()
            if not any(file.covers(batch) for file in compacted)
        }
        for kind in SCHEMAS:
            self._delete_files(list_files(store, kind)[1])

    def append(
        self,
        snapshot: Snapshot,
        decisions: Sequence[Decision] = (),
        outcomes: Sequence[Outcome] = (),
    ) -> None:
        """Record a batch with its decisions and outcomes; all earlier batches are committed."""
        batch = snapshot.batch
        tables = encode_batch(snapshot, decisions, outcomes)
        tables[HistoryKind.PLANS] = self._plans_new_in_block(tables[HistoryKind.PLANS], batch)
        write_pending(self._store, batch, self._epoch, tables)
        to_compact = self._take_pending(batch // self._batches_per_group * self._batches_per_group)
        # If the batch runs again, it replaces its earlier attempt.
        self._pending = {b: rows for b, rows in self._pending.items() if b < batch}
        self._pending[batch] = tables
        if to_compact:
            self.wait_for_compaction()
            self._compaction = self._thread.submit(self._compact, to_compact, batch)

    def close(self, head: int) -> None:
        """Compact all batches before `head`, the next batch; they are committed."""
        self.wait_for_compaction()
        to_compact, self._pending = self._take_pending(head), {}
        if to_compact:
            self._compact(to_compact, head)

    def wait_for_compaction(self) -> None:
        """Wait for the thread; raise its exception if it failed."""
        if self._compaction is not None:
            compaction, self._compaction = self._compaction, None
            compaction.result()

    def _take_pending(self, before: int) -> dict[int, TablesByKind]:
        """Remove and return the pending batches before a batch."""
        taken = {b: rows for b, rows in self._pending.items() if b < before}
        self._pending = {b: rows for b, rows in self._pending.items() if b >= before}
        return taken

    def _compact(self, batches: Mapping[int, TablesByKind], batch: int) -> None:
        """Turn batches into Parquet, one file for each group and kind."""
        self._check_fence()
        for _, group in groupby(sorted(batches), lambda b: b // self._batches_per_group):
            numbers = list(group)
            for kind in COMPACTION_ORDER:
                rows = [batches[b][kind] for b in numbers if kind in batches[b]]
                if any(map(len, rows)):
                    HistoryFile(kind, numbers[0], numbers[-1]).write(self._store, rows)
            delete_pending(self._store, numbers)
        self._expire_and_merge(batch)

    def _plans_new_in_block(self, rows: pa.Table, batch: int) -> pa.Table:
        """Return the plans that no earlier batch of the block stores."""
        block = batch // self._batches_per_block
        if self._plans_block != block:
            self._plan_batches, self._plans_block = {}, block
        names = rows["plan"].to_pylist()
        return rows.filter(
            pa.array([self._plan_batches.setdefault(name, batch) == batch for name in names])
        )

    def _expire_and_merge(self, batch: int) -> None:
        """Delete files that are too old, and merge those of complete blocks."""
        for kind in SCHEMAS:
            files, _ = list_files(self._store, kind)
            is_long = kind in _LONG_RETENTION_KINDS
            oldest = batch - self._retained_batches * (_LONG_RETENTION_FACTOR if is_long else 1)
            self._delete_files(file for file in files if file.last_batch < oldest)
            if is_long:  # files of the other kinds are large and few
                self._merge_blocks([file for file in files if file.last_batch >= oldest], batch)

    def _merge_blocks(self, files: Iterable[HistoryFile], batch: int) -> None:
        size = self._batches_per_block
        blocks: dict[int, list[HistoryFile]] = {}
        for file in files:
            if file.batch_count < size and file.last_batch // size < batch // size:
                blocks.setdefault(file.first_batch // size, []).append(file)
        for block, small in blocks.items():
            merged = HistoryFile(small[0].kind, block * size, block * size + size - 1)
            merged.write(self._store, (file.read(self._store) for file in small))
            self._delete_files(small)

    def _delete_files(self, files: Iterable[HistoryFile]) -> None:
        self._store.delete(file.path for file in files)
