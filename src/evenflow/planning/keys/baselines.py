"""Baselines that do not look at the present owners: plain fit, hash only, ideal shuffle."""

import heapq

import numpy as np

from evenflow.jit import kernel
from evenflow.model import KeyLoads
from evenflow.model.arrays import Floats, Indices, Workers
from evenflow.planning.keys.balance_goal import balance_goal, finish_plan
from evenflow.planning.keys.problem import KeyConfig, KeyPlan


def simple(keys: KeyLoads, config: KeyConfig, rng: np.random.Generator) -> KeyPlan:
    """Place all keys anew, the heaviest first, each on the least loaded worker.

    The plain fit of mixed-key-routing's appendix, known as LPT: where a perfect assignment exists,
    no worker ends more than (1 - 1/n) / 3 above the mean.
    """
    owner, stays = keys.owner.copy(), keys.immovable_mask
    able = np.flatnonzero(~stays)
    there = keys.worker_loads() - np.bincount(owner[able], keys.cost[able], keys.workers)
    order = np.argsort(-keys.cost[able], kind="stable")
    owner[able] = _lpt(keys.cost[able], order, there)
    return finish_plan(keys, config, owner, balance_goal(keys, config))


def hash_only(keys: KeyLoads, config: KeyConfig, rng: np.random.Generator) -> KeyPlan:
    """Send every key where the hash says: no table at all."""
    owner = np.where(keys.immovable_mask, keys.owner, keys.home)
    return finish_plan(keys, config, owner, balance_goal(keys, config))


def shuffled_loads(keys: KeyLoads) -> Floats:
    """Return the loads of a shuffle that ignores keys: the limit that no keyed plan can beat."""
    return np.full(keys.workers, float(keys.cost.sum()) / keys.workers)


def lpt_plain(cost: Floats, workers: int) -> Workers:
    """The plain fit by hand: the kernel's oracle."""
    load, owner = [0.0] * workers, np.empty(len(cost), dtype=np.int32)
    for key in sorted(range(len(cost)), key=lambda key: (-cost[key], key)):
        worker = min(range(workers), key=lambda worker: (load[worker], worker))
        load[worker] += cost[key]
        owner[key] = worker
    return owner


@kernel
def _lpt(cost: Floats, order: Indices, loads: Floats) -> Workers:
    owner = np.empty(len(cost), dtype=np.int32)
    heap = [(loads[worker], worker) for worker in range(len(loads))]
    heapq.heapify(heap)
    for key in order:
        load, worker = heap[0]
        heapq.heapreplace(heap, (load + cost[key], worker))
        owner[key] = worker
    return owner
