"""The operator planners by name, and the one function that calls them.

Pairwise planners improve on a running plan. Operators that run nowhere yet are first placed by
the planner's global companion (cor-* by COR-GLB, llf-bal by LLF-GLB, rand-bal by RAND-GLB), the
others counting as load, as the paper combines them in section 5.2.4.
"""

from dataclasses import dataclass, replace

import numpy as np

from evenflow.errors import InputError
from evenflow.model import LoadSeries, Verdict
from evenflow.model.arrays import Bools, Floats, Workers
from evenflow.planning.operators.cor_glb import cor_glb
from evenflow.planning.operators.exact import least_variance_placement
from evenflow.planning.operators.improvement import correlation_round
from evenflow.planning.operators.load_statistics import centred
from evenflow.planning.operators.metrics import capacity_verdicts
from evenflow.planning.operators.pairwise import (
    BY_PREFERENCE,
    EXCHANGE,
    ONE_WAY,
    REDISTRIBUTE,
    balance_round,
)
from evenflow.planning.operators.place_by_preference import place_by_preference
from evenflow.planning.operators.problem import OperatorConfig, OperatorPlanner, OperatorSnapshot
from evenflow.planning.operators.relabel_workers import relabel_workers
from evenflow.planning.operators.variance import variance

GLOBAL_ALGORITHMS = ("cor-glb", "llf-glb", "rand-glb")


@dataclass(frozen=True, slots=True, eq=False)
class OperatorPlan:
    """Where each operator goes, and what could not be had."""

    placement: Workers
    verdicts: tuple[Verdict, ...]


def plan_operators(
    algorithm: str,
    snapshot: OperatorSnapshot,
    config: OperatorConfig,
    rng: np.random.Generator,
) -> OperatorPlan:
    """Plan by name.

    >>> series = LoadSeries(("a", "b"), [[0.2, 0.4], [0.4, 0.2]], [True, True])
    >>> snapshot = OperatorSnapshot(series, workers=2)
    >>> plan_operators("llf-glb", snapshot, OperatorConfig(), np.random.default_rng(0)).placement.tolist()
    [0, 1]
    """
    _check_inputs(snapshot, config)
    proof: tuple[Verdict, ...] = ()
    if algorithm == "exact":
        placement, proved = least_variance_placement(snapshot, config, rng)
        placement = relabel_workers(snapshot, placement)
        proof = () if proved else (_not_proved_verdict(snapshot),)
    elif algorithm in PLANNERS:
        placement = PLANNERS[algorithm](snapshot, config, rng)
    else:
        raise InputError(f"unknown algorithm {algorithm}; known are {', '.join(ALGORITHMS)}")
    return OperatorPlan(placement, (*capacity_verdicts(snapshot, placement, config), *proof))


def _check_inputs(snapshot: OperatorSnapshot, config: OperatorConfig) -> None:
    """Refuse loads whose squares leave the range of doubles, and traffic of other operators."""
    top = float(snapshot.samples.sum(axis=0).max(initial=0.0))
    if top > 0 and not (1e-100 < top < 1e100 and 1e-100 < top / config.capacity < 1e100):
        raise InputError(
            f"loads of {top:g} in all at a capacity of {config.capacity:g} are out of range; "
            "use other units"
        )
    count = len(snapshot.series.operators)
    if config.traffic is not None and len(config.traffic.starts) != count + 1:
        found = len(config.traffic.starts) - 1
        raise InputError(f"traffic is given for {found} operators, the snapshot has {count}")


def _not_proved_verdict(snapshot: OperatorSnapshot) -> Verdict:
    return Verdict(
        "optimum_not_proved",
        "plan",
        f"{int(snapshot.series.movable.sum())} operators on {snapshot.workers} workers are too "
        "many to prove the optimum; this is the best plan found, use variance at this size",
    )


