"""Which workers get a row, for one keyed query: by its key, and for a split key by its content."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from evenflow.model import Plan, hash_keys
from evenflow.model.arrays import Bools, Indices, Workers
from evenflow.model.hashing import hash_contents
from evenflow.spark.protocol.registry import Hosted
from evenflow.spark.worker.row_shares import shares_by_worker

_NO_ROWS: Indices = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class RowRoute:
    """The route of one stream's rows for one keyed query under a plan.

    key         the key's columns
    contents    columns that choose the owner of a row that is divided
    divided_by  keys split by these streams have the rows of this one divided; those of keys that
                are split by others go to all owners
    """

    key: tuple[str, ...]
    query: str
    plan: Plan
    contents: tuple[str, ...] = ()
    divided_by: frozenset[str] = frozenset()

    @property
    def identity(self) -> tuple[object, ...]:
        """Equal for routes that send every row to the same workers."""
        table = self.plan.tables[self.query]
        routing = self.key, table.hashes.tobytes(), table.owners.tobytes()
        return (*routing, self.contents, self.divided_by, table.splits) if table.splits else routing

    def targets(self, rows: pa.Table) -> tuple[Indices | None, Workers]:
        """Return rows and the worker that each goes to; rows are None if each goes to one worker.

        A row of a split key that goes to all its owners occurs once for each.
        """
        keys = [rows[column] for column in self.key]
        hashes = hash_keys(*keys)
        workers = self.plan.route(self.query, hashes)
        table = self.plan.tables[self.query]
        at, which = table.split_rows(hashes) if table.splits else (_NO_ROWS, _NO_ROWS)
        if not len(at):
            return None, workers
        divided = np.array([split.fragmented in self.divided_by for split in table.splits])[which]
        if not divided.all():  # a NULL matches nothing, so nobody else needs the row
            divided |= self._has_null_key(rows.select(self.key).take(pa.array(at)))
        if divided.any():
            contents = rows.select(self.contents).take(pa.array(at[divided]))
            hashed = hash_contents(contents.columns)
            workers[at[divided]] = table.owners_of_rows(which[divided], hashed)
        if divided.all():
            return None, workers
        copied, split_of_row = at[~divided], which[~divided]
        others = [
            (np.repeat(each, len(split.owners) - 1), np.tile(split.owners[1:], len(each)))
            for position in np.unique(split_of_row).tolist()
            for split, each in [(table.splits[position], copied[split_of_row == position])]
        ]
        return (
            np.concatenate([np.arange(len(workers)), *(each for each, _ in others)]),
            np.concatenate([workers, *(to for _, to in others)]).astype(np.int32),
        )

    def _has_null_key(self, keys: pa.Table) -> Bools:
        nulls: Bools = np.zeros(len(keys), dtype=np.bool_)
        for column in keys.columns:
            if column.null_count:
                nulls |= column.is_null().to_numpy()
        return nulls

    def needs(self, rows: pa.Table, worker: int) -> Bools:
        """Mark the rows that a worker gets."""
        at, workers = self.targets(rows)
        if at is None:
            only: Bools = workers == worker
            return only
        needed: Bools = np.zeros(len(rows), dtype=np.bool_)
        needed[at[workers == worker]] = True
        return needed

    def is_copy(self, rows: pa.Table, worker: int) -> Bools:
        """Mark the rows of a worker that the home of their split key also has."""
        at, workers = self.targets(rows)
        copies: Bools = np.zeros(len(rows), dtype=np.bool_)
        if at is not None:
            beyond = slice(len(rows), None)
            copies[at[beyond][workers[beyond] == worker]] = True
        return copies

    def shares(self, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """Return the rows of each worker that gets some."""
        at, workers = self.targets(rows)
        return shares_by_worker(rows, workers, self.plan.workers, at)


def row_route(query: Hosted, stream: str, plan: Plan) -> RowRoute:
    """Return the route of a stream's rows for a keyed query."""
    if query.inferred is None:
        raise ValueError(f"query {query.name!r} does not have a key to route its rows by")
    return RowRoute(
        query.inferred[stream],
        query.name,
        plan,
        contents=tuple(query.columns_read[stream]),
        divided_by=frozenset(by for by, streams in query.divided.items() if stream in streams),
    )


def subscription_route(query: Hosted, plan: Plan) -> RowRoute | None:
    """Return the route of a template's subscriptions; None if all workers need them."""
    if query.subscription_key is None:
        return None
    return RowRoute(query.subscription_key, query.name, plan, query.subscription_key)
