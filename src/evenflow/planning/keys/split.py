"""Split keys: a key that is too heavy for one worker gets several (ours).

At r owners each has shared + (cost - shared) / r of a key: rows of replicated streams cost every
owner, the others are divided. A key is split only if no plan of whole keys keeps the bound, over as
few owners as do; if any is, those whose load changes most by chance get more owners where that is
cheap. Pieces of split keys are placed first, each on another worker, on present owners
if they fit, and count as immovable load; the planner of whole keys plans around them. While a
worker exceeds the limit, the key on it that gains most from one more owner gets one. A key that
cooled down gets fewer owners only if the plan then keeps half of the bound, so that it is not split
again soon.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from evenflow.model import KeyLoads, Verdict, VerdictCode
from evenflow.model.arrays import Floats, Indices, Rng
from evenflow.planning.keys.balance_goal import TOLERANCE
from evenflow.planning.keys.problem import KeyConfig, KeyPlan, KeyPlanner

Owners = tuple[int, ...]
SHRINK_ROOM = 0.6  # of the room of a worker: a key with fewer owners must fit in it
LEAST_PIECE_GAIN = 0.01  # of the mean load: what one more owner must take off each of the others
MAX_ROUNDS_WITHOUT_GAIN = 8
NOISE_OF_PIECE = 0.01  # of the mean load: what chance may add to each owner of a split key
LEAST_NOISY_COST = 0.2  # of the mean load: of a key that is split because it is noisy
COST_OF_CALM = 0.001  # of the mean load: what one more owner for less noise may add to it


@dataclass(slots=True, eq=False)
class SplitSearch:
    """The search for owners of heavy keys around one planner of whole keys; used by one thread."""

    planner: KeyPlanner
    keys: KeyLoads
    config: KeyConfig
    rng: Rng

    @property
    def mean_load(self) -> float:
        """The mean load of a worker if no key were split."""
        return float(self.keys.cost.sum()) / self.keys.workers

    @property
    def immovable_loads(self) -> Floats:
        """The load of each worker that stays."""
        keys = self.keys
        cost = np.where(keys.immovable_mask, keys.cost, 0.0)
        loads: Floats = np.bincount(keys.owner, cost, keys.workers).astype(np.float64)
        return loads

    def usual_room(self) -> float:
        """Return the load that a worker may have next to its immovable load, on average."""
        return (1 + self.config.max_imbalance) * self.mean_load - float(self.immovable_loads.mean())

    def largest_room(self) -> float:
        """Return the most load that any worker may have next to its immovable load."""
        return (1 + self.config.max_imbalance) * self.mean_load - float(self.immovable_loads.min())

    def mean_load_with(self, counts: Mapping[int, int]) -> float:
        """Return the mean load of a worker if keys have so many owners: shared cost adds to it."""
        shared = sum(float(self.keys.shared_cost[k]) * (n - 1) for k, n in counts.items())
        return self.mean_load + shared / self.keys.workers

    def plan(self, counts: Mapping[int, int]) -> KeyPlan:
        """Grow the number of owners of keys, from `counts`, until the bound is kept."""
        counts = {key: count for key, count in counts.items() if count > 1}
        best, best_rank, stale, mean = None, (np.inf, np.inf), 0, self.mean_load_with(counts)
        while True:
            plan = self._plan_for(counts)
            # A plan that is even because more owners give all workers more is not better.
            over = float(plan.loads.max()) / mean - 1 - self.config.max_imbalance
            rank = (round(max(over, 0.0), 3), float(sum(counts.values())))
            stale = stale + 1 if rank[0] >= best_rank[0] else 0
            if best is None or rank < best_rank:
                best, best_rank = plan, rank
            key = None if over <= TOLERANCE else self._key_to_grow(plan, counts)
            if key is None or stale > MAX_ROUNDS_WITHOUT_GAIN:
                return best
            counts[key] = counts.get(key, 1) + 1

    def least_owners(self, key: int, room: float) -> int:
        """Return the least number of owners whose pieces fit into some room; at most all."""
        shared = float(self.keys.shared_cost[key])
        divided = float(self.keys.cost[key]) - shared
        if room <= shared:
            return self._most_owners(key)
        return int(
            np.clip(np.ceil(divided / (room - shared) - TOLERANCE), 1, self._most_owners(key))
        )

    def calm_counts(self) -> dict[int, int]:
        """Return the owners of heavy keys with which chance hardly changes the load of each.

        All owners have their part of a key that is heavier than usual in a batch. More of them than
        the load needs are worth it if what each must have besides its part costs next to nothing.
        """
        keys, mean = self.keys, self.mean_load
        if keys.noise is None:
            return {}
        noisy = (keys.noise > NOISE_OF_PIECE * mean) & (keys.cost >= LEAST_NOISY_COST * mean)
        cheap = keys.shared_cost <= COST_OF_CALM * mean * keys.workers
        counts = {}
        for key in np.flatnonzero(noisy & cheap & ~keys.immovable_mask).tolist():
            enough = np.ceil(float(keys.noise[key]) / (NOISE_OF_PIECE * mean))
            counts[key] = min(int(enough), self._most_owners(key))
        return {key: count for key, count in counts.items() if count > 1}

    def shrunk_counts(self) -> dict[int, int]:
        """Return the numbers of owners that present split keys need, with room to spare."""
        room = SHRINK_ROOM * self.usual_room()
        least = {key: self.least_owners(key, room) for key in self.keys.splits}
        calm = self.calm_counts() if max(least.values(), default=1) > 1 else {}
        return {
            key: min(len(owners), max(least[key], calm.get(key, 1)))
            for key, owners in self.keys.splits.items()
        }

    def counts_without_cold(self) -> dict[int, int]:
        """Return the present numbers of owners, but one for keys that hardly cost anything."""
        least = LEAST_PIECE_GAIN * self.mean_load
        splits = self.keys.splits.items()
        return {key: len(o) if self.keys.cost[key] >= least else 1 for key, o in splits}

    def _limit(self, loads: Floats) -> float:
        return float(loads.mean()) * (1 + self.config.max_imbalance) * (1 + TOLERANCE)

    def _most_owners(self, key: int) -> int:
        """Return the number of owners up to which each one more still gains enough."""
        divided = float(self.keys.cost[key] - self.keys.shared_cost[key])
        least = LEAST_PIECE_GAIN * self.mean_load
        most = int(0.5 + np.sqrt(0.25 + divided / least)) if least > 0 else 1
        return max(min(self.keys.workers, self.config.max_owners, most), 1)

    def _key_to_grow(self, plan: KeyPlan, counts: Mapping[int, int]) -> int | None:
        """Return the key on an overloaded worker that gains most from one more owner."""
        keys, over = self.keys, plan.loads > self._limit(plan.loads)
        on_worker = over[plan.owner] & ~keys.immovable_mask
        for key, owners in plan.splits.items():
            on_worker[key] = over[list(owners)].any()
        counted = np.ones(len(keys))
        counted[list(counts)] = list(counts.values())
        gains = (keys.cost - keys.shared_cost) / (counted * (counted + 1))
        for key in np.argsort(-np.where(on_worker, gains, 0.0), kind="stable")[: keys.workers * 4]:
            if not on_worker[key] or gains[key] < LEAST_PIECE_GAIN * self.mean_load:
                return None
            if counted[key] < self._most_owners(int(key)):
                return int(key)
        return None

    def _plan_for(self, counts: Mapping[int, int]) -> KeyPlan:
        """Place the pieces of split keys, then the whole keys around them."""
        keys = self.keys
        if not counts:
            whole_keys = replace(keys, shared=None, splits={})
            return self.planner(whole_keys, self.config, self.rng)
        splits, pieces = self._place_pieces(counts)
        whole: Indices = np.setdiff1d(np.arange(len(keys)), list(counts))
        workers = np.arange(keys.workers, dtype=np.int32)
        around = KeyLoads(
            cost=np.concatenate([keys.cost[whole], pieces]),
            state=np.concatenate([keys.state[whole], np.zeros(keys.workers)]),
            home=np.concatenate([keys.home[whole], workers]),
            owner=np.concatenate([keys.owner[whole], workers]),
            workers=keys.workers,
            names=None if keys.names is None else [*(keys.names[k] for k in whole), *workers],
            immovable=np.append(keys.immovable_mask[whole], np.ones(keys.workers, np.bool_)),
        )
        table = max(self.config.max_table - len(splits), 0)
        made = self.planner(around, replace(self.config, max_table=table), self.rng)
        owner = keys.owner.copy()
        owner[whole] = made.owner[: len(whole)]
        for key, owners in splits.items():
            owner[key] = owners[0]
        return KeyPlan(owner, made.loads, made.verdicts, splits)

    def _place_pieces(self, counts: Mapping[int, int]) -> tuple[dict[int, Owners], Floats]:
        """Place the pieces of each key on different workers, the largest pieces first.

        Present owners come first if the piece fits there, then the least loaded workers.
        """
        keys, fixed = self.keys, self.immovable_loads
        limit = (1 + self.config.max_imbalance) * self.mean_load_with(counts)
        load = fixed.copy()
        splits: dict[int, Owners] = {}
        for key in sorted(counts, key=lambda key: (-keys.piece_cost(key, counts[key]), key)):
            piece, present = keys.piece_cost(key, counts[key]), keys.owners_of(key)
            stay = [w for w in present if load[w] + piece <= limit][: counts[key]]
            others = sorted(set(range(keys.workers)) - set(stay), key=lambda w: (load[w], w))
            chosen = (*stay, *others[: counts[key] - len(stay)])
            home = present[0] if present[0] in chosen else chosen[0]
            splits[key] = (home, *(worker for worker in chosen if worker != home))
            load[list(chosen)] += piece
        pieces: Floats = load - fixed
        return dict(sorted(splits.items())), pieces


def plan_with_splits(planner: KeyPlanner, keys: KeyLoads, config: KeyConfig, rng: Rng) -> KeyPlan:
    """Plan keys with any planner of whole keys, and split those that it cannot place."""
    if not keys.splits and (config.max_owners < 2 or not keys.divisible):
        return planner(keys, config, rng)
    if not keys.cost.any():
        return KeyPlan(keys.owner, keys.worker_loads(), splits=keys.splits)
    fewer = plan_fewer_owners(planner, keys, config, rng) if config.shrink else None
    if fewer is not None:
        return fewer
    search = SplitSearch(planner, keys, config, rng)
    most = min(config.max_owners, keys.workers)
    present = {key: min(len(owners), most) for key, owners in keys.splits.items()}
    room = search.largest_room()
    heavy = np.flatnonzero((keys.cost > room) & ~keys.immovable_mask)
    start = present | {
        key: max(present.get(key, 1), search.least_owners(key, room)) for key in heavy.tolist()
    }
    if start:
        start |= {key: max(start.get(key, 1), n) for key, n in search.calm_counts().items()}
    plan = search.plan(start)
    return replace(plan, verdicts=_split_verdicts(keys, config, plan))


def plan_fewer_owners(
    planner: KeyPlanner,
    keys: KeyLoads,
    config: KeyConfig,
    rng: Rng,
    *,
    as_even_as_now: bool = False,
) -> KeyPlan | None:
    """Return a plan with fewer owners of keys that cooled down; None if it would not last.

    It must keep half of the bound. With `as_even_as_now`, it may also be as even as now: what other
    split keys cost every owner can take more than that.
    """
    if not keys.cost.any():
        return None
    limit = config.max_imbalance / 2
    if as_even_as_now:
        now = float(keys.worker_loads().max()) * keys.workers / float(keys.cost.sum()) - 1
        limit = max(limit, now)
    calm = replace(config, max_imbalance=limit)
    search = SplitSearch(planner, keys, calm, rng)
    owners, most = sum(map(len, keys.splits.values())), (1 + limit) * search.mean_load
    for counts in (search.shrunk_counts(), search.counts_without_cold()):
        if sum(counts.values()) >= owners:
            continue
        plan = search.plan(counts)
        fewer = sum(map(len, plan.splits.values())) + len(keys.splits) - len(plan.splits) < owners
        if fewer and float(plan.loads.max()) <= most * (1 + TOLERANCE):
            return plan
    return None


def _split_verdicts(keys: KeyLoads, config: KeyConfig, plan: KeyPlan) -> tuple[Verdict, ...]:
    """Return the verdicts of a plan; only a key that cannot be split is too heavy."""
    limit = (1 + config.max_imbalance) * float(keys.cost.sum()) / keys.workers
    whole = (keys.shared_cost >= keys.cost) & ~keys.immovable_mask
    codes = {VerdictCode.HEAVY_KEY, VerdictCode.COARSE_KEYS, VerdictCode.UNBALANCED}
    if bool((keys.cost[whole] > limit).any()):
        return plan.verdicts
    kept = tuple(verdict for verdict in plan.verdicts if verdict.code not in codes)
    busiest, mean = float(plan.loads.max()), float(keys.cost.sum()) / keys.workers
    if busiest <= limit * (1 + TOLERANCE):
        return kept
    bound, worker = fractional_bound(keys, config.max_owners), int(plan.loads.argmax())
    message = (
        f"worker {worker} keeps {busiest:.6g}, {busiest / mean - 1:.4g} above the mean; the limit "
        f"is {limit:.6g}, and however keys are split, no plan gets below {bound:.6g}"
    )
    unbalanced = Verdict(
        VerdictCode.UNBALANCED, f"worker {worker}", message, max(bound / mean - 1, 0.0)
    )
    return (*kept, unbalanced)


def fractional_bound(keys: KeyLoads, max_owners: int) -> float:
    """Return a load that the busiest worker has in every plan, however keys are split.

    Pieces that could be as small as you like would fill the workers up to one level; a key's piece
    is at least that of as many owners as there may be.
    """
    fixed = np.bincount(keys.owner, np.where(keys.immovable_mask, keys.cost, 0.0), keys.workers)
    movable = np.flatnonzero(~keys.immovable_mask)
    total = float(keys.cost[movable].sum())
    levels = (np.cumsum(np.sort(fixed)) + total) / np.arange(1, keys.workers + 1)
    owners = max(min(keys.workers, max_owners), 1)
    shared = keys.shared_cost[movable]
    piece = float((shared + (keys.cost[movable] - shared) / owners).max(initial=0.0))
    return max(float(levels.min()), float(fixed.max()), piece + float(fixed.min()) * (piece > 0))