def _scaled(
    snapshot: OperatorSnapshot, config: OperatorConfig
) -> tuple[Floats, Floats, Bools, Workers]:
    """Return deviations and loads in units of a worker's capacity, and arrays to work on."""
    samples = snapshot.samples / config.capacity
    return (
        centred(samples),
        samples.mean(axis=1),
        snapshot.series.movable.copy(),
        snapshot.placement.copy(),
    )


def _global_planner(name: str) -> OperatorPlanner:
    def planner(
        snapshot: OperatorSnapshot, config: OperatorConfig, rng: np.random.Generator
    ) -> Workers:
        return relabel_workers(snapshot, _place_globally(name, snapshot, config, rng))

    return planner


def _place_globally(
    name: str, snapshot: OperatorSnapshot, config: OperatorConfig, rng: np.random.Generator
) -> Workers:
    deviations, load, movable, placement = _scaled(snapshot, config)
    workers = snapshot.workers
    if name == "cor-glb":
        cor_glb(config.correlation, deviations, load, movable, placement, workers)
        return placement
    order = load if name == "llf-glb" else rng.permutation(len(load)).astype(np.float64)
    place_by_preference(order, load, movable, placement, workers)
    balance_round(BY_PREFERENCE, 0.0, 0.0, deviations, load, movable, order, placement, workers)
    return placement


def _pairwise_planner(step: int, companion: str, improved: bool = False) -> OperatorPlanner:
    def planner(
        snapshot: OperatorSnapshot, config: OperatorConfig, rng: np.random.Generator
    ) -> Workers:
        snapshot = _place_new_operators(snapshot, companion, config, rng)
        deviations, load, movable, placement = _scaled(snapshot, config)
        workers, delta = snapshot.workers, config.exchange
        by_lot = companion == "rand-glb"
        order = rng.permutation(len(load)).astype(np.float64) if by_lot else load
        balance_round(
            step, config.balance, delta, deviations, load, movable, order, placement, workers
        )
        if improved:
            correlation_round(
                step, config.correlation, 1.0, delta, deviations, load, movable, placement,
                workers,
            )  # fmt: skip
        return placement

    return planner


def _place_new_operators(
    snapshot: OperatorSnapshot,
    companion: str,
    config: OperatorConfig,
    rng: np.random.Generator,
) -> OperatorSnapshot:
    """Place the operators that run nowhere yet, the others as they are."""
    new = snapshot.is_new
    if not new.any():
        return snapshot
    series = LoadSeries(snapshot.series.operators, snapshot.samples, new)
    arriving = OperatorSnapshot(series, snapshot.workers, snapshot.placement)
    return replace(snapshot, placement=_place_globally(companion, arriving, config, rng))


PLANNERS: dict[str, OperatorPlanner] = {
    "cor-bal": _pairwise_planner(ONE_WAY, "cor-glb"),
    "cor-re": _pairwise_planner(REDISTRIBUTE, "cor-glb"),
    "cor-se": _pairwise_planner(EXCHANGE, "cor-glb"),
    "cor-re-imp": _pairwise_planner(REDISTRIBUTE, "cor-glb", improved=True),
    "cor-se-imp": _pairwise_planner(EXCHANGE, "cor-glb", improved=True),
    **{name: _global_planner(name) for name in GLOBAL_ALGORITHMS},
    "llf-bal": _pairwise_planner(BY_PREFERENCE, "llf-glb"),
    "rand-bal": _pairwise_planner(BY_PREFERENCE, "rand-glb"),
    "variance": variance,
}
ALGORITHMS = (*PLANNERS, "exact")


def warm_up(algorithm: str) -> None:
    """Compile an algorithm by planning a tiny case, so that later calls only plan."""
    operators = tuple("abcd")
    samples = [[0.6, 0.2], [0.2, 0.6], [0.5, 0.1], [0.3, 0.3]]
    series = LoadSeries(operators, np.array(samples), np.ones(4, dtype=bool))
    for placement in (np.full(4, -1), np.array([0, 0, 0, 1])):
        snapshot = OperatorSnapshot(series, 2, placement)
        plan_operators(algorithm, snapshot, OperatorConfig(), np.random.default_rng(0))
