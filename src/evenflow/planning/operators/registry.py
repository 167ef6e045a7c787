"""The operator planners by name, and the one function that calls them.

Global planners place all operators from scratch; pairwise planners improve a running placement.
New operators are first placed by the global companion of the pairwise planner (section 5.2.4 of the
paper): COR-GLB for cor-*, LLF-GLB for llf-bal, RAND-GLB for rand-bal.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from evenflow.errors import InputError
from evenflow.model import LoadSeries, Verdict, VerdictCode
from evenflow.model.arrays import Rng, Workers
from evenflow.planning.least_load import place_by_preference
from evenflow.planning.operators.cor_glb import cor_glb
from evenflow.planning.operators.exact import least_variance_placement
from evenflow.planning.operators.load_statistics import centred
from evenflow.planning.operators.metrics import capacity_verdicts
from evenflow.planning.operators.pairwise import (
    BY_PREFERENCE,
    EXCHANGE,
    ONE_WAY,
    REDISTRIBUTE,
    balance_round,
    correlation_round,
)
from evenflow.planning.operators.problem import (
    OperatorConfig,
    OperatorPlan,
    OperatorPlanner,
    OperatorSnapshot,
)
from evenflow.planning.operators.relabel_workers import relabel_workers
from evenflow.planning.operators.unequal_workers import plan_with_ballast
from evenflow.planning.operators.variance import variance
from evenflow.planning.operators.worker_lists import OperatorRows


def plan_operators(
    algorithm: str, snapshot: OperatorSnapshot, config: OperatorConfig, rng: Rng
) -> OperatorPlan:
    """Plan with the named algorithm.

    >>> series = LoadSeries(("a", "b"), [[0.2, 0.4], [0.4, 0.2]], [True, True])
    >>> snapshot, rng = OperatorSnapshot(series, workers=2), np.random.default_rng(0)
    >>> plan_operators("llf-glb", snapshot, OperatorConfig(), rng).placement.tolist()
    [0, 1]
    """
    _check_inputs(snapshot, config)
    if algorithm not in ALGORITHMS:
        raise InputError(f"unknown algorithm {algorithm}; choose one of {', '.join(ALGORITHMS)}")
    if config.capacities is None:
        plan = ALGORITHMS[algorithm](snapshot, config, rng)
    else:
        plan = plan_with_ballast(ALGORITHMS[algorithm], snapshot, config, rng)
    overloads = capacity_verdicts(snapshot, plan.placement, config)
    return replace(plan, verdicts=(*overloads, *plan.verdicts))


def _check_inputs(snapshot: OperatorSnapshot, config: OperatorConfig) -> None:
    """Refuse loads whose squares overflow or underflow, and traffic of other operators."""
    peak = float(snapshot.samples.sum(axis=0).max(initial=0.0))
    if peak > 0 and not (1e-100 < peak < 1e100 and 1e-100 < peak / config.capacity < 1e100):
        raise InputError(
            f"a total load of {peak:g} at a capacity of {config.capacity:g} is out of range; "
            "use other units"
        )
    count = len(snapshot.series.operators)
    if config.traffic is not None and len(config.traffic.starts) != count + 1:
        given = len(config.traffic.starts) - 1
        raise InputError(f"traffic is given for {given} operators, the snapshot has {count}")


def _plan_exact(snapshot: OperatorSnapshot, config: OperatorConfig, rng: Rng) -> OperatorPlan:
    placement, proved = least_variance_placement(snapshot, config, rng)
    not_proved = Verdict(
        VerdictCode.OPTIMUM_NOT_PROVED,
        "plan",
        f"{int(snapshot.series.movable.sum())} operators on {snapshot.workers} workers are too "
        "many to prove the optimum; this is the best plan found; use `variance` at this size",
    )
    return OperatorPlan(relabel_workers(snapshot, placement), () if proved else (not_proved,))


def _scaled_rows(
    snapshot: OperatorSnapshot, config: OperatorConfig, rng: Rng | None = None
) -> OperatorRows:
    """Scale loads to a worker's capacity; heavy ones are preferred, with `rng` random ones."""
    samples = snapshot.samples / config.capacity
    load = samples.mean(axis=1)
    preference = load if rng is None else rng.permutation(len(load)).astype(np.float64)
    return OperatorRows(centred(samples), load, snapshot.series.movable.copy(), preference)


