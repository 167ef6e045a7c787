"""How good an operator plan is, and which limits it does not keep."""

from dataclasses import dataclass

import numpy as np

from evenflow.model import Verdict, VerdictCode
from evenflow.model.arrays import Workers
from evenflow.planning.operators.load_statistics import (
    divergent_level,
    mean_correlation,
    series_variance,
    std_lower_bound,
    worker_series,
)
from evenflow.planning.operators.problem import OperatorConfig, OperatorSnapshot


@dataclass(frozen=True, slots=True)
class OperatorPlanMetrics:
    """The measures of borealis-load-distribution for one plan.

    `lower_bound_std` is Theorem 1's; `imbalance` the largest |L - mean| / mean over workers.
    Load and operators moved are counted for those that ran before.
    """

    mean_variance: float
    mean_std: float
    lower_bound_std: float
    mean_correlation: float
    imbalance: float
    moved_operators: int
    moved_load: float


def measure_operator_plan(
    snapshot: OperatorSnapshot, placement: Workers, config: OperatorConfig | None = None
) -> OperatorPlanMetrics:
    """Measure a plan for a snapshot; the imbalance is that of shares by capacity."""
    series = worker_series(snapshot.samples, placement, snapshot.workers)
    variances = series_variance(series)
    capacity = (config or OperatorConfig()).worker_capacities(snapshot.workers)
    loads = series.mean(axis=1) / capacity * float(capacity.mean())
    mean = float(series.mean(axis=1).mean())
    moved = ~snapshot.is_new & (placement != snapshot.placement)
    return OperatorPlanMetrics(
        mean_variance=float(variances.mean()),
        mean_std=float(np.sqrt(variances).mean()),
        lower_bound_std=std_lower_bound(snapshot.samples, snapshot.workers),
        mean_correlation=mean_correlation(series),
        imbalance=float(np.abs(loads - mean).max() / mean) if mean else 0.0,
        moved_operators=int(moved.sum()),
        moved_load=float(snapshot.load[moved].sum()),
    )


def capacity_verdicts(
    snapshot: OperatorSnapshot, placement: Workers, config: OperatorConfig
) -> tuple[Verdict, ...]:
    """Return a verdict for each of operator, total load and bursts that exceeds the capacity."""
    capacities, load = config.worker_capacities(snapshot.workers), snapshot.load
    limits = capacities * (1 + 1e-9)  # sums of doubles are not exact
    capacity, limit = float(capacities.max()), float(limits.max())
    verdicts = [
        Verdict(
            VerdictCode.OPERATOR_EXCEEDS_WORKER,
            snapshot.series.operators[o],
            f"operator {snapshot.series.operators[o]} needs {load[o]:.4g}, more than a worker's "
            f"capacity of {capacity:.4g}; split it by key or give it a larger worker",
            float(load[o]),
        )
        for o in np.flatnonzero(load > limit)
    ]
    mean = float(load.sum()) / snapshot.workers
    if load.sum() > limits.sum():
        needed = int(np.ceil(float(load.sum()) / limit))
        verdicts.append(
            Verdict(
                VerdictCode.TOTAL_EXCEEDS_CAPACITY,
                "workers",
                f"all operators need {load.sum():.4g}, {snapshot.workers} workers of "
                f"{capacity:.4g} cannot carry it; at least {needed} are needed",
                mean,
            )
        )
    series = worker_series(snapshot.samples, placement, snapshot.workers)
    levels = divergent_level(series)
    bursting = np.flatnonzero(levels > limits)
    if len(bursting):
        worst = int(np.argmax(levels / limits))
        verdicts.append(
            Verdict(
                VerdictCode.BURSTS_EXCEED_CAPACITY,
                f"worker {worst}",
                f"{len(bursting)} of {snapshot.workers} workers have mean load plus deviation "
                f"above {capacities[worst]:.4g}, worker {worst} the most with {levels[worst]:.4g}: "
                "expect queues now and then",
                mean + std_lower_bound(snapshot.samples, snapshot.workers),
            )
        )
    return tuple(verdicts)
