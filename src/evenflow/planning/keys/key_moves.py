"""Moves of `cover`: which keys move, and to which workers, at a given price of a table entry.

A set of moves touches few of many keys, so only the moved keys are stored, and everything that does
not depend on the price is gathered once: the keys of each worker side by side, the load of every
worker, the entries of the current table.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenflow.jit import kernel
from evenflow.model import KeyLoads
from evenflow.model.arrays import Floats, Indices, Workers
from evenflow.planning.keys.balance_goal import BalanceGoal
from evenflow.planning.keys.knapsack import CORE_KEYS, least_cover
from evenflow.planning.keys.llfd import movable_keys_by_worker
from evenflow.planning.keys.mixed import table_keys_by_state

MAX_ROUNDS = 64  # rounds of covers, as long as keys find no room
WORTH_BUCKETS = 1 << 14  # of load per price: 8 for each power of two that a double can hold


@dataclass(frozen=True, slots=True, eq=False)
class KeyMoves:
    """Keys that would move, their new workers, and the result."""

    price: float
    keys: Indices
    target_workers: Workers
    moved_state: float
    table_size: int
    max_load: float


class KeyArrays(NamedTuple):
    """A key planning problem as kernels read it.

    owner           current owners; `find_moves` writes to it and restores it
    loads           load of every worker
    table_keys      keys of the current table, smallest state first
    keys_by_worker, worker_starts  movable keys grouped by worker
    grouped_cost, grouped_state    cost and state of `keys_by_worker`, side by side
    """

    cost: Floats
    state: Floats
    home: Workers
    owner: Workers
    loads: Floats
    table_keys: Indices
    keys_by_worker: Indices
    worker_starts: Indices
    grouped_cost: Floats
    grouped_state: Floats


@dataclass(frozen=True, slots=True, eq=False)
class KeyMoveFinder:
    """Finds moves for one key planning problem at many prices; used by one thread."""

    keys: KeyLoads
    max_table: int
    arrays: KeyArrays

    @classmethod
    def of(cls, keys: KeyLoads, goal: BalanceGoal, max_table: int) -> "KeyMoveFinder":
        """Gather everything that does not depend on the price."""
        grouped, starts = movable_keys_by_worker(keys.owner, goal.fixed_keys, keys.workers)
        arrays = KeyArrays(
            cost=keys.cost,
            state=keys.state,
            home=keys.home,
            owner=keys.owner.copy(),
            loads=keys.worker_loads(),
            table_keys=table_keys_by_state(keys, goal),
            keys_by_worker=grouped,
            worker_starts=starts,
            grouped_cost=keys.cost[grouped],
            grouped_state=keys.state[grouped],
        )
        return cls(keys, max_table, arrays)

    @property
    def mean_state(self) -> float:
        """The unit of prices: the mean state of a movable key."""
        state = self.arrays.grouped_state
        return (float(state.mean()) if len(state) else 0.0) or 1.0

    @property
    def total_state(self) -> float:
        """A price at which no entry is ever worth it."""
        return float(self.arrays.grouped_state.sum())

    def find_moves(self, price: float, limit: float) -> KeyMoves:
        """Relieve every worker above the limit at the least state plus price of entries."""
        moved, targets = _find_moves(self.arrays, limit, price)
        return self._revert_unneeded(price, moved, targets, limit)

    def moves_to(self, owner: Workers, limit: float) -> KeyMoves:
        """Turn another planner's owners into moves, without those that are not needed."""
        moved = np.flatnonzero(owner != self.keys.owner)
        return self._revert_unneeded(0.0, moved, owner[moved], limit)

    def _revert_unneeded(
        self, price: float, moved: Indices, targets: Workers, limit: float
    ) -> KeyMoves:
        """Send back what fits where it came from, then add up."""
        entries = int(np.count_nonzero(self.keys.owner != self.keys.home))
        moved, targets, fullest, entries = _revert_moves(
            self.arrays, limit, moved, targets, entries, self.max_table
        )
        state = float(self.keys.state[moved].sum())
        return KeyMoves(price, moved, targets, state, entries, fullest)

    def fits_table(self, moves: KeyMoves) -> bool:
        """Return whether moves keep the table bound."""
        return moves.table_size <= self.max_table

    def is_feasible(self, moves: KeyMoves, limit: float) -> bool:
        """Return whether moves keep both bounds."""
        return self.fits_table(moves) and moves.max_load <= limit

    def rank(self, moves: KeyMoves, limit: float) -> tuple[int, float, float]:
        """Order moves: table bound, then limit, then least state."""
        over_table = max(moves.table_size - self.max_table, 0)
        return (over_table, max(moves.max_load - limit, 0.0), moves.moved_state)

    def owners(self, moves: KeyMoves) -> Workers:
        """Return the owner of every key after the moves."""
        owner = self.keys.owner.copy()
        owner[moves.keys] = moves.target_workers
        return owner


