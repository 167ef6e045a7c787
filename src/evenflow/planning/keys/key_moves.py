"""Offers of `cover`: which keys move, and where to, at a given price of a table entry.

An offer touches few of many keys, so it is kept as the moved keys alone, and all that does not
depend on the price is gathered once: the keys of each overloaded worker side by side, the load of
every worker, the entries of the table in force.
"""

from dataclasses import dataclass

import numpy as np

from evenflow.jit import kernel
from evenflow.model import KeyLoads
from evenflow.model.arrays import Floats, Indices, Workers
from evenflow.planning.keys.balance_goal import BalanceGoal
from evenflow.planning.keys.knapsack import CORE_KEYS, least_cover
from evenflow.planning.keys.llfd import movable_keys_by_worker
from evenflow.planning.keys.phases import table_keys_by_state

MAX_ROUNDS = 64  # new covers for keys that found no room
WORTH_BUCKETS = 1 << 14  # of load per price: 8 for each power of two that a double can hold


@dataclass(frozen=True, slots=True, eq=False)
class KeyMoves:
    """Keys that would move, their workers, and what that costs."""

    price: float
    keys: Indices
    target_workers: Workers
    moved_state: float
    table_size: int
    max_load: float


@dataclass(frozen=True, slots=True, eq=False)
class KeyMoveFinder:
    """A key planning problem, laid out for offers at many prices."""

    keys: KeyLoads
    max_table: int
    worker_loads: Floats
    table_keys: Indices  # keys of the table in force, smallest state first
    keys_by_worker: Indices  # movable keys by worker
    worker_starts: Indices
    grouped_cost: Floats  # of the grouped keys, side by side
    grouped_state: Floats
    owner_scratch: Workers  # the owners; an offer writes to it and puts it back

    @classmethod
    def of(cls, keys: KeyLoads, aim: BalanceGoal, max_table: int) -> "KeyMoveFinder":
        """Lay out a problem."""
        grouped, starts = movable_keys_by_worker(keys.owner, aim.fixed_keys, keys.workers)
        return cls(
            keys,
            max_table,
            keys.worker_loads(),
            table_keys_by_state(keys, aim),
            grouped,
            starts,
            keys.cost[grouped],
            keys.state[grouped],
            keys.owner.copy(),
        )

    @property
    def mean_state(self) -> float:
        """What prices are measured in: the mean state of a key that can move."""
        return (float(self.grouped_state.mean()) if len(self.grouped_state) else 0.0) or 1.0

    @property
    def total_state(self) -> float:
        """A price at which no entry is ever worth it."""
        return float(self.grouped_state.sum())

    def find_moves(self, price: float, limit: float) -> KeyMoves:
        """Relieve every worker above the limit at the least state plus price of entries."""
        keys = self.keys
        moved, targets = _find_moves(
            keys.cost,
            keys.state,
            keys.home,
            self.owner_scratch,
            self.worker_loads,
            limit,
            price,
            self.table_keys,
            self.keys_by_worker,
            self.worker_starts,
            self.grouped_cost,
            self.grouped_state,
        )
        return self._revert_unneeded(price, moved, targets, limit)

    def moves_to(self, owner: Workers, limit: float) -> KeyMoves:
        """Turn another planner's owners into an offer, less what can stay after all."""
        moved = np.flatnonzero(owner != self.keys.owner)
        return self._revert_unneeded(0.0, moved, owner[moved], limit)

    def _revert_unneeded(
        self, price: float, moved: Indices, targets: Workers, limit: float
    ) -> KeyMoves:
        """Send back what fits where it came from, then add up."""
        keys = self.keys
        moved, targets, fullest, entries = _revert_moves(
            keys.cost,
            keys.state,
            keys.home,
            keys.owner,
            self.worker_loads,
            limit,
            moved,
            targets,
            int(np.count_nonzero(keys.owner != keys.home)),
            self.max_table,
        )
        return KeyMoves(price, moved, targets, float(keys.state[moved].sum()), entries, fullest)

    def fits_table(self, offer: KeyMoves) -> bool:
        """Tell whether an offer keeps the table bound."""
        return offer.table_size <= self.max_table

    def is_feasible(self, offer: KeyMoves, limit: float) -> bool:
        """Tell whether an offer keeps both bounds."""
        return self.fits_table(offer) and offer.max_load <= limit

    def rank(self, offer: KeyMoves, limit: float) -> tuple[int, float, float]:
        """Order offers: table bound, then limit, then least state."""
        over_table = max(offer.table_size - self.max_table, 0)
        return (over_table, max(offer.max_load - limit, 0.0), offer.moved_state)

    def owners(self, offer: KeyMoves) -> Workers:
        """Return the owner of every key once the offer is taken."""
        owner = self.keys.owner.copy()
        owner[offer.keys] = offer.target_workers
        return owner


