"""Baselines: LPT, hash only, ideal shuffle, and Readj and PKG of section V of mixed-key-routing.

Readj (Gedik, VLDB Journal 2014)
    Only keys heavier than sigma times the mean load of a worker are tracked. All others follow the
    hash, so their table entries are dropped. While the fullest worker is above the limit, a tracked
    key moves off it, or is swapped with a tracked key of another worker: the change that lowers the
    fuller of the two workers most, of equals the one with less state. A small sigma gives better
    plans and takes longer. As in the evaluation, several are tried and the best plan wins: within
    the bounds, then least state moved. The current owners count as one.
    Departure: the partner of a swap is found by binary search among the other worker's tracked
    keys, sorted by cost: the best partner has the cost nearest to the ideal one.

PKG, partial key grouping (Nasir et al., ICDE 2015)
    Every key has two candidate workers, the hash's and a random one; each of its tuples goes to the
    less loaded of the two. Nothing moves and there is no table, but a key's state is on two
    workers: partial results must be merged, so it serves aggregates and not joins. Costs are
    divisible here: the stream is read in a few rounds, each with an equal part of every key's cost,
    split over its two workers so that they end as even as possible.
"""

from dataclasses import dataclass, replace

import numpy as np

from evenflow.jit import kernel
from evenflow.model import KeyLoads, Verdict, VerdictCode
from evenflow.model.arrays import Floats, Indices, Rng, Workers
from evenflow.planning.keys.balance_goal import (
    BalanceGoal,
    balance_goal,
    best_owners,
    configured_limit,
    finish_plan,
    plan_owners,
)
from evenflow.planning.keys.problem import KeyConfig, KeyPlan
from evenflow.planning.least_load import place_on_least_loaded

SIGMAS = tuple(2.0**-power for power in range(1, 15))
MAX_TRACKED = 20_000  # a smaller sigma would take longer than the plan lasts
ROUNDS = 8  # of PKG


def simple(keys: KeyLoads, config: KeyConfig, rng: Rng) -> KeyPlan:
    """Place all keys again, the heaviest first, each on the least loaded worker.

    The plain fit of mixed-key-routing's appendix, known as LPT: where a perfect assignment exists,
    no worker ends more than (1 - 1/n) / 3 above the mean.
    """
    owner = keys.owner.copy()
    movable = np.flatnonzero(~keys.immovable_mask)
    loads = keys.worker_loads() - np.bincount(owner[movable], keys.cost[movable], keys.workers)
    order = movable[np.argsort(-keys.cost[movable], kind="stable")]
    owner[order] = place_on_least_loaded(keys.cost[order], loads)
    return finish_plan(keys, config, owner, balance_goal(keys, config))


def hash_only(keys: KeyLoads, config: KeyConfig, rng: Rng) -> KeyPlan:
    """Send every key to its hash worker: no table at all."""
    owner = np.where(keys.immovable_mask, keys.owner, keys.home)
    return finish_plan(keys, config, owner, balance_goal(keys, config))


def shuffled_loads(keys: KeyLoads) -> Floats:
    """Return the loads of a shuffle that ignores keys: the limit that no keyed plan can beat."""
    return np.full(keys.workers, float(keys.cost.sum()) / keys.workers)


def readj(keys: KeyLoads, config: KeyConfig, rng: Rng) -> KeyPlan:
    """Move and swap heavy keys greedily, with the best of several thresholds sigma."""

    def owners(goal: BalanceGoal) -> Workers:
        candidates = [keys.owner]
        for sigma in SIGMAS:
            tracked = np.flatnonzero((keys.cost > sigma * goal.mean_load) & (keys.cost > 0))
            if len(candidates) > 1 and len(tracked) > MAX_TRACKED:
                break
            candidates.append(readj_owners(keys, goal, tracked))
        return best_owners(keys, config, goal, candidates)

    return plan_owners(keys, config, owners)


def readj_owners(keys: KeyLoads, goal: BalanceGoal, tracked: Indices) -> Workers:
    """Return Readj's owners when only the tracked keys may leave their hash worker."""
    is_tracked = np.zeros(len(keys), dtype=np.bool_)
    is_tracked[tracked] = True
    owner = np.where(is_tracked | goal.fixed_keys, keys.owner, keys.home)
    movable = tracked[~goal.fixed_keys[tracked]]
    order = movable[np.argsort(keys.cost[movable], kind="stable")]
    load = keys.worker_loads(owner)
    owner[order] = _readj(keys.cost[order], keys.state[order], owner[order], load, goal.max_load)
    return owner