@kernel
def _find_moves(arrays: KeyArrays, limit: float, price: float) -> tuple[Indices, Workers]:
    cost, home, owner = arrays.cost, arrays.home, arrays.owner
    load = arrays.loads.copy()
    moved = [0]
    before = [owner[0]]
    moved.pop()
    before.pop()
    for key in arrays.table_keys:  # entries that are worth less than their price
        if arrays.state[key] >= price:
            break
        if load[home[key]] + cost[key] <= limit:
            moved.append(key)
            before.append(owner[key])
            load[owner[key]] -= cost[key]
            owner[key] = home[key]
            load[home[key]] += cost[key]

    rejected = {np.int64(-1)}  # keys for which there was no room
    for _ in range(MAX_ROUNDS):
        if load.max() <= limit:
            break
        going = np.empty(0, dtype=np.int64)
        room = limit - load.min()
        for worker in range(len(load)):
            if load[worker] > limit:
                picked = _cheapest_cover(arrays, load, limit, price, worker, room, rejected)
                going = np.concatenate((going, picked))
        if len(going) == 0:
            break
        for key in going[np.argsort(-cost[going], kind="mergesort")]:
            source, target = owner[key], home[key]
            if target == source or load[target] + cost[key] > limit:
                target = np.argmin(load)
            if target == source or load[target] + cost[key] > limit:
                rejected.add(key)
                continue
            moved.append(key)
            before.append(source)
            load[source] -= cost[key]
            owner[key] = target
            load[target] += cost[key]
    keys = np.array(moved, dtype=np.int64)
    targets = owner[keys]
    for at in range(len(moved)):
        owner[moved[at]] = before[at]
    return keys, targets


@kernel
def _cheapest_cover(
    arrays: KeyArrays,
    load: Floats,
    limit: float,
    price: float,
    worker: int,
    room: float,
    rejected: set[np.int64],
) -> Indices:
    """Return the cheapest keys of one worker that cover its excess.

    Load per price decides the order. Only its upper end matters, so keys are first counted into
    buckets of it (the leading bits of a double sort like the double), and only those from the
    bucket where the cover is complete, and a few more to choose among, are sorted.
    """
    home, owner = arrays.home, arrays.owner
    begin, end = arrays.worker_starts[worker], arrays.worker_starts[worker + 1]
    group = arrays.keys_by_worker[begin:end]
    cost, state = arrays.grouped_cost[begin:end], arrays.grouped_state[begin:end]
    count = len(group)
    worth, prices = np.zeros(count), np.empty(count)
    bucket_load, bucket_keys = np.zeros(WORTH_BUCKETS), np.zeros(WORTH_BUCKETS, dtype=np.int64)
    for at in range(count):
        key = group[at]
        prices[at] = state[at] + price
        if home[key] != worker:
            fits_home = load[home[key]] + cost[at] <= limit
            prices[at] = max(state[at] - price, 0.0) if fits_home else state[at]
        if cost[at] <= 0 or cost[at] > room or owner[key] != worker:
            continue
        worth[at] = cost[at] / max(prices[at], 1e-300)
    buckets = worth.view(np.int64) >> 49
    for at in range(count):
        bucket_load[buckets[at]] += cost[at]
        bucket_keys[buckets[at]] += 1
    need = load[worker] - limit
    covered, beyond, lowest = 0.0, 0, WORTH_BUCKETS
    while lowest > 1 and (covered < need or beyond < CORE_KEYS + len(rejected)):
        lowest -= 1
        if covered >= need:
            beyond += bucket_keys[lowest]
        covered += bucket_load[lowest]
    able = np.flatnonzero(buckets >= lowest)
    if len(rejected) > 1:
        able = np.array([at for at in able if group[at] not in rejected], dtype=np.int64)
    order = able[np.argsort(-worth[able], kind="mergesort")]
    return group[order[least_cover(cost[order], prices[order], need)]]


@kernel
def _revert_moves(
    arrays: KeyArrays, limit: float, moved: Indices, targets: Workers, entries: int, max_table: int
) -> tuple[Indices, Workers, float, int]:
    """Send back what fits where it came from, the most state first; count load and entries."""
    cost, state, home, owner = arrays.cost, arrays.state, arrays.home, arrays.owner
    load = arrays.loads.copy()
    for at in range(len(moved)):
        key = moved[at]
        load[owner[key]] -= cost[key]
        load[targets[at]] += cost[key]
        entries += int(targets[at] != home[key]) - int(owner[key] != home[key])
    stays = np.ones(len(moved), dtype=np.bool_)
    for at in np.argsort(-state[moved], kind="mergesort"):
        key = moved[at]
        more = int(owner[key] != home[key]) - int(targets[at] != home[key])
        if load[owner[key]] + cost[key] <= limit and entries + max(more, 0) <= max_table:
            load[targets[at]] -= cost[key]
            load[owner[key]] += cost[key]
            entries += more
            stays[at] = False
    return moved[stays], targets[stays], load.max(), entries
