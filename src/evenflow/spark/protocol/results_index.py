"""The index of committed results: which parts of files hold the rows of a query and a batch.

The index of a batch is written before the batch is committed, under a name with the epoch of the
driver: that of a driver that was fenced is never read. Later, batches are merged into blocks
(`spark/driver/merge_results.py`). The ledger entry names the list of blocks, so a merge, or a
removal of old results, takes effect with a commit: as a whole, and only for the driver that
commits.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.errors import ResultsRemovedError
from evenflow.spark.protocol.ledger import Entry, Ledger
from evenflow.spark.protocol.report import Report
from evenflow.storage.bundle import PartRef, read_part, unpack

BATCH_FIELD = "\x01batch"  # column of a merged part: the batch of each row
_READ_ATTEMPTS = 5


class ResultPart(NamedTuple):
    """Rows of one query, or poison rows of one stream, of the batches from `first` to `last`."""

    ref: PartRef
    rows: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class IndexRecord:
    """The parts of one batch or one block, by query uid or stream; `at`: time of its commit."""

    at: float = 0.0
    results: dict[str, list[ResultPart]] = field(default_factory=lambda: defaultdict(list))
    poison: dict[str, list[ResultPart]] = field(default_factory=lambda: defaultdict(list))

    def all_parts(self) -> Iterator[tuple[str, str, ResultPart]]:
        """Yield kind, name and part, for all parts."""
        for kind, by_name in (("results", self.results), ("poison", self.poison)):
            for name, parts in by_name.items():
                for part in parts:
                    yield kind, name, part

    def add(self, kind: str, name: str, part: ResultPart) -> None:
        """Add a part."""
        by_name = self.results if kind == "results" else self.poison
        by_name.setdefault(name, []).append(part)

    def files(self) -> set[str]:
        """Return the files that hold the parts."""
        return {part.ref.file for _, _, part in self.all_parts()}


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive batches that share an index; `at`: time of the last commit."""

    first: int
    last: int
    at: float
    file: str


@dataclass(frozen=True, slots=True)
class BlockList:
    """The blocks that a ledger entry names; later batches have an index each.

    number      counts the lists of a checkpoint
    first_kept  results of earlier batches were removed
    obsolete    files that this list no longer needs; deleted once it is committed
    """

    number: int = 0
    first_kept: int = 0
    blocks: tuple[Block, ...] = ()
    obsolete: tuple[str, ...] = ()

    @property
    def end(self) -> int:
        """The first batch that is in no block."""
        return self.blocks[-1].last + 1 if self.blocks else self.first_kept


class ReadUnit(NamedTuple):
    """Parts with all of a query's rows in the batches `first` to `last`, and maybe others."""

    first: int
    last: int
    parts: list[ResultPart]


def concat_rows(tables: list[pa.Table]) -> pa.Table:
    """Concatenate rows; of a source that got more columns, earlier ones have NULL there."""
    same = all(table.schema.names == tables[0].schema.names for table in tables)
    return pa.concat_tables(tables, promote_options="none" if same else "default")


def index_file(batch: int, epoch: int) -> str:
    """Return the name of the index of one batch, as a driver writes it before the commit."""
    return f"results/index/{batch:012d}-{epoch:06d}"


def with_batches(rows: pa.Table, part: ResultPart) -> pa.Table:
    """Return the rows of a part with the batch of each row in `BATCH_FIELD`."""
    if BATCH_FIELD in rows.column_names:
        return rows
    batch = pa.repeat(pa.scalar(part.first, pa.int64()), rows.num_rows)
    return rows.append_column(BATCH_FIELD, batch)


def name_batches(rows: pa.Table, column: str | None) -> pa.Table:
    """Return rows with `BATCH_FIELD` under another name; without it for None."""
    if column is None:
        return rows.drop_columns([BATCH_FIELD])
    names = [column if name == BATCH_FIELD else name for name in rows.column_names]
    return rows.rename_columns(names)


