"""Readj, the baseline of mixed-key-routing's evaluation (section V; Gedik, VLDB Journal 2014).

Only keys heavier than sigma times the mean load of a worker are tracked. All others follow the
hash, so their table entries are dropped. While the fullest worker is above the limit, a tracked key
moves off it, or is swapped with a tracked key of another worker: the change that lowers the fuller
of the two workers most, of equals the one with less state.

A small sigma gives better plans and takes longer. As in the evaluation, several are tried and the
best plan wins: within the bounds, then least state moved. The current owners count as one.

Departures
- The partner of a swap is found by binary search among the other worker's tracked keys, sorted by
  cost, instead of trying all pairs: the best partner has the cost nearest to the ideal one.
"""

import numpy as np

from evenflow.jit import kernel
from evenflow.model import KeyLoads
from evenflow.model.arrays import Floats, Indices, Workers
from evenflow.planning.keys.balance_goal import BalanceGoal, best_owners, plan_owners
from evenflow.planning.keys.problem import KeyConfig, KeyPlan

SIGMAS = tuple(2.0**-power for power in range(1, 15))
MAX_TRACKED = 20_000  # a smaller sigma would take longer than the plan lasts


def readj(keys: KeyLoads, config: KeyConfig, rng: np.random.Generator) -> KeyPlan:
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
