"""Workers of unequal capacity, for planners that take all workers as equal: ballast (ours).

With a load of m per unit of capacity, worker d may have (1 + theta_max) m C(d): the strongest one
the most, U. Each other worker gets a key that cannot move and costs what its own limit lacks to U.
A plan that keeps the limit U everywhere then keeps the limit of every worker, and LLFD's least
loaded worker is the one with most room. Ballast is at home, so it takes no table entry; its state
never moves. With equal capacities there is none.

    load 80, theta_max 0.1, capacities 2, 1, 1: limits 44, 22, 22, ballast 0, 22, 22
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from evenflow.errors import InputError
from evenflow.model import KeyLoads, Verdict, VerdictCode
from evenflow.model.arrays import Floats, Rng
from evenflow.planning.keys.problem import KeyConfig, KeyPlan, KeyPlanner


def check_capacities(capacities: ArrayLike, workers: int) -> Floats:
    """Return the capacities as an array; each worker needs one above 0."""
    given: Floats = np.asarray(capacities, dtype=np.float64)
    if given.shape != (workers,):
        raise InputError(f"{workers} workers need as many capacities, got {given.size}")
    if not (np.isfinite(given).all() and (given > 0).all()):
        raise InputError(f"capacities must be above 0, got {', '.join(map(str, given))}")
    return given


def plan_for_capacities(
    planner: KeyPlanner, keys: KeyLoads, capacities: ArrayLike, config: KeyConfig, rng: Rng
) -> KeyPlan:
    """Plan so that each worker has at most (1 + theta_max) times its share, by its capacity.

    >>> from evenflow.planning.keys import ALGORITHMS
    >>> cost, home = np.ones(80), np.arange(80) % 2
    >>> keys = KeyLoads.from_arrays(cost, cost, home, home, workers=2)
    >>> rng, config = np.random.default_rng(0), KeyConfig(max_imbalance=0.0)
    >>> plan_for_capacities(ALGORITHMS["mixed"], keys, [3, 1], config, rng).loads.tolist()
    [60.0, 20.0]
    """
    capacity = check_capacities(capacities, keys.workers)
    if capacity.min() == capacity.max():
        return planner(keys, config, rng)
    share = capacity * float(keys.cost.sum()) / capacity.sum()
    limits = (1 + config.max_imbalance) * share
    ballast: Floats = limits.max() - limits
    mean = (float(keys.cost.sum()) + float(ballast.sum())) / keys.workers
    tolerance = limits.max() / mean - 1 if mean > 0 else config.max_imbalance
    made = planner(_with_ballast(keys, ballast), replace(config, max_imbalance=tolerance), rng)
    loads = made.loads - ballast
    verdicts = tuple(_restate(verdict, loads, share, limits, mean) for verdict in made.verdicts)
    return KeyPlan(made.owner[: len(keys)], loads, verdicts, made.splits)


def load_over_share(loads: Floats, capacities: ArrayLike) -> Floats:
    """Return the load of each worker over its share by capacity: 1 everywhere when even.

    >>> load_over_share(np.array([60.0, 30.0]), [3, 1]).round(3).tolist()
    [0.889, 1.333]
    """
    capacity = np.asarray(capacities, dtype=np.float64)
    total = float(loads.sum())
    ratio: Floats = loads / capacity * (capacity.sum() / total) if total else np.ones(len(loads))
    return ratio


def _with_ballast(keys: KeyLoads, ballast: Floats) -> KeyLoads:
    carriers = np.flatnonzero(ballast > 0)
    weight, nothing = ballast[carriers], np.zeros(len(carriers))
    names = range(len(keys)) if keys.names is None else keys.names
    return replace(
        keys,
        cost=np.concatenate([keys.cost, weight]),
        state=np.concatenate([keys.state, nothing]),
        home=np.concatenate([keys.home, carriers]),
        owner=np.concatenate([keys.owner, carriers]),
        names=[*names, *(f"(the capacity worker {worker} lacks)" for worker in carriers)],
        immovable=np.concatenate([keys.immovable_mask, np.ones(len(carriers), dtype=np.bool_)]),
        shared=np.concatenate([keys.shared_cost, weight]),
        hashes=None
        if keys.hashes is None
        else np.concatenate([keys.hashes, carriers.astype(np.uint64)]),
    )


def _restate(
    verdict: Verdict, loads: Floats, share: Floats, limits: Floats, mean: float
) -> Verdict:
    """Say a verdict on balance in terms of the workers' own limits."""
    if verdict.code == VerdictCode.UNBALANCED:
        worker = int(np.argmax(loads / limits))
        text = f"worker {worker} keeps {loads[worker]:.6g}, its limit is {limits[worker]:.6g}"
        return replace(verdict, subject=f"worker {worker}", message=text)
    if verdict.code in (VerdictCode.HEAVY_KEY, VerdictCode.COARSE_KEYS):
        floor = (1 + float(verdict.reachable or 0.0)) * mean
        text = (
            f"key {verdict.subject}, alone or with the keys as heavy, makes some worker need "
            f"{floor:.6g}; the strongest one may have {limits.max():.6g}"
        )
        return replace(verdict, message=text, reachable=floor / float(share.max()) - 1)
    return verdict
