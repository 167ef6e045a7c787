"""Simulates a workload on a cluster under planners (borealis-load-distribution, section 5).

During the warm-up, only overloaded workers offload operators. Then `plan` is applied once, if set,
and every second `rebalance` plans from the last samples and moves operators. Planners see ideal
loads (section 2.2), computed from the tuples that the sources sent.

Choices that the paper leaves open
- The warm-up takes 20 s before the configured seconds; overloaded workers offload their heaviest
  operators first.
- All operators of one decision are suspended together for the migration time.
- Outputs count if they leave after the warm-up.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace

import numpy as np

from evenflow.errors import InputError
from evenflow.model import LoadSeries
from evenflow.model.arrays import Floats, Workers
from evenflow.planning.operators import NOWHERE, OperatorConfig, OperatorSnapshot
from evenflow.planning.operators.registry import ALGORITHMS, plan_operators
from evenflow.planning.operators.relabel_workers import relabel_workers
from evenflow.research.operator_simulator.cluster import Cluster
from evenflow.research.operator_simulator.ideal_rates import ideal_loads
from evenflow.research.operator_simulator.network import OperatorNetwork
from evenflow.research.operator_simulator.simulation_report import (
    PlacementDecision,
    SimulationReport,
    build_report,
)
from evenflow.research.operator_simulator.workload import (
    WORKLOADS,
    calibrate_streams,
    chain_network,
    merge_arrivals,
    onoff_streams,
    periodic_streams,
)

START_PLACEMENTS = ("random", "connected")
MAX_EXACT_OPERATORS = 16  # above, `exact` takes seconds per plan


@dataclass(frozen=True, slots=True)
class SimulationConfig:
    """Parameters of a simulation; defaults are table 2 of the paper."""

    workers: int = 20
    operators: int = 200
    chain_length: int = 10
    cost_seconds: float = 0.001
    selectivity_spread: float = 0.2
    load: float = 0.9
    workload: str = "periodic"
    fluctuation_seconds: float = 10.0  # period; on-off: active plus idle, on average
    fluctuation_ratio: float = 4.0
    start: str = "random"
    plan: str | None = None
    rebalance: str | None = None
    seconds: float = 200.0
    warm_up_seconds: float = 20.0
    migration_seconds: float = 0.2
    window_seconds: float = 10.0
    samples: int = 10
    config: OperatorConfig = field(default_factory=OperatorConfig)

    @property
    def end_seconds(self) -> float:
        """End of the simulation: `seconds` after the warm-up."""
        return self.warm_up_seconds + self.seconds

    def __post_init__(self) -> None:
        for name in ("workers", "operators", "chain_length", "samples"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in (f.name for f in fields(self) if f.name.endswith("seconds")):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise InputError(f"{name} must be at least 0, got {getattr(self, name)}")
        for name in ("window_seconds", "fluctuation_seconds", "cost_seconds"):
            if getattr(self, name) == 0:
                raise InputError(f"{name} must be above 0, got 0")
        if not (np.isfinite(self.load) and self.load > 0):
            raise InputError(f"load must be above 0, got {self.load}")
        for name in ("seconds", "warm_up_seconds"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name):g}")
        _require_one_of("workload", self.workload, WORKLOADS)
        _require_one_of("start", self.start, START_PLACEMENTS)
        for name in ("plan", "rebalance"):
            if getattr(self, name) is not None:
                _require_one_of(name, getattr(self, name), ALGORITHMS)
        if self.rebalance == "exact" and self.operators > MAX_EXACT_OPERATORS:
            raise InputError(
                "rebalance exact plans every simulated second, which takes hours for more than "
                f"{MAX_EXACT_OPERATORS} operators, got {self.operators}; use fewer, or variance"
            )


def _require_one_of(name: str, value: str, known: Iterable[str]) -> None:
    if value not in known:
        raise InputError(f"{name} must be one of {', '.join(known)}; got {value}")


def simulate_network(config: SimulationConfig, seed: int) -> SimulationReport:
    """Simulate the network and streams drawn from a seed."""
    e, rng = config, np.random.default_rng(seed)
    network = chain_network(e.operators, e.chain_length, e.cost_seconds, e.selectivity_spread, rng)
    if e.workload == "periodic":
        streams = periodic_streams(
            network.source_count, e.end_seconds, e.fluctuation_seconds, e.fluctuation_ratio, rng
        )
    else:
        streams = onoff_streams(network.source_count, e.end_seconds, e.fluctuation_seconds / 2, rng)
    streams = calibrate_streams(network, streams, e.workers, e.load, e.end_seconds, rng)
    arrivals = [stream.draw_arrivals(rng) for stream in streams]
    if e.start == "connected":
        placement = (np.arange(e.operators) // e.chain_length % e.workers).astype(np.int32)
    else:
        placement = rng.integers(0, e.workers, size=e.operators).astype(np.int32)
    return simulate_arrivals(e, network, arrivals, placement, rng)


def simulate_arrivals(
    config: SimulationConfig,
    network: OperatorNetwork,
    arrivals: list[Floats],
    placement: Workers,
    rng: np.random.Generator,
) -> SimulationReport:
    """Simulate given arrivals of a network."""
    e = config
    step = e.window_seconds / e.samples
    loads = _sampled_loads(network, arrivals, e.end_seconds, step)
    times, sources = merge_arrivals(arrivals)
    cluster = Cluster(network, e.workers, placement, times, sources, rng)
    decisions: list[PlacementDecision] = []
    planned = e.plan is None
    for tick in range(1, int(np.ceil(e.end_seconds))):
        cluster.run_until(until=float(tick))
        ready = int(tick / step + 1e-9)
        if not ready:
            continue
        recent = loads[:, max(ready - e.samples, 0) : ready]
        before = cluster.placement
        warming = tick < e.warm_up_seconds
        algorithm = e.rebalance if planned or warming else e.plan
        if warming:
            after = _offload_overloaded(recent, before, cluster, e, rng)
        elif algorithm is None:
            after = before
        else:
            after = _plan_placement(algorithm, recent, before, cluster, e, rng, fresh=not planned)
            planned = True
        cluster.move(after, e.migration_seconds)
        if not warming:
            decisions.append(PlacementDecision(float(tick), recent, before, after))
    cluster.run_until(until=e.end_seconds)
    return build_report(cluster, decisions, e.workers, e.end_seconds)


def _sampled_loads(
    network: OperatorNetwork, arrivals: list[Floats], seconds: float, step: float
) -> Floats:
    """Return the ideal load of each operator in each sample, from the arrivals."""
    edges = np.arange(0, int(seconds / step) + 1) * step
    counts = np.stack([np.histogram(times, edges)[0] for times in arrivals])
    return ideal_loads(network, counts / step)


def _planner_snapshot(
    recent: Floats, placement: Workers, cluster: Cluster, workers: int
) -> OperatorSnapshot:
    """Return the input of a planner; moving operators count on their target."""
    movable = np.ones(len(placement), dtype=bool)
    movable[cluster.moving_operators] = False
    names = tuple(map(str, range(len(placement))))
    return OperatorSnapshot(LoadSeries(names, recent, movable), workers, placement)


def _offload_overloaded(
    recent: Floats,
    placement: Workers,
    cluster: Cluster,
    e: SimulationConfig,
    rng: np.random.Generator,
) -> Workers:
    """Return a placement in which overloaded workers offload operators."""
    snapshot = _planner_snapshot(recent, placement, cluster, e.workers)
    loads = np.bincount(placement, weights=snapshot.load, minlength=e.workers)
    overloaded = loads[placement] > e.config.capacity
    if not overloaded.any():
        return placement
    series = replace(snapshot.series, movable=snapshot.series.movable & overloaded)
    relief = replace(snapshot, series=series)
    return plan_operators("llf-bal", relief, e.config, rng).placement


def _plan_placement(
    algorithm: str,
    recent: Floats,
    placement: Workers,
    cluster: Cluster,
    e: SimulationConfig,
    rng: np.random.Generator,
    fresh: bool,
) -> Workers:
    """Return a new placement; a fresh one ignores the current, except to name its workers."""
    snapshot = _planner_snapshot(recent, placement, cluster, e.workers)
    if fresh and algorithm == "variance":
        unplaced = np.where(snapshot.series.movable, NOWHERE, placement)
        blank = replace(snapshot, placement=unplaced.astype(np.int32))
        return relabel_workers(snapshot, plan_operators(algorithm, blank, e.config, rng).placement)
    return plan_operators(algorithm, snapshot, e.config, rng).placement
