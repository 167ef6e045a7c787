"""Shared by the experiments of borealis-load-distribution (ICDE 2005).

Parameters are those of table 2; `small` has 60 simulated seconds and 2 seeds, `paper` 200 (not
given in the paper) and 6. By default, a planner that plans once starts from a random plan, one
that plans every second from the connected plan, as in sections 5.2.1 and 5.2.2.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from evenflow.research.operator_simulator.simulation import SimulationConfig, simulate_network
from evenflow.research.points import Point, Row, Scale

PAPER = "Dynamic Load Distribution in the Borealis Stream Processor (ICDE 2005)"
SECONDS: dict[Scale, float] = {"small": 60.0, "paper": 200.0}
SEEDS: dict[Scale, range] = {"small": range(2), "paper": range(6)}
LOADS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
LOAD_LABEL = "system load level"
LATENCY_RATIO_LABEL = "latency ratio"

# How an algorithm of a figure is simulated: planned once after the warm-up, or every second.
PLAN_ONCE: dict[str, dict[str, str]] = {
    name: {"plan": name} for name in ("cor-glb", "llf-glb", "rand-glb", "variance")
}
PLAN_EVERY_SECOND: dict[str, dict[str, str]] = {
    name: {"rebalance": name}
    for name in ("cor-bal", "llf-bal", "rand-bal", "cor-re-imp", "cor-se-imp")
} | {"variance, every second": {"rebalance": "variance"}}
PLANNERS = PLAN_ONCE | PLAN_EVERY_SECOND


def point_grid(scale: Scale, algorithms: Iterable[str], cases: Iterable[Point]) -> list[Point]:
    """Return each case under each algorithm and seed."""
    algorithms = tuple(algorithms)
    return [
        {**case, "algorithm": algorithm, "seconds": SECONDS[scale], "seed": seed}
        for case in cases
        for algorithm in algorithms
        for seed in SEEDS[scale]
    ]


def simulation_config(
    point: Point, planners: Mapping[str, Mapping[str, str]] = PLANNERS
) -> SimulationConfig:
    """Return the configuration of a point: its columns are parameters of the simulator."""
    options: dict[str, Any] = {
        name: value for name, value in point.items() if name not in {"algorithm", "seed"}
    }
    return SimulationConfig(**options, **dict[str, Any](planners[str(point["algorithm"])]))


def measure_simulation(
    point: Point, planners: Mapping[str, Mapping[str, str]] = PLANNERS
) -> list[Row]:
    """Simulate a point and report the measures of section 5.

    Seeds start at 100: lower ones were used to develop the planners.
    """
    report = simulate_network(simulation_config(point, planners), 100 + int(point["seed"]))
    return [
        {
            "latency_ratio": report.latency_ratio,
            "latency_ratio_p99": report.latency_ratio_p99,
            "moved_load": report.moved_load,
            "mean_std": report.mean_std,
            "lower_bound_std": report.lower_bound_std,
            "mean_correlation": report.mean_correlation,
            "waiting": report.waiting,
        }
    ]
