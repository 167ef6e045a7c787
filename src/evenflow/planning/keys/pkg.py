"""Partial key grouping, the key-splitting baseline of section V (Nasir et al., ICDE 2015).

Every key has two candidate workers, the hash's and one drawn for it; each of its tuples goes to
the less loaded of the two. Nothing moves and there is no table, but a key's state is on two
workers: partial results must be merged, so it serves aggregates and not joins.

Costs are divisible here: the stream is read in a few rounds, each with an equal part of every key's
cost, split over its two workers so that they end as even as possible.
"""

from dataclasses import dataclass, replace

import numpy as np

from evenflow.jit import kernel
from evenflow.model import KeyLoads, Verdict
from evenflow.model.arrays import Floats, Indices, Workers
from evenflow.planning.keys.balance_goal import balance_goal, configured_limit, finish_plan
from evenflow.planning.keys.problem import KeyConfig, KeyPlan

ROUNDS = 8


@dataclass(frozen=True, slots=True, eq=False)
class KeySplit:
    """The two workers of each key and the part of its cost that the first of them carries."""

    first_worker: Workers
    second_worker: Workers
    first_share: Floats
    loads: Floats

    @property
    def partial_results(self) -> int:
        """Count the results to merge: two for every divided key."""
        return 2 * int(np.count_nonzero((self.first_share > 0) & (self.first_share < 1)))


def pkg(keys: KeyLoads, config: KeyConfig, rng: np.random.Generator) -> KeyPlan:
    """Split every key over two workers; its owner in the plan is the first, the hash's."""
    split = split_keys(keys, rng)
    splittable = replace(
        balance_goal(keys, config), max_load=configured_limit(keys, config), verdicts=()
    )
    plan = finish_plan(keys, config, keys.home, splittable, split.loads)
    divided = split.partial_results // 2
    merge = Verdict(
        "split_keys",
        f"{divided} keys",
        f"{divided} keys are split over two workers: {split.partial_results} partial results need "
        "a merge, joins are not possible, and an assignment names only the first worker of a key",
    )
    return replace(plan, verdicts=(*plan.verdicts, merge)) if divided else plan


def split_keys(keys: KeyLoads, rng: np.random.Generator) -> KeySplit:
    """Choose the second worker of each key at random and split the stream."""
    offset = rng.integers(1, keys.workers, len(keys)) if keys.workers > 1 else 0
    second = ((keys.home + offset) % keys.workers).astype(np.int32)
    order = rng.permutation(len(keys))
    share, loads = _split_costs(keys.cost, keys.home, second, order, keys.workers)
    return KeySplit(keys.home, second, share, loads)


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
