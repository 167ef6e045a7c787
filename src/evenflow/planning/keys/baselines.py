"""Baselines: LPT, hash only, ideal shuffle, and Readj of section V of mixed-key-routing.

Readj (Gedik, VLDB Journal 2014)
    Only keys heavier than sigma times the mean load of a worker are tracked. All others follow the
    hash, so their table entries are dropped. While the fullest worker is above the limit, a tracked
    key moves off it, or is swapped with a tracked key of another worker: the change that lowers the
    fuller of the two workers most, of equals the one with less state. A small sigma gives better
    plans and takes longer. As in the evaluation, several are tried and the best plan wins: within
    the bounds, then least state moved. The current owners count as one.
    Departure: the partner of a swap is found by binary search among the other worker's tracked
    keys, sorted by cost: the best partner has the cost nearest to the ideal one.

Readj with all pairs (`readj-pairs`)
    As the evaluation describes it: for each tracked key all possible swaps are considered, and the
    best sigma is found by binary search (section V.C): the largest one whose plan keeps the bounds,
    since a larger one tracks fewer keys. Its plans are those of `readj` for the same sigma; only
    its time differs, which figure 12 compares.
"""

from collections.abc import Callable

import numpy as np

from evenflow.jit import kernel
from evenflow.model import KeyLoads
from evenflow.model.arrays import Floats, Indices, Rng, Workers
from evenflow.planning.keys.balance_goal import (
    BalanceGoal,
    balance_goal,
    best_owners,
    finish_plan,
    plan_owners,
    plan_rank,
)
from evenflow.planning.keys.problem import KeyConfig, KeyPlan
from evenflow.planning.least_load import place_on_least_loaded

SIGMAS = tuple(2.0**-power for power in range(1, 15))
MAX_TRACKED = 20_000  # a smaller sigma would take longer than the plan lasts
MAX_PAIRED = 3_000  # the same for all pairs
ReadjGreedy = Callable[[Floats, Floats, Workers, Floats, float], Workers]


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


def readj_pairs(keys: KeyLoads, config: KeyConfig, rng: Rng) -> KeyPlan:
    """Move and swap heavy keys greedily, trying every pair, with sigma found by binary search."""

    def owners(goal: BalanceGoal) -> Workers:
        candidates = [keys.owner]
        low, high = 0, len(SIGMAS) - 1
        while low <= high:
            middle = (low + high) // 2
            heavy = keys.cost > SIGMAS[middle] * goal.mean_load
            tracked = np.flatnonzero(heavy & (keys.cost > 0))
            if len(tracked) > MAX_PAIRED:
                high = middle - 1
                continue
            candidates.append(readj_owners(keys, goal, tracked, _readj_pairs))
            entries, over, _ = plan_rank(keys, config, goal, candidates[-1])
            low, high = (low, middle - 1) if entries == 0 and over == 0 else (middle + 1, high)
        return best_owners(keys, config, goal, candidates)

    return plan_owners(keys, config, owners)


def readj_owners(
    keys: KeyLoads, goal: BalanceGoal, tracked: Indices, greedy: ReadjGreedy | None = None
) -> Workers:
    """Return Readj's owners when only the tracked keys may leave their hash worker."""
    is_tracked = np.zeros(len(keys), dtype=np.bool_)
    is_tracked[tracked] = True
    owner = np.where(is_tracked | goal.fixed_keys, keys.owner, keys.home)
    movable = tracked[~goal.fixed_keys[tracked]]
    order = movable[np.argsort(keys.cost[movable], kind="stable")]
    load = keys.worker_loads(owner)
    greedy = greedy or _readj
    owner[order] = greedy(keys.cost[order], keys.state[order], owner[order], load, goal.max_load)
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
def _move_or_swap(
    place: Workers, load: Floats, cost: Floats, key: int, target: int, other: int
) -> None:
    """Move a key to a worker, and another key (if not -1) back in its place."""
    source = place[key]
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
        _move_or_swap(place, load, cost, best_key, best_target, best_other)
    return place


@kernel
def _readj_pairs(
    cost: Floats, state: Floats, owner: Workers, loads: Floats, limit: float
) -> Workers:
    """Readj's greedy with all pairs tried."""
    place, load = owner.copy(), loads.copy()
    keys, workers = len(cost), len(load)
    for _ in range(4 * keys + 4):
        source = np.argmax(load)
        if load[source] <= limit:
            break
        best, best_state = load[source], np.inf
        best_key, best_target, best_other = -1, -1, -1
        for key in range(keys):
            if place[key] != source:
                continue
            for option in range(workers + keys):  # a plain move, or a swap with another key
                other = option - workers if option >= workers else -1
                target = place[other] if other >= 0 else option
                if target == source:
                    continue
                shift = cost[key] - (cost[other] if other >= 0 else 0.0)
                moved = state[key] + (state[other] if other >= 0 else 0.0)
                fuller = max(load[source] - shift, load[target] + shift)
                if fuller < best or (fuller == best and moved < best_state and best_key >= 0):
                    best, best_state = fuller, moved
                    best_key, best_target, best_other = key, int(target), other
        if best_key < 0:
            break
        _move_or_swap(place, load, cost, best_key, best_target, best_other)
    return place
