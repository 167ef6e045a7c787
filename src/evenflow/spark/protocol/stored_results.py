"""Reads committed results from the files of a checkpoint, without Spark; the run may be running."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from evenflow.errors import InputError
from evenflow.model.results_page import ResultPosition, ResultsPage
from evenflow.names import join_names
from evenflow.spark.protocol.ledger import Entry, Ledger
from evenflow.spark.protocol.registry import Hosted
from evenflow.spark.protocol.results_index import (
    BATCH_FIELD,
    ReadUnit,
    ResultsIndex,
    name_batches,
)
from evenflow.storage.file_store import FileStore

MAX_PAGE_BYTES = 4 << 20


class StoredResults:
    """The results in a checkpoint, by the names of queries. Stateless, so threads may share it."""

    def __init__(self, store: FileStore) -> None:
        self.store = store
        self._index = ResultsIndex(Ledger(store))
        self._ledger = self._index.ledger

    def head(self) -> Entry:
        """Return the entry of the next batch."""
        entry = self._ledger.last_entry()
        if entry is None:
            raise InputError(f"{self.store.uri} is not a checkpoint of Evenflow, or it is empty")
        return entry

    def names(self) -> list[str]:
        """Return the queries that have results: hosted ones and cancelled ones."""
        hosted = self._ledger.registry(self.head().registry_version).queries.values()
        giving = {query.name for query in hosted if query.replaces is None}
        return sorted({*giving, *self._ledger.cancelled_names()})

    def versions(self, name: str) -> tuple[Hosted, ...]:
        """Return what had or has this name, oldest first: cancelled, then hosted."""
        hosted = self._ledger.registry(self.head().registry_version).queries.get(name)
        cancelled = name in self._ledger.cancelled_names()
        found = [self._ledger.cancelled_query(name)] if cancelled else []
        if hosted is not None and hosted.uid not in {query.uid for query in found}:
            found.append(hosted)
        if not found:
            raise InputError(f"there is no query {name!r}; there are {join_names(self.names())}")
        return tuple(found)

    def table(
        self,
        name: str,
        since: int | None = None,
        until: int | None = None,
        limit: int | None = None,
        batch: str | None = None,
    ) -> pa.Table:
        """Return the results of the batches from `since`, or the first kept, to before `until`.

        `limit` keeps only the newest rows; `batch` names a column to add, with the batch number.
        """
        query, committed = self.versions(name)[-1], self.head().batch
        end = committed if until is None else min(until, committed)
        taken, left = [], limit
        for number, rows in self._tables(query, since, end, newest_first=limit is not None):
            kept = rows if left is None else rows.slice(max(0, len(rows) - left))
            taken.append(kept if batch is None else with_number(kept, batch, number))
            if left is not None:
                left -= len(kept)
                if left <= 0:
                    break
        schema = query.schema if batch is None else query.schema.append(pa.field(batch, pa.int64()))
        ordered = taken if limit is None else taken[::-1]
        return pa.concat_tables([schema.empty_table(), *ordered])

    def page(self, name: str, since: ResultPosition | None, limit: int) -> ResultsPage:
        """Return up to `limit` rows from a position on; without one, the newest rows."""
        query, committed = self.versions(name)[-1], self.head().batch
        if since is None:
            return self._newest_page(query, limit, committed)
        taken: list[pa.Table] = []
        left, space, row, batch = limit, MAX_PAGE_BYTES, 0, -1
        following = max(since, ResultPosition(committed))
        for number, table in self._tables(query, since.batch, committed):
            row, batch = (row if number == batch else 0), number
            skipped = min(len(table), max(0, since.row - row)) if number == since.batch else 0
            rest = table.slice(skipped)
            count = _fitting_rows(rest, left, space, at_least=int(left == limit))
            taken.append(rest.slice(0, count))
            left, space = left - count, space - taken[-1].nbytes
            if count < len(rest):
                following = ResultPosition(number, row + skipped + count)
                break
            row += len(table)
        rows = pa.concat_tables([query.schema.empty_table(), *taken])
        return ResultsPage(rows, since, following, committed)

    def _tables(
        self, query: Hosted, first: int | None, end: int, *, newest_first: bool = False
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield the rows of each batch in the order of batches, with the batch."""
        for uid, unit in self._units(query, first, end, newest_first=newest_first):
            rows = self._index.read("results", uid, unit)
            starts, numbers = _batch_starts(rows[BATCH_FIELD])
            rows = name_batches(rows, None)
            tables = [
                (number, rows.slice(start, stop - start))
                for number, (start, stop) in zip(numbers, pairwise(starts), strict=True)
            ]
            yield from reversed(tables) if newest_first else tables

    def _units(
        self, query: Hosted, first: int | None, end: int, *, newest_first: bool
    ) -> Iterator[tuple[str, ReadUnit]]:
        """Yield where results are, also those of earlier definitions, which ended before."""
        uids = (*query.continues, query.uid)
        for uid in reversed(uids) if newest_first else uids:
            for unit in self._index.units("results", uid, first, end, newest_first=newest_first):
                yield uid, unit

    def _newest_page(self, query: Hosted, limit: int, committed: int) -> ResultsPage:
        taken: list[pa.Table] = []
        left, space, first = limit, MAX_PAGE_BYTES, ResultPosition(committed)
        for batch, rows in self._tables(query, None, committed, newest_first=True):
            count = _fitting_rows(rows, left, space, at_least=int(left == limit))
            taken.append(rows.slice(len(rows) - count))
            left, space = left - count, space - taken[-1].nbytes
            first = ResultPosition(batch, len(rows) - count)
            if count < len(rows) or not left:
                break
        found = pa.concat_tables([query.schema.empty_table(), *taken[::-1]])
        return ResultsPage(found, first, ResultPosition(committed), committed)


def _batch_starts(batches: pa.ChunkedArray) -> tuple[list[int], list[int]]:
    """Return where the rows of each batch start, and the end; and the numbers of the batches.

    >>> _batch_starts(pa.chunked_array([[3, 3, 5]]))
    ([0, 2, 3], [3, 5])
    """
    numbers = batches.to_numpy()
    if not len(numbers):
        return [0], []
    starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
    return [*starts.tolist(), len(numbers)], numbers[starts].tolist()


def with_number(rows: pa.Table, column: str, batch: int) -> pa.Table:
    """Return rows with one more column: the number of the batch that wrote them."""
    return rows.append_column(column, pa.repeat(pa.scalar(batch, pa.int64()), len(rows)))


def _fitting_rows(rows: pa.Table, limit: int, space: int, at_least: int) -> int:
    """Return how many rows fit into a number and a size."""
    if rows.nbytes > space:
        limit = min(limit, max(at_least, len(rows) * max(0, space) // rows.nbytes))
    return min(limit, len(rows))
