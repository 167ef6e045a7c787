"""Super-operators: light operators planned together (borealis-load-distribution, section 4.3).

The time of the planners grows with the square of the operators on a worker, and many operators on
a worker means many light ones that need no decision each. So light movable operators of one worker
are bundled until a bundle carries at least a given load. Neighbours in the list are bundled first:
they are usually neighbours in the network too, so that the stream between them stays local.
"""

from dataclasses import dataclass, replace

import numpy as np

from evenflow.errors import require_non_negative
from evenflow.model import LoadSeries
from evenflow.model.arrays import Indices, Workers
from evenflow.planning.operators.load_statistics import worker_series
from evenflow.planning.operators.problem import OperatorConfig, OperatorPlan, OperatorSnapshot
from evenflow.planning.operators.registry import plan_operators


@dataclass(frozen=True, slots=True, eq=False)
class OperatorClusters:
    """The snapshot of super-operators, and which one each operator belongs to."""

    snapshot: OperatorSnapshot
    cluster_of: Indices

    def expand_placement(self, placement: Workers) -> Workers:
        """Return the placement of operators from that of super-operators."""
        return placement[self.cluster_of]


def cluster_operators(snapshot: OperatorSnapshot, least_load: float) -> OperatorClusters:
    """Bundle operators lighter than `least_load`, each bundle on one worker.

    >>> series = LoadSeries(("a", "b", "c"), [[0.1], [0.5], [0.2]], [True, True, True])
    >>> clusters = cluster_operators(OperatorSnapshot(series, 2, [0, 0, 0]), least_load=0.3)
    >>> clusters.snapshot.series.operators, clusters.cluster_of.tolist()
    (('a+1', 'b'), [0, 1, 0])
    """
    require_non_negative("least_load", least_load)
    load, movable = snapshot.load, snapshot.series.movable
    leader = np.arange(len(load))
    light = np.flatnonzero(movable & (load < least_load))
    for worker in np.unique(snapshot.placement[light]).tolist():
        operators = light[snapshot.placement[light] == worker]
        sums = np.cumsum(load[operators])
        start = 0
        while start < len(operators):
            carried = sums[start - 1] if start else 0.0
            end = int(np.searchsorted(sums, carried + least_load)) + 1
            if end > len(operators) and start:  # the rest is too light for its own bundle
                leader[operators[start:]] = leader[operators[start - 1]]
            else:
                leader[operators[start:end]] = operators[start]
            start = end
    leaders, member_of = np.unique(leader, return_inverse=True)
    samples = worker_series(snapshot.samples, member_of.astype(np.int64), len(leaders))
    others = np.bincount(member_of) - 1
    names = tuple(
        snapshot.series.operators[o] + (f"+{more}" if more else "")
        for o, more in zip(leaders.tolist(), others.tolist(), strict=True)
    )
    bundled = LoadSeries(names, samples, movable[leaders])
    return OperatorClusters(
        OperatorSnapshot(bundled, snapshot.workers, snapshot.placement[leaders]), member_of
    )


def plan_clustered(
    algorithm: str,
    snapshot: OperatorSnapshot,
    config: OperatorConfig,
    rng: np.random.Generator,
    least_load: float,
) -> OperatorPlan:
    """Plan super-operators and expand the plan; verdicts name super-operators."""
    clusters = cluster_operators(snapshot, least_load)
    if config.traffic is not None:
        config = replace(config, traffic=config.traffic.merge_operators(clusters.cluster_of))
    planned = plan_operators(algorithm, clusters.snapshot, config, rng)
    return OperatorPlan(clusters.expand_placement(planned.placement), planned.verdicts)
