"""The closed loop of the planner-level experiments of mixed-key-routing (HPDC 2017).

Defaults are those of table II: skew z 0.85, fluctuation f 1, tolerance theta 0.08, table 3,000,
beta 1.5, R 8; 100,000 keys on 15 workers (figure 18's limit of 9,350 of 10,000 entries is 14/15).
Each interval shifts the load of one worker by f means, the planner plans, and the next interval
starts from its plan. Reported values are means over the intervals once the window is full.

`paper` has 50 intervals and 6 runs (the paper 5), `small` 6 and 2.

Planning time is the CPU time of the planner, kernels compiled, also as multiple of one
`numpy.argsort` of the same costs, which depends less on the machine.
"""

import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from evenflow.model import KeyLoads, hash_keys, imbalance, jump_hash
from evenflow.model.arrays import Floats
from evenflow.planning.keys import ALGORITHMS, KeyConfig, KeyPlan, feasible, warm_up
from evenflow.planning.keys.metrics import moved_state, windowed_state
from evenflow.research.key_workload import fluctuate_costs, zipf_costs
from evenflow.research.points import Point, Row, Scale

PAPER = "Parallel stream processing against workload skewness and variance (HPDC 2017)"
DEFAULTS: Point = {
    "keys": 100_000,
    "workers": 15,
    "skew": 0.85,
    "fluctuation": 1.0,
    "theta": 0.08,
    "max_table": 3_000,
    "beta": 1.5,
    "window": 1,
}
WINDOWS = (1, 5)
INTERVALS: dict[Scale, int] = {"small": 6, "paper": 50}
SEEDS: dict[Scale, range] = {"small": range(2), "paper": range(6)}
MOVED_LABEL = "state moved per adjustment (%)"
PLANNING_LABEL = "planning time (ms)"


@dataclass(frozen=True, slots=True, eq=False)
class Adjustment:
    """One interval of the loop: input, plan and CPU seconds of the planner."""

    keys: KeyLoads
    plan: KeyPlan
    cpu_seconds: float


def point_config(point: Point) -> KeyConfig:
    """Return the bounds and weights of a point."""
    return KeyConfig(float(point["theta"]), int(point["max_table"]), float(point["beta"]))


def run_adjustments(point: Point, count: int) -> Iterator[Adjustment]:
    """Run the loop and yield `count` adjustments after the window has filled."""
    config, planner = point_config(point), ALGORITHMS[str(point["algorithm"])]
    key_count, workers, window = int(point["keys"]), int(point["workers"]), int(point["window"])
    rng = np.random.default_rng(100 + int(point["seed"]))
    home = jump_hash(hash_keys(np.arange(key_count)), workers)
    owner, cost = home, zipf_costs(key_count, float(point["skew"]), rng)
    sizes: list[Floats] = []
    warm_up(str(point["algorithm"]))
    for interval in range(window + count):
        if interval:
            cost = fluctuate_costs(cost, owner, workers, float(point["fluctuation"]), rng)
        sizes = [*sizes, cost][-window:]
        keys = KeyLoads(cost, windowed_state(sizes, window), home, owner, workers)
        plan, seconds = with_cpu_seconds(partial(planner, keys, config, rng))
        owner = plan.owner
        if interval >= window:
            yield Adjustment(keys, plan, seconds)


def with_cpu_seconds(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of the work and the CPU seconds that it took on this thread."""
    started = time.thread_time()
    result = work()
    return result, time.thread_time() - started


def measure_loop(point: Point) -> list[Row]:
    """Run a point's loop and report section V's measures, means over its adjustments."""
    config = point_config(point)
    adjustments = list(run_adjustments(point, int(point["intervals"])))
    moved = [
        100 * moved_state(adjustment.keys, adjustment.plan.owner) / adjustment.keys.state.sum()
        for adjustment in adjustments
    ]
    seconds = statistics.median(adjustment.cpu_seconds for adjustment in adjustments)
    sort = statistics.median(
        with_cpu_seconds(partial(np.argsort, adjustment.keys.cost))[1] for adjustment in adjustments
    )
    return [
        {
            "moved_percent": float(np.mean(moved)),
            "least_moved_percent": float(min(moved)),
            "most_moved_percent": float(max(moved)),
            "milliseconds": 1000 * seconds,
            "times_argsort": seconds / sort,
            "max_over_mean": float(
                np.mean([imbalance(adjustment.plan.loads) for adjustment in adjustments])
            ),
            "table_size": float(
                np.mean([adjustment.plan.table_size(adjustment.keys) for adjustment in adjustments])
            ),
            "feasible": float(
                np.mean(
                    [
                        feasible(adjustment.keys, config, adjustment.plan)
                        for adjustment in adjustments
                    ]
                )
            ),
        }
    ]


def point_grid(scale: Scale, algorithms: Iterable[str], cases: Iterable[Point]) -> list[Point]:
    """Return each case, on the defaults, under each algorithm and seed."""
    algorithms = tuple(algorithms)
    return [
        {
            **DEFAULTS,
            **case,
            "algorithm": algorithm,
            "intervals": INTERVALS[scale],
            "seed": seed,
        }
        for case in cases
        for algorithm in algorithms
        for seed in SEEDS[scale]
    ]
