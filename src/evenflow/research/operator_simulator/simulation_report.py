"""The measures of a simulation, in total and over time."""

from dataclasses import dataclass

import numpy as np

from evenflow.model.arrays import Floats, Workers
from evenflow.planning.operators.load_statistics import (
    mean_correlation,
    series_variance,
    std_lower_bound,
    worker_series,
)
from evenflow.research.operator_simulator.cluster import Cluster
from evenflow.research.operator_simulator.network import OperatorNetwork


@dataclass(frozen=True, slots=True, eq=False)
class PlacementDecision:
    """The input and the result of a planner at one time."""

    seconds: float
    loads: Floats
    before: Workers
    after: Workers


@dataclass(frozen=True, slots=True)
class SimulationTimeline:
    """Measures of each second after the warm-up; None without output."""

    seconds: list[float]
    latency_ratio: list[float | None]
    latency_ratio_p50: list[float | None]
    latency_ratio_p95: list[float | None]
    latency_ratio_p99: list[float | None]
    moves: list[int]
    moved_load: list[float]
    mean_std: list[float]
    lower_bound_std: list[float]
    mean_correlation: list[float]


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """The measures of section 5.

    Latency ratio: seconds from birth to output over the processing delay of the shortest path
    through the network. System load: busy time of all workers over their total time. Means over
    time cover the seconds after the warm-up.
    """

    latency_ratio: float | None
    latency_ratio_p50: float | None
    latency_ratio_p95: float | None
    latency_ratio_p99: float | None
    system_load: float
    moves: int
    moved_load: float
    mean_std: float
    lower_bound_std: float
    mean_correlation: float
    outputs: int
    services: int
    waiting: int
    timeline: SimulationTimeline


def shortest_delays(network: OperatorNetwork) -> Floats:
    """Return the processing time of the shortest path to the end of each operator."""
    arrive = np.full(len(network), np.inf)
    arrive[network.source_edges[:, 1]] = 0.0
    done = np.full(len(network), np.inf)
    after: list[list[int]] = [[] for _ in range(len(network))]
    for upstream, downstream in network.operator_edges.tolist():
        after[upstream].append(downstream)
    for operator in network.topological_order.tolist():
        done[operator] = arrive[operator] + network.cost[operator]
        for downstream in after[operator]:
            arrive[downstream] = min(arrive[downstream], done[operator])
    return done


def build_report(
    cluster: Cluster,
    decisions: list[PlacementDecision],
    workers: int,
    seconds: float,
) -> SimulationReport:
    """Return the report of a finished simulation."""
    outputs = cluster.outputs()
    counted = outputs.left_at >= decisions[0].seconds
    ratios = (cluster.latencies() / shortest_delays(cluster.network)[outputs.sink])[counted]
    time = _build_timeline(decisions, workers, outputs.left_at[counted], ratios)
    p50, p95, p99 = np.percentile(ratios, [50, 95, 99]).tolist() if len(ratios) else [None] * 3
    return SimulationReport(
        latency_ratio=float(ratios.mean()) if len(ratios) else None,
        latency_ratio_p50=p50,
        latency_ratio_p95=p95,
        latency_ratio_p99=p99,
        system_load=float(cluster.busy_seconds.sum() / (workers * seconds)),
        moves=sum(time.moves),
        moved_load=sum(time.moved_load),
        mean_std=float(np.mean(time.mean_std)),
        lower_bound_std=float(np.mean(time.lower_bound_std)),
        mean_correlation=float(np.mean(time.mean_correlation)),
        outputs=len(ratios),
        services=cluster.services,
        waiting=int(cluster.tuple_counts()["waiting"].sum()),
        timeline=time,
    )


def _build_timeline(
    decisions: list[PlacementDecision], workers: int, left: Floats, ratios: Floats
) -> SimulationTimeline:
    edges = np.array([decision.seconds for decision in decisions])
    order = np.argsort(left, kind="stable")
    parts = np.split(ratios[order], np.searchsorted(left[order], edges[1:]))
    levels = [np.percentile(part, [50, 95, 99]).tolist() if len(part) else None for part in parts]
    changed = [decision.before != decision.after for decision in decisions]
    series = [worker_series(d.loads, d.after, workers) for d in decisions]
    return SimulationTimeline(
        seconds=edges.tolist(),
        latency_ratio=[float(part.mean()) if len(part) else None for part in parts],
        latency_ratio_p50=[level and level[0] for level in levels],
        latency_ratio_p95=[level and level[1] for level in levels],
        latency_ratio_p99=[level and level[2] for level in levels],
        moves=[int(moved.sum()) for moved in changed],
        moved_load=[
            float(d.loads.mean(axis=1)[moved].sum())
            for d, moved in zip(decisions, changed, strict=True)
        ],
        mean_std=[float(np.sqrt(series_variance(rows)).mean()) for rows in series],
        lower_bound_std=[std_lower_bound(d.loads, workers) for d in decisions],
        mean_correlation=[mean_correlation(rows) for rows in series],
    )