@kernel
def _find_moves(
    cost: Floats,
    state: Floats,
    home: Workers,
    owner: Workers,
    loads: Floats,
    limit: float,
    price: float,
    listed: Indices,
    grouped: Indices,
    starts: Indices,
    group_cost: Floats,
    group_state: Floats,
) -> tuple[Indices, Workers]:
    load = loads.copy()
    moved = [0]
    before = [owner[0]]
    moved.pop()
    before.pop()
    for key in listed:  # entries that are worth less than their price
        if state[key] >= price:
            break
        if load[home[key]] + cost[key] <= limit:
            moved.append(key)
            before.append(owner[key])
            load[owner[key]] -= cost[key]
            owner[key] = home[key]
            load[home[key]] += cost[key]

    homeless = {np.int64(-1)}  # keys for which there was no room
    for _ in range(MAX_ROUNDS):
        if load.max() <= limit:
            break
        going = np.empty(0, dtype=np.int64)
        room = limit - load.min()
        for worker in range(len(load)):
            if load[worker] > limit:
                group = slice(starts[worker], starts[worker + 1])
                picked = _cheapest_cover(
                    home, owner, load, limit, price, worker, room, homeless,
                    grouped[group], group_cost[group], group_state[group],
                )  # fmt: skip
                going = np.concatenate((going, picked))
        if len(going) == 0:
            break
        for key in going[np.argsort(-cost[going], kind="mergesort")]:
            source, target = owner[key], home[key]
            if target == source or load[target] + cost[key] > limit:
                target = np.argmin(load)
            if target == source or load[target] + cost[key] > limit:
                homeless.add(key)
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
    home: Workers,
    owner: Workers,
    load: Floats,
    limit: float,
    price: float,
    worker: int,
    room: float,
    homeless: set[np.int64],
    group: Indices,
    cost: Floats,
    state: Floats,
) -> Indices:
    """Return the cheapest keys of one worker that cover its excess.

    Load per price decides the order. Only its upper end matters, so keys are first counted into
    buckets of it (the leading bits of a double sort like the double), and only those from the
    bucket where the cover is complete, and a few more to choose among, are sorted.
    """
    count = len(group)
    worth, prices = np.zeros(count), np.empty(count)
    bucket_load, bucket_keys = np.zeros(WORTH_BUCKETS), np.zeros(WORTH_BUCKETS, dtype=np.int64)
    for at in range(count):
        key = group[at]
        prices[at] = state[at] + price
        if home[key] != worker:
            at_home = load[home[key]] + cost[at] <= limit
            prices[at] = max(state[at] - price, 0.0) if at_home else state[at]
        if cost[at] <= 0 or cost[at] > room or owner[key] != worker:
            continue
        worth[at] = cost[at] / max(prices[at], 1e-300)
    buckets = worth.view(np.int64) >> 49
    for at in range(count):
        bucket_load[buckets[at]] += cost[at]
        bucket_keys[buckets[at]] += 1
    need = load[worker] - limit
    covered, beyond, lowest = 0.0, 0, WORTH_BUCKETS
    while lowest > 1 and (covered < need or beyond < CORE_KEYS + len(homeless)):
        lowest -= 1
        if covered >= need:
            beyond += bucket_keys[lowest]
        covered += bucket_load[lowest]
    able = np.flatnonzero(buckets >= lowest)
    if len(homeless) > 1:
        able = np.array([at for at in able if group[at] not in homeless], dtype=np.int64)
    order = able[np.argsort(-worth[able], kind="mergesort")]
    return group[order[least_cover(cost[order], prices[order], need)]]


@kernel
def _revert_moves(
    cost: Floats,
    state: Floats,
    home: Workers,
    owner: Workers,
    loads: Floats,
    limit: float,
    moved: Indices,
    targets: Workers,
    entries: int,
    max_table: int,
) -> tuple[Indices, Workers, float, int]:
    """Send back what fits where it came from, the most state first; count load and entries."""
    load = loads.copy()
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
