"""Workers of unequal capacity, for planners that take all workers as equal: ballast (ours).

borealis-load-distribution assumes equal nodes. A weaker worker gets an operator that cannot move,
with a constant load: what its share of the load, by capacity, lacks to the strongest one's. Workers
with equal loads then have their shares. A constant load has no variance, so no correlation changes.
The overload rule (3.3.4) compares with each worker's own capacity plus its ballast.

    load 0.8, capacities 2, 1, 1: shares 0.4, 0.2, 0.2, ballast 0, 0.2, 0.2
"""

from dataclasses import replace

import numpy as np

from evenflow.model import LoadSeries
from evenflow.planning.operators.problem import (
    OperatorConfig,
    OperatorPlan,
    OperatorPlanner,
    OperatorSnapshot,
    SourceTraffic,
)


def plan_with_ballast(
    planner: OperatorPlanner,
    snapshot: OperatorSnapshot,
    config: OperatorConfig,
    rng: np.random.Generator,
) -> OperatorPlan:
    """Plan for `config.capacities`; loads and thresholds are in units of the largest."""
    capacity, count = config.worker_capacities(snapshot.workers), len(snapshot.series.operators)
    share = capacity * float(snapshot.load.sum()) / capacity.sum()
    ballast = share.max() - share
    carriers = np.flatnonzero(ballast > 0)
    samples = np.repeat(ballast[carriers, None], snapshot.samples.shape[1], axis=1)
    names = tuple(f"(the capacity worker {worker} lacks)" for worker in carriers)
    series = LoadSeries(
        (*snapshot.series.operators, *names),
        np.concatenate([snapshot.samples, samples]),
        np.concatenate([snapshot.series.movable, np.zeros(len(carriers), dtype=np.bool_)]),
    )
    placement = np.concatenate([snapshot.placement, carriers])
    made = planner(
        OperatorSnapshot(series, snapshot.workers, placement),
        replace(
            config,
            capacity=float(capacity.max()),
            capacities=tuple(capacity + ballast),
            traffic=_with_ballast(config.traffic, len(carriers)),
        ),
        rng,
    )
    return replace(made, placement=made.placement[:count])


def _with_ballast(traffic: SourceTraffic | None, count: int) -> SourceTraffic | None:
    """Add operators that read nothing."""
    if traffic is None:
        return None
    return replace(traffic, starts=np.append(traffic.starts, np.full(count, traffic.starts[-1])))
