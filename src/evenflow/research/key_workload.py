"""Workloads of the key-level evaluation (mixed-key-routing, section V).

Costs of keys are Zipf distributed. Between two intervals, frequencies are swapped between keys of
different workers until the load of some worker has changed by at least f means.

Difference from the paper: undirected swaps do not reach f = 1 with many keys, as their effects
cancel. So swaps raise or lower the load of one worker, drawn in each interval.
"""

import numpy as np

from evenflow.errors import InputError
from evenflow.jit import kernel
from evenflow.model.arrays import Floats, Indices, Workers

MAX_FAILED_DRAWS = 4096  # in a row, after which pairs are chosen instead of drawn


def zipf_costs(keys: int, skew: float, rng: np.random.Generator, total: float = 1e6) -> Floats:
    """Return costs c(k) ~ rank^-z that sum to `total`, with random ranks.

    >>> zipf_costs(3, 1.0, np.random.default_rng(0), total=11.0).round(6).tolist()
    [2.0, 6.0, 3.0]
    """
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -skew
    costs: Floats = rng.permutation(weights * (total / weights.sum()))
    return costs


def fluctuate_costs(
    cost: Floats, owner: Workers, workers: int, fluctuation: float, rng: np.random.Generator
) -> Floats:
    """Return the costs of the next interval, a permutation that shifts a worker by f means.

    `fluctuation` 0 changes nothing.
    """
    if not np.isfinite(fluctuation) or fluctuation < 0:
        raise InputError(f"fluctuation must be 0 or more, got {fluctuation}")
    goal = fluctuation * float(cost.sum()) / workers
    new = cost.copy()
    if goal == 0 or workers == 1:
        return new
    for target in rng.permutation(workers):
        raise_load = bool(rng.integers(2))
        for direction in (raise_load, not raise_load):
            new = cost.copy()
            if _swap_toward(new, owner, int(target), goal, direction, rng):
                return new
    raise InputError(
        f"fluctuation {fluctuation:g} cannot be reached by swapping keys of {workers} workers"
    )


def _swap_toward(
    cost: Floats, owner: Workers, target: int, goal: float, up: bool, rng: np.random.Generator
) -> bool:
    """Swap random pairs (target, other worker) until the target's load has changed, in place."""
    inside, outside = np.flatnonzero(owner == target), np.flatnonzero(owner != target)
    if not len(inside) or not len(outside):
        return False
    sign = 1.0 if up else -1.0
    changed = swap_random_pairs(cost, inside, outside, sign, goal, rng)
    if changed < goal:  # not enough: swap the lightest with the heaviest
        inner, outer = _pair_extremes(cost, inside, outside, up)
        gain = sign * (cost[outer] - cost[inner])
        useful = int(np.searchsorted(-gain, 0.0))  # gains are in descending order
        reach = changed + np.cumsum(gain[:useful])
        take = int(np.searchsorted(reach, goal)) + 1
        if take > useful:
            return False
        inner, outer = inner[:take], outer[:take]
        cost[inner], cost[outer] = cost[outer], cost[inner]
    return True


@kernel
def swap_random_pairs(
    cost: Floats,
    inside: Indices,
    outside: Indices,
    sign: float,
    goal: float,
    rng: np.random.Generator,
) -> float:
    """Swap random pairs with a gain until it suffices or MAX_FAILED_DRAWS fail in a row."""
    changed, failed = 0.0, 0
    while changed < goal and failed < MAX_FAILED_DRAWS:
        inner = inside[int(rng.random() * len(inside))]
        outer = outside[int(rng.random() * len(outside))]
        gain = sign * (cost[outer] - cost[inner])
        failed += 1
        if gain > 0.0:
            cost[inner], cost[outer] = cost[outer], cost[inner]
            changed += gain
            failed = 0
    return changed


def _pair_extremes(
    cost: Floats, inside: Indices, outside: Indices, up: bool
) -> tuple[Indices, Indices]:
    """Pair the lightest keys of the target with the heaviest others, or vice versa."""
    sign = 1 if up else -1
    inner = inside[np.argsort(sign * cost[inside], kind="stable")]
    outer = outside[np.argsort(-sign * cost[outside], kind="stable")]
    pairs = min(len(inner), len(outer))
    return inner[:pairs], outer[:pairs]
