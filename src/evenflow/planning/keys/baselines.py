"""Baselines that ignore the current owners: LPT, hash only, ideal shuffle."""

import numpy as np

from evenflow.model import KeyLoads
from evenflow.model.arrays import Floats
from evenflow.planning.keys.balance_goal import balance_goal, finish_plan
from evenflow.planning.keys.problem import KeyConfig, KeyPlan
from evenflow.planning.least_loaded import place_on_least_loaded


def simple(keys: KeyLoads, config: KeyConfig, rng: np.random.Generator) -> KeyPlan:
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


def hash_only(keys: KeyLoads, config: KeyConfig, rng: np.random.Generator) -> KeyPlan:
    """Send every key to its hash worker: no table at all."""
    owner = np.where(keys.immovable_mask, keys.owner, keys.home)
    return finish_plan(keys, config, owner, balance_goal(keys, config))


def shuffled_loads(keys: KeyLoads) -> Floats:
    """Return the loads of a shuffle that ignores keys: the limit that no keyed plan can beat."""
    return np.full(keys.workers, float(keys.cost.sum()) / keys.workers)