class ResultsIndex:
    """Finds and reads results and poison rows. Stateless but for a cache; threads may share it."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.store = ledger, ledger.store
        self._cached: tuple[str | None, BlockList] = (None, BlockList())

    def write(self, batch: int, reports: Iterable[Report], at: float) -> None:
        """Write the index of one batch; an empty one replaces that of a failed attempt."""
        index = IndexRecord(at)
        for report in reports:
            for kind, parts in (("results", report.results), ("poison", report.poison)):
                for name, (ref, rows) in parts.items():
                    index.add(kind, name, ResultPart(PartRef(*ref), rows, batch, batch))
        self.store.write_record(index_file(batch, self.ledger.epoch), index)

    def block_list(self, entry: Entry) -> BlockList:
        """Return the list of blocks that an entry names."""
        file, blocks = self._cached
        if file != entry.block_list:
            blocks = BlockList()
            if entry.block_list is not None:
                blocks = self.store.read_record(entry.block_list, BlockList)
            self._cached = (entry.block_list, blocks)
        return blocks

    def first_kept(self) -> int:
        """Return the first batch whose results are still there."""
        return self._read_list()[1].first_kept

    def units(
        self,
        kind: str,
        name: str,
        first: int | None = None,
        until: int | None = None,
        *,
        newest_first: bool = False,
    ) -> Iterator[ReadUnit]:
        """Yield a query's committed results from batch `first` to before `until`.

        With kind `poison`, a stream's poison rows. Without `first`, from the first that are kept.
        The index is read file by file, as far as the caller goes on.
        """
        head, listed = self._read_list()
        first = listed.first_kept if first is None else first
        end = head.batch if until is None else min(until, head.batch)
        while first < end:
            if first < listed.first_kept:
                raise ResultsRemovedError(
                    f"results of the batches {first} to {min(end, listed.first_kept) - 1} were "
                    f"removed, as `results: keep` asks; read from batch {listed.first_kept} on"
                )
            block = _block_at(head, listed, end - 1 if newest_first else first)
            try:
                record = self.store.read_record(block.file, IndexRecord)
            except FileNotFoundError:
                before, (head, listed) = head, self._read_list()
                if head.block_list == before.block_list:
                    raise self.store.damage(block.file, "it is missing") from None
                continue  # merged or removed in the meantime
            parts = (record.results if kind == "results" else record.poison).get(name, [])
            parts = [part for part in parts if part.last >= first and part.first < end]
            units = [
                ReadUnit(max(span[0], first), min(span[1], end - 1), list(group))
                for span, group in groupby(sorted(parts, key=_span), key=_span)
            ]
            yield from reversed(units) if newest_first else units
            if newest_first:
                end = block.first
            else:
                first = block.last + 1

    def read_units(
        self, kind: str, name: str, first: int | None = None, until: int | None = None
    ) -> list[ReadUnit]:
        """Return what `units` yields."""
        return list(self.units(kind, name, first, until))

    def read(self, kind: str, name: str, unit: ReadUnit) -> pa.Table:
        """Return the rows of a unit, with `BATCH_FIELD`.

        They are in the order of batches. Files that were merged since the unit was made are found
        again by the index.
        """
        parts = unit.parts
        for _ in range(_READ_ATTEMPTS):
            try:
                tables = [self._rows_between(part, unit.first, unit.last) for part in parts]
                return concat_rows(tables)
            except FileNotFoundError as error:
                missing = error
            units = self.read_units(kind, name, unit.first, unit.last + 1)
            parts = [part for found in units for part in found.parts]
        raise missing

    def _rows_between(self, part: ResultPart, first: int, last: int) -> pa.Table:
        rows = with_batches(unpack(read_part(self.store, part.ref)), part)
        if part.first >= first and part.last <= last:
            return rows
        batch = rows[BATCH_FIELD]
        return rows.filter(pc.and_(pc.greater_equal(batch, first), pc.less_equal(batch, last)))

    def _read_list(self) -> tuple[Entry, BlockList]:
        """Return the entry of the next batch and its list of blocks; a run may be running."""
        for _ in range(_READ_ATTEMPTS):
            try:
                head = self.ledger.head or self.ledger.last_entry()
                if head is None:
                    raise self.store.damage("ledger", "it has no entries")
                return head, self.block_list(head)
            except FileNotFoundError as error:  # replaced in the meantime
                missing = error
        raise missing


def _block_at(head: Entry, listed: BlockList, batch: int) -> Block:
    """Return the block of a batch, or one for the batch alone."""
    at = bisect_right(listed.blocks, batch, key=lambda block: block.first) - 1
    if at >= 0 and batch <= listed.blocks[at].last:
        return listed.blocks[at]
    return Block(batch, batch, 0.0, index_file(batch, head.committed_by(batch)))


def _span(part: ResultPart) -> tuple[int, int]:
    return part.first, part.last
