"""Which worker has which state of a keyed query, before and after its plan changes.

With owners O before and O' after, a key's rows in a store move by the store's policy:

- REPLICA: every owner has all of them. O[0] sends a copy to each worker of O' that is not in O;
  workers that are not in O' drop theirs.
- FRAGMENT: each row is at one owner, any of them. All are divided over O' by their contents, so
  that new owners get their part of the work with stored rows at once.
- HOME: O[0] has all of them. They go to O'[0].

A key with one owner is the case of O = (owner,), in which all three are the same.
"""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from evenflow.model import KeySplit, Plan
from evenflow.model.arrays import Bools, Hashes, Workers
from evenflow.model.hashing import hash_contents
from evenflow.model.routing import owners_by_content
from evenflow.sql import SplitPolicy, Task


@dataclass(frozen=True, slots=True)
class OwnerChange:
    """The owners of a key that is split before or after a change of plan."""

    key_hash: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    fragmented: str

    def has_after(self, policy: SplitPolicy, worker: int, target: int, rows: pa.Table) -> Bools:
        """Mark those of a worker's rows of the key that it keeps, or sends to another worker."""
        if policy is SplitPolicy.FRAGMENT:
            divided: Bools = self._owners_after(worker, rows) == target
            return divided
        if policy is SplitPolicy.HOME:
            has = target == self.after[0]
        elif target == worker:
            has = worker in self.after
        else:
            has = worker == self.before[0] and target in self.after and target not in self.before
        return np.full(len(rows), has)

    def _owners_after(self, worker: int, rows: pa.Table) -> Workers:
        """Return the next owner of each row of a worker's fragment."""
        if set(self.before) == set(self.after):
            return np.full(len(rows), worker, dtype=np.int32)
        return owners_by_content(self.after, hash_contents(rows.columns))


@dataclass(frozen=True, slots=True)
class StateShare:
    """What one worker sends and keeps of a query's state when its plan changes."""

    task: Task
    query: str
    worker: int
    plan: Plan
    next_plan: Plan
    changes: tuple[OwnerChange, ...] = field(init=False)

    def __post_init__(self) -> None:
        splits = {
            split.key_hash: split.fragmented for split in splits_of(self.next_plan, self.query)
        }
        splits |= {split.key_hash: split.fragmented for split in splits_of(self.plan, self.query)}
        changes = tuple(
            OwnerChange(key, owners_of(self.plan, self.query, key), owners_after, stream)
            for key, stream in splits.items()
            for owners_after in [owners_of(self.next_plan, self.query, key)]
        )
        object.__setattr__(self, "changes", changes)

    def rows_for(self, target: int, label: str, keys: Hashes, rows: pa.Table) -> Bools:
        """Mark the rows of a store that go to a worker, or stay if it is this one."""
        marked: Bools = self._next_worker(keys) == target
        for change in self.changes:
            at = np.flatnonzero(keys == np.uint64(change.key_hash))
            if len(at):
                policy = self.task.split_policy(label, change.fragmented)
                found = rows.take(pa.array(at))
                marked[at] = change.has_after(policy, self.worker, target, found)
        return marked

    def _next_worker(self, keys: Hashes) -> Workers:
        if self.query in self.next_plan.placement:
            return np.full(len(keys), self.next_plan.placement[self.query], dtype=np.int32)
        return self.next_plan.route(self.query, keys)


@dataclass(frozen=True, slots=True)
class KeptShare:
    """What one worker takes of the kept state of a query that is resumed.

    The state was kept under `splits_before`, and is taken under a plan with other splits, perhaps.
    """

    task: Task
    query: str
    worker: int
    plan: Plan
    splits_before: tuple[KeySplit, ...]

    @property
    def takes_all(self) -> bool:
        """Whether this worker takes all state: that of a whole query that was not split."""
        return self.query in self.plan.placement and not self.splits_before

    def taken_from(self, source: int, label: str, keys: Hashes, _rows: pa.Table) -> Bools:
        """Mark the rows of a store to take, of those that worker `source` had."""
        taken: Bools = np.ones(len(keys), dtype=np.bool_)
        if self.query in self.plan.tables:
            taken = self.plan.route(self.query, keys) == self.worker
        for split in splits_of(self.plan, self.query):
            policy = self.task.split_policy(label, split.fragmented)
            if policy is SplitPolicy.REPLICA:  # every owner takes all rows
                taken[keys == np.uint64(split.key_hash)] = self.worker in split.owners
        for split in self.splits_before:
            policy = self.task.split_policy(label, split.fragmented)
            if policy is SplitPolicy.REPLICA and source != split.home:  # home had the same rows
                taken[keys == np.uint64(split.key_hash)] = False
        return taken


def splits_of(plan: Plan, query: str) -> tuple[KeySplit, ...]:
    """Return the split keys of a query; none if it is whole or not hosted."""
    return plan.tables[query].splits if query in plan.tables else ()


def owners_of(plan: Plan, query: str, key_hash: int) -> tuple[int, ...]:
    """Return the owners of a key; of a whole query, its worker."""
    if query in plan.placement:
        return (plan.placement[query],)
    return plan.owners_of_key(query, key_hash)
