"""Workloads of the key-level evaluation (mixed-key-routing, section V).

Costs follow a Zipf law over the keys. Between two intervals, frequencies are swapped between keys
of different workers until the load of some worker has changed by at least f means.

Departures
- Undirected swaps do not reach f = 1 with many keys: their effects cancel. Swaps are directed
  at one worker, drawn anew each interval, whose load they raise or lower.
"""

import numpy as np

from evenflow.errors import InputError
from evenflow.jit import kernel
from evenflow.model.arrays import Floats, Indices, Workers

MAX_FAILED_DRAWS = 4096  # draws in a row without gain after which pairs are chosen, not drawn


def zipf_costs(keys: int, skew: float, rng: np.random.Generator, total: float = 1e6) -> Floats:
    """Return costs c(k) ~ rank^-z that sum to `total`, ranks dealt to keys at random.

    >>> zipf_costs(3, 1.0, np.random.default_rng(0), total=11.0).round(6).tolist()
    [2.0, 6.0, 3.0]
    """
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -skew
    costs: Floats = rng.permutation(weights * (total / weights.sum()))
    return costs


def fluctuate_costs(
    cost: Floats, owner: Workers, workers: int, fluctuation: float, rng: np.random.Generator
) -> Floats:
    """Return the costs of the next interval: swapped until some worker changed by f means.

    `fluctuation` 0 changes nothing. The costs are a permutation of the old ones, so the total
    stays.
    """
    if not np.isfinite(fluctuation) or fluctuation < 0:
        raise InputError(f"fluctuation must be 0 or more, got {fluctuation}")
    wanted = fluctuation * float(cost.sum()) / workers
    new = cost.copy()
    if wanted == 0 or workers == 1:
        return new
    for target in rng.permutation(workers):
        raise_load = bool(rng.integers(2))
        for direction in (raise_load, not raise_load):
            new = cost.copy()
            if _swap_toward(new, owner, int(target), wanted, direction, rng):
                return new
    raise InputError(
        f"fluctuation {fluctuation:g} cannot be reached by swapping keys of {workers} workers"
    )


def _swap_toward(
    cost: Floats, owner: Workers, target: int, wanted: float, up: bool, rng: np.random.Generator
) -> bool:
    """Swap random pairs (target, elsewhere) that change the target's load as asked, in place."""
    inside, outside = np.flatnonzero(owner == target), np.flatnonzero(owner != target)
    if not len(inside) or not len(outside):
        return False
    sign = 1.0 if up else -1.0
    changed = swap_random_pairs(cost, inside, outside, sign, wanted, rng)
    if changed < wanted:  # no luck: match the lightest with the heaviest instead
        ours, theirs = _pair_extremes(cost, inside, outside, up)
        gain = sign * (cost[theirs] - cost[ours])
        useful = int(np.searchsorted(-gain, 0.0))  # gains fall
        reach = changed + np.cumsum(gain[:useful])
        take = int(np.searchsorted(reach, wanted)) + 1
        if take > useful:
            return False
        ours, theirs = ours[:take], theirs[:take]
        cost[ours], cost[theirs] = cost[theirs], cost[ours]
    return True


@kernel
def swap_random_pairs(
    cost: Floats,
    inside: Indices,
    outside: Indices,
    sign: float,
    wanted: float,
    rng: np.random.Generator,
) -> float:
    """Swap random pairs that gain, until enough is gained or no draw gains any more."""
    changed, useless = 0.0, 0
    while changed < wanted and useless < MAX_FAILED_DRAWS:
        ours = inside[int(rng.random() * len(inside))]
        theirs = outside[int(rng.random() * len(outside))]
        gain = sign * (cost[theirs] - cost[ours])
        useless += 1
        if gain > 0.0:
            cost[ours], cost[theirs] = cost[theirs], cost[ours]
            changed += gain
            useless = 0
    return changed


def _pair_extremes(
    cost: Floats, inside: Indices, outside: Indices, up: bool
) -> tuple[Indices, Indices]:
    """Pair the target's lightest keys with the heaviest elsewhere, or the other way round."""
    sign = 1 if up else -1
    ours = inside[np.argsort(sign * cost[inside], kind="stable")]
    theirs = outside[np.argsort(-sign * cost[outside], kind="stable")]
    pairs = min(len(ours), len(theirs))
    return ours[:pairs], theirs[:pairs]
