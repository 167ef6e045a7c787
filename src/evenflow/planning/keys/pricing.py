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
from evenflow.planning.keys.bound import Bound
from evenflow.planning.keys.knapsack import CORE, least_cover
from evenflow.planning.keys.llfd import members
from evenflow.planning.keys.phases import smallest_state_first

ROUNDS = 64  # new covers for keys that found no room
BUCKETS = 1 << 14  # of load per price: 8 for each power of two that a double can hold


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """Keys that would move, their workers, and what that costs."""

    price: float
    keys: Indices
    targets: Workers
    state: float
    entries: int
    fullest: float


@dataclass(frozen=True, slots=True, eq=False)
class Market:
    """A key planning problem, laid out for offers at many prices."""

    problem: KeyLoads
    max_table: int
    load: Floats
    listed: Indices  # keys of the table in force, smallest state first
    grouped: Indices  # movable keys by worker
    starts: Indices
    cost: Floats  # of the grouped keys, side by side
    state: Floats
    scratch: Workers  # the owners; an offer writes to it and puts it back

    @classmethod
    def of(cls, keys: KeyLoads, aim: Bound, max_table: int) -> "Market":
        """Lay out a problem."""
        grouped, starts = members(keys.owner, aim.fixed, keys.workers)
        return cls(
            keys,
            max_table,
            keys.loads(),
            smallest_state_first(keys, aim),
            grouped,
            starts,
            keys.cost[grouped],
            keys.state[grouped],
            keys.owner.copy(),
        )

    @property
    def mean_state(self) -> float:
        """What prices are measured in: the mean state of a key that can move."""
        return (float(self.state.mean()) if len(self.state) else 0.0) or 1.0

    @property
    def total_state(self) -> float:
        """A price at which no entry is ever worth it."""
        return float(self.state.sum())

    def offer(self, price: float, limit: float) -> Offer:
        """Relieve every worker above the limit at the least state plus price of entries."""
        keys = self.problem
        moved, targets = _offer(
            keys.cost,
            keys.state,
            keys.home,
            self.scratch,
            self.load,
            limit,
            price,
            self.listed,
            self.grouped,
            self.starts,
            self.cost,
            self.state,
        )
        return self._settle(price, moved, targets, limit)

    def undo(self, owner: Workers, limit: float) -> Offer:
        """Turn another planner's owners into an offer, less what can stay after all."""
        moved = np.flatnonzero(owner != self.problem.owner)
        return self._settle(0.0, moved, owner[moved], limit)

    def _settle(self, price: float, moved: Indices, targets: Workers, limit: float) -> Offer:
        """Send back what fits where it came from, then add up."""
        keys = self.problem
        moved, targets, fullest, entries = _undo(
            keys.cost,
            keys.state,
            keys.home,
            keys.owner,
            self.load,
            limit,
            moved,
            targets,
            int(np.count_nonzero(keys.owner != keys.home)),
            self.max_table,
        )
        return Offer(price, moved, targets, float(keys.state[moved].sum()), entries, fullest)

    def fits(self, offer: Offer) -> bool:
        """Tell whether an offer keeps the table bound."""
        return offer.entries <= self.max_table

    def kept(self, offer: Offer, limit: float) -> bool:
        """Tell whether an offer keeps both bounds."""
        return self.fits(offer) and offer.fullest <= limit

    def rank(self, offer: Offer, limit: float) -> tuple[int, float, float]:
        """Order offers: table bound, then limit, then least state."""
        over_table = max(offer.entries - self.max_table, 0)
        return (over_table, max(offer.fullest - limit, 0.0), offer.state)

    def owners(self, offer: Offer) -> Workers:
        """Return the owner of every key once the offer is taken."""
        owner = self.problem.owner.copy()
        owner[offer.keys] = offer.targets
        return owner


@kernel
def _offer(
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
    for _ in range(ROUNDS):
        if load.max() <= limit:
            break
        going = np.empty(0, dtype=np.int64)
        room = limit - load.min()
        for worker in range(len(load)):
            if load[worker] > limit:
                group = slice(starts[worker], starts[worker + 1])
                picked = _pick(
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
def _pick(
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
    bucket_load, bucket_keys = np.zeros(BUCKETS), np.zeros(BUCKETS, dtype=np.int64)
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
    covered, beyond, lowest = 0.0, 0, BUCKETS
    while lowest > 1 and (covered < need or beyond < CORE + len(homeless)):
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
def _undo(
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
