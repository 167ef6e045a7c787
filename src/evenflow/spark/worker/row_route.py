"""Which workers get a row, for one keyed query: by its key, and for a split key by its content."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from evenflow.model import KeySplit, Plan, hash_keys
from evenflow.model.arrays import Bools, Hashes, Indices, Workers
from evenflow.model.hashing import hash_contents
from evenflow.spark.protocol.registry import Hosted
from evenflow.spark.worker.row_shares import shares_by_worker


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
        splits = self.plan.tables[self.query].splits
        if not splits:
            return None, workers
        copied = [
            (np.repeat(at, len(split.owners) - 1), np.tile(split.owners[1:], len(at)))
            for split in splits
            if len(at := self._divide(split, rows, hashes, workers))
        ]
        if not copied:
            return None, workers
        return (
            np.concatenate([np.arange(len(workers)), *(at for at, _ in copied)]),
            np.concatenate([workers, *(to for _, to in copied)]).astype(np.int32),
        )

    def _divide(self, split: KeySplit, rows: pa.Table, hashes: Hashes, workers: Workers) -> Indices:
        """Give the divided rows of a split key their owner; return the rows for all owners."""
        at = np.flatnonzero(hashes == np.uint64(split.key_hash))
        if not len(at):
            return at
        divided = np.full(len(at), split.fragmented in self.divided_by)
        if not divided.all():  # a NULL matches nothing, so nobody else needs the row
            divided |= self._has_null_key(rows.select(self.key).take(pa.array(at)))
        owned = at[divided]
        if len(owned):
            contents = rows.select(self.contents).take(pa.array(owned))
            workers[owned] = split.owners_of(hash_contents(contents.columns))
        rest: Indices = at[~divided]
        return rest

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
