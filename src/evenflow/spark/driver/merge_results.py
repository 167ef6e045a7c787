"""Merge results of many batches into few files, and remove old ones.

A block is merged from the indexes of 64 batches, later from 64 blocks, and once more. Only small
files are written again: into one file for a run of batches, with one part for each query. So a row
is written at most three times, whatever is kept.
"""

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from evenflow.model.retention import Retention
from evenflow.spark.protocol.ledger import BLOCK_BATCHES, Entry, results_folder
from evenflow.spark.protocol.results_index import (
    Block,
    BlockList,
    IndexRecord,
    ResultPart,
    concat_rows,
    index_file,
    with_batches,
)
from evenflow.storage.bundle import Bundle, pack, read_part, unpack
from evenflow.storage.fault_points import fault_point
from evenflow.storage.file_store import FileStore

USEFUL_BYTES = 8 << 20  # a file of this size is not merged again
MERGED_BYTES = 64 << 20  # a merged file is closed at this size
MERGED_ROWS = 2_000_000
BLOCK_SIZES = (BLOCK_BATCHES, BLOCK_BATCHES**2, BLOCK_BATCHES**3)
MERGED_FOLDER, BLOCK_FOLDER, LIST_FOLDER = "results/merged", "results/blocks", "results/lists"


@dataclass
class BatchRun:
    """Results of consecutive batches that are stored together, as far as an index tells."""

    first: int
    last: int
    parts: dict[tuple[str, str], list[ResultPart]] = field(
        default_factory=lambda: defaultdict(list)
    )

    @property
    def size_bytes(self) -> int:
        """The size of its parts."""
        return sum(part.ref.length for parts in self.parts.values() for part in parts)

    @property
    def rows(self) -> int:
        """The rows of its parts."""
        return sum(part.rows for parts in self.parts.values() for part in parts)

    @property
    def files(self) -> set[str]:
        """The files that hold its parts."""
        return {part.ref.file for parts in self.parts.values() for part in parts}

    @property
    def is_useful(self) -> bool:
        """Whether its files are large enough to stay as they are."""
        return self.size_bytes >= USEFUL_BYTES * max(1, len(self.files))