def readj_plain(cost: Floats, state: Floats, owner: Workers, load: Floats, limit: float) -> Workers:
    """Readj's greedy with all pairs tried, for keys in ascending order of cost: the oracle."""
    place, load = [int(worker) for worker in owner], load.copy()
    while True:
        source = int(load.argmax())
        if load[source] <= limit:
            return np.array(place, dtype=np.int32)
        best: tuple[float, float, int, int, int] | None = None
        for key in range(len(cost)):
            if place[key] != source:
                continue
            for other in range(-1, len(cost)):
                for target in range(len(load)) if other < 0 else [place[other]]:
                    if target == source:
                        continue
                    shift = cost[key] - (cost[other] if other >= 0 else 0.0)
                    fuller = max(load[source] - shift, load[target] + shift)
                    moved = state[key] + (state[other] if other >= 0 else 0.0)
                    if fuller < load[source]:
                        option = (fuller, moved, key, target, other)
                        best = option if best is None else min(best, option)
        if best is None:
            return np.array(place, dtype=np.int32)
        _, _, key, target, other = best
        shift = cost[key] - (cost[other] if other >= 0 else 0.0)
        load[source] -= shift
        load[target] += shift
        place[key] = target
        if other >= 0:
            place[other] = source


@kernel
def _readj(cost: Floats, state: Floats, owner: Workers, loads: Floats, limit: float) -> Workers:
    """Readj's greedy for keys in ascending order of cost."""
    place, load = owner.copy(), loads.copy()
    workers = len(load)
    for _ in range(4 * len(cost) + 4):
        source = np.argmax(load)
        if load[source] <= limit:
            break
        ours = np.flatnonzero(place == source)
        best, best_state = load[source], np.inf
        best_key, best_target, best_other = -1, -1, -1
        for target in range(workers):
            if target == source or load[target] >= load[source]:
                continue
            theirs = np.flatnonzero(place == target)
            their_costs = cost[theirs]
            half = (load[source] - load[target]) / 2
            for key in ours:
                nearest = np.searchsorted(their_costs, cost[key] - half)
                for at in (-1, nearest - 1, nearest):  # -1: no partner, a plain move
                    if at >= len(theirs):
                        continue
                    other = theirs[at] if at >= 0 else -1
                    shift = cost[key] - (cost[other] if other >= 0 else 0.0)
                    moved = state[key] + (state[other] if other >= 0 else 0.0)
                    fuller = max(load[source] - shift, load[target] + shift)
                    if fuller < best or (fuller == best and moved < best_state and best_key >= 0):
                        best, best_state = fuller, moved
                        best_key, best_target, best_other = int(key), target, int(other)
        if best_key < 0:
            break
        shift = cost[best_key] - (cost[best_other] if best_other >= 0 else 0.0)
        load[source] -= shift
        load[best_target] += shift
        place[best_key] = best_target
        if best_other >= 0:
            place[best_other] = source
    return place


@dataclass(frozen=True, slots=True, eq=False)
class PairSplit:
    """The two workers of each key and the part of its cost that the first of them carries."""

    first_worker: Workers
    second_worker: Workers
    first_share: Floats
    loads: Floats

    @property
    def partial_results(self) -> int:
        """Count the results to merge: two for every divided key."""
        return 2 * int(np.count_nonzero((self.first_share > 0) & (self.first_share < 1)))


def pkg(keys: KeyLoads, config: KeyConfig, rng: Rng) -> KeyPlan:
    """Split every key over two workers; its owner in the plan is the first, the hash's."""
    split = split_keys(keys, rng)
    splittable = replace(
        balance_goal(keys, config), max_load=configured_limit(keys, config), verdicts=()
    )
    plan = finish_plan(keys, config, keys.home, splittable, split.loads)
    divided = split.partial_results // 2
    merge = Verdict(
        VerdictCode.SPLIT_KEYS,
        f"{divided} keys",
        f"{divided} keys are split over two workers: {split.partial_results} partial results need "
        "a merge, joins are not possible, and an assignment names only the first worker of a key",
    )
    return replace(plan, verdicts=(*plan.verdicts, merge)) if divided else plan


def split_keys(keys: KeyLoads, rng: Rng) -> PairSplit:
    """Choose the second worker of each key at random and split the stream."""
    offset = rng.integers(1, keys.workers, len(keys)) if keys.workers > 1 else 0
    second = ((keys.home + offset) % keys.workers).astype(np.int32)
    order = rng.permutation(len(keys))
    share, loads = _split_costs(keys.cost, keys.home, second, order, keys.workers)
    return PairSplit(keys.home, second, share, loads)


@kernel
def _split_costs(
    cost: Floats, first: Workers, second: Workers, order: Indices, workers: int
) -> tuple[Floats, Floats]:
    load, on_first = np.zeros(workers), np.zeros(len(cost))
    for _ in range(ROUNDS):
        for key in order:
            one, other = first[key], second[key]
            part = cost[key] / ROUNDS
            even = (load[other] - load[one] + part) / 2
            added = min(max(even, 0.0), part) if one != other else part
            load[one] += added
            load[other] += part - added
            on_first[key] += added
    share = np.ones(len(cost))
    for key in range(len(cost)):
        if cost[key] > 0:
            share[key] = min(on_first[key] / cost[key], 1.0)
    return share, load