def _place_globally(
    algorithm: str, snapshot: OperatorSnapshot, config: OperatorConfig, rng: Rng
) -> Workers:
    placement, workers = snapshot.placement.copy(), snapshot.workers
    rows = _scaled_rows(snapshot, config, rng if algorithm == "rand-glb" else None)
    if algorithm == "cor-glb":
        cor_glb(config.correlation, rows, placement, workers)
    else:
        place_by_preference(rows.preference, rows.load, rows.movable, placement, workers)
        balance_round(BY_PREFERENCE, 0.0, 0.0, rows, placement, workers)
    return placement


def _plan_globally(
    algorithm: str, snapshot: OperatorSnapshot, config: OperatorConfig, rng: Rng
) -> OperatorPlan:
    placement = _place_globally(algorithm, snapshot, config, rng)
    return OperatorPlan(relabel_workers(snapshot, placement))


def _plan_pairwise(
    step: int,
    companion: str,
    snapshot: OperatorSnapshot,
    config: OperatorConfig,
    rng: Rng,
    *,
    improve_correlation: bool = False,
) -> OperatorPlan:
    new, workers, delta = snapshot.is_new, snapshot.workers, config.exchange
    if new.any():  # place only these; running operators are immovable load
        series = LoadSeries(snapshot.series.operators, snapshot.samples, new)
        only_new = OperatorSnapshot(series, workers, snapshot.placement)
        placement = _place_globally(companion, only_new, config, rng)
    else:
        placement = snapshot.placement.copy()
    rows = _scaled_rows(snapshot, config, rng if companion == "rand-glb" else None)
    balance_round(step, config.balance, delta, rows, placement, workers)
    if improve_correlation:
        limits = config.worker_capacities(workers) / config.capacity
        correlation_round(step, config.correlation, limits, delta, rows, placement, workers)
    return OperatorPlan(placement)


ALGORITHMS: Mapping[str, OperatorPlanner] = {
    "cor-bal": partial(_plan_pairwise, ONE_WAY, "cor-glb"),
    "cor-re": partial(_plan_pairwise, REDISTRIBUTE, "cor-glb"),
    "cor-se": partial(_plan_pairwise, EXCHANGE, "cor-glb"),
    "cor-re-imp": partial(_plan_pairwise, REDISTRIBUTE, "cor-glb", improve_correlation=True),
    "cor-se-imp": partial(_plan_pairwise, EXCHANGE, "cor-glb", improve_correlation=True),
    "cor-glb": partial(_plan_globally, "cor-glb"),
    "llf-glb": partial(_plan_globally, "llf-glb"),
    "rand-glb": partial(_plan_globally, "rand-glb"),
    "llf-bal": partial(_plan_pairwise, BY_PREFERENCE, "llf-glb"),
    "rand-bal": partial(_plan_pairwise, BY_PREFERENCE, "rand-glb"),
    "variance": variance,
    "exact": _plan_exact,
}


def warm_up(algorithm: str) -> None:
    """Compile an algorithm by planning a tiny case, so that later calls only plan."""
    samples = [[0.6, 0.2], [0.2, 0.6], [0.5, 0.1], [0.3, 0.3]]
    series = LoadSeries(tuple("abcd"), np.array(samples), np.ones(4, dtype=bool))
    for placement in (np.full(4, -1), np.array([0, 0, 0, 1])):
        snapshot = OperatorSnapshot(series, 2, placement)
        plan_operators(algorithm, snapshot, OperatorConfig(), np.random.default_rng(0))