def next_span(listed: BlockList, committed: int, keep: Retention) -> tuple[int, int] | None:
    """Return the first and last batch of the next block to merge, the smallest blocks first.

    >>> next_span(BlockList(), 130, Retention())
    (0, 63)
    """
    end = listed.end - listed.end % BLOCK_BATCHES + BLOCK_BATCHES
    if end <= committed:
        return listed.end, end - 1
    for size in BLOCK_SIZES[1:]:
        by_block: dict[int, list[Block]] = defaultdict(list)
        for block in listed.blocks:
            if block.first // size == block.last // size:
                by_block[block.first // size].append(block)
        for at, blocks in by_block.items():
            is_complete = (at + 1) * size <= listed.end
            if len(blocks) > 1 and is_complete and _is_short(blocks, keep):
                return blocks[0].first, blocks[-1].last
    return None


def _is_short(blocks: Sequence[Block], keep: Retention) -> bool:
    """Whether a block of all these is short against what is kept: it is removed as a whole."""
    if keep.batches is not None:
        return 4 * (blocks[-1].last + 1 - blocks[0].first) <= keep.batches
    return keep.seconds is None or 4 * (blocks[-1].at - blocks[0].at) <= keep.seconds


def removable(listed: BlockList, committed: int, now: float, keep: Retention) -> int:
    """Return how many of the first blocks only have results that need not be kept."""
    count = 0
    for block in listed.blocks:
        if keep.batches is not None:
            is_old = block.last < committed - keep.batches
        else:
            is_old = keep.seconds is not None and block.at < now - keep.seconds
        if not is_old:
            break
        count += 1
    return count


def batch_runs(records: Iterable[IndexRecord]) -> list[BatchRun]:
    """Return the runs of batches that indexes consist of, in order; they do not overlap."""
    runs: dict[tuple[int, int], BatchRun] = {}
    for record in records:
        for kind, name, part in record.all_parts():
            span = (part.first, part.last)
            runs.setdefault(span, BatchRun(*span)).parts[kind, name].append(part)
    return [runs[span] for span in sorted(runs)]


def groups_to_merge(runs: Iterable[BatchRun]) -> Iterator[list[BatchRun]]:
    """Yield neighbours that become one file; a run that stays as it is comes alone."""
    group: list[BatchRun] = []
    for run in runs:
        full = sum(r.size_bytes for r in group) >= MERGED_BYTES
        full = full or sum(r.rows for r in group) >= MERGED_ROWS
        if group and (full or run.is_useful):
            yield group
            group = []
        if run.is_useful:
            yield [run]
        else:
            group.append(run)
    if group:
        yield group


class ResultsMerger:
    """Writes the next list of blocks; nothing of it counts before an entry names the list.

    `pause` is called between two parts, so that others get the interpreter.
    """

    def __init__(
        self, store: FileStore, head: Entry, listed: BlockList, pause: Callable[[], None]
    ) -> None:
        self.store, self.head, self.listed, self.pause = store, head, listed, pause
        self.number = listed.number + 1
        self.obsolete: list[str] = []
        self._files_written = 0

    def merge(self, first: int, last: int) -> None:
        """Merge the batches from `first` to `last`, single ones or blocks."""
        blocks = [b for b in self.listed.blocks if first <= b.first and b.last <= last]
        index_files = [block.file for block in blocks]
        if not blocks:
            epoch_of = self.head.committed_by
            index_files = [index_file(batch, epoch_of(batch)) for batch in range(first, last + 1)]
        records = [self.store.read_record(file, IndexRecord) for file in index_files]
        merged = IndexRecord(max(record.at for record in records))
        for group in groups_to_merge(batch_runs(records)):
            self._write_group(group, merged)
        fault_point("merge.data")
        old_files = {file for record in records for file in record.files()}
        if not blocks:  # with what failed attempts left
            folder = results_folder(first)
            old_files |= {f"{folder}/{name}" for name in self.store.list_names(folder)}
        name = f"{self.number:012d}-{first:012d}-{last:012d}-{uuid.uuid4().hex[:12]}"
        block = Block(first, last, merged.at, f"{BLOCK_FOLDER}/{name}")
        self.store.write_record(block.file, merged)
        fault_point("merge.index")
        self.obsolete += [*index_files, *sorted(old_files - merged.files())]
        others = [b for b in self.listed.blocks if b.last < first or b.first > last]
        sorted_blocks = sorted([*others, block], key=lambda b: b.first)
        self.listed = replace(self.listed, blocks=tuple(sorted_blocks))

    def remove(self, count: int) -> None:
        """Remove the first blocks and their results."""
        removed, kept = self.listed.blocks[:count], self.listed.blocks[count:]
        for block in removed:
            record = self.store.read_record(block.file, IndexRecord)
            self.obsolete += [block.file, *sorted(record.files())]
        self.listed = replace(self.listed, blocks=kept, first_kept=removed[-1].last + 1)

    def write_list(self, replaced: str | None) -> str:
        """Write the list and return its name; `replaced` is the list before."""
        self.obsolete += [] if replaced is None else [replaced]
        listed = replace(self.listed, number=self.number, obsolete=tuple(self.obsolete))
        name = f"{LIST_FOLDER}/{self.number:012d}-{uuid.uuid4().hex[:12]}"
        self.store.write_record(name, listed)
        fault_point("merge.list")
        return name

    def _write_group(self, group: list[BatchRun], merged: IndexRecord) -> None:
        keys = sorted({key for run in group for key in run.parts})
        files = {file for run in group for file in run.files}
        if len(files) == 1 or (len(group) == 1 and group[0].is_useful):
            for run in group:
                for (kind, name), parts in run.parts.items():
                    for part in parts:
                        merged.add(kind, name, part)
            return
        first, last = group[0].first, group[-1].last
        self._files_written += 1
        name = f"{self.number:012d}-{self._files_written:06d}-{uuid.uuid4().hex[:12]}"
        bundle = Bundle(f"{MERGED_FOLDER}/{name}")
        for kind, query in keys:
            parts = [part for run in group for part in run.parts.get((kind, query), ())]
            rows = self._concatenate(parts)
            ref = bundle.add(pack(rows, codec="lz4"))
            merged.add(kind, query, ResultPart(ref, rows.num_rows, first, last))
        bundle.write(self.store, durable=True)

    def _concatenate(self, parts: Iterable[ResultPart]) -> pa.Table:
        tables = []
        for part in parts:
            tables.append(with_batches(unpack(read_part(self.store, part.ref)), part))
            self.pause()
        return concat_rows(tables).combine_chunks()
