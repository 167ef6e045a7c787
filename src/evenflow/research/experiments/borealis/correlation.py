"""Why correlation matters, and what it costs to compute: figure 1 and table 1."""

import time
from typing import TYPE_CHECKING

import numpy as np

from evenflow.model import LoadSeries
from evenflow.model.arrays import Floats, Workers
from evenflow.planning.operators.problem import OperatorConfig, OperatorSnapshot
from evenflow.planning.operators.registry import plan_operators, warm_up
from evenflow.research import figures
from evenflow.research.experiment import Claim, Experiment
from evenflow.research.experiments.borealis.common import (
    LATENCY_RATIO_LABEL,
    LOAD_LABEL,
    PAPER,
    point_grid,
)
from evenflow.research.operator_simulator.ideal_rates import ideal_loads
from evenflow.research.operator_simulator.simulation import SimulationConfig, simulate_arrivals
from evenflow.research.operator_simulator.workload import (
    calibrate_streams,
    chain_network,
    periodic_streams,
    sample_rates,
)
from evenflow.research.plot_styles import plot_style
from evenflow.research.points import Point, Row, Rows, Scale
from evenflow.research.seed_statistics import (
    format_number,
    group_spreads,
    make_claim,
    markdown_table,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLANS = ("connected", "cut", "variance")
PERIOD_SECONDS = 10.0  # burst and normal take 5 seconds each


def _fig1_points(scale: Scale) -> list[Point]:
    return point_grid(scale, PLANS, [{"load": load} for load in (0.5, 0.6, 0.7, 0.8, 0.9)])


def _measure_fig1(point: Point) -> list[Row]:
    """Simulate two chains of two equal operators on two workers that burst in turn."""
    rng = np.random.default_rng(int(point["seed"]))
    e = SimulationConfig(
        workers=2, operators=4, seconds=float(point["seconds"]), warm_up_seconds=1.0
    )
    network = chain_network(4, 2, e.cost_seconds, 0.0, rng)
    rate = float(point["load"]) / (2 * e.cost_seconds)
    streams = [
        s.scale_rates(rate) for s in periodic_streams(2, e.end_seconds, PERIOD_SECONDS, 2.0, rng)
    ]
    if point["algorithm"] == "variance":
        loads = ideal_loads(network, sample_rates(streams, PERIOD_SECONDS, 1.0))
        placement = plan_operators(
            "variance", operator_snapshot(loads, 2), OperatorConfig(), rng
        ).placement
    else:
        connected = point["algorithm"] == "connected"
        placement = np.array([0, 0, 1, 1] if connected else [0, 1, 1, 0], dtype=np.int32)
    report = simulate_arrivals(
        e, network, [stream.draw_arrivals(rng) for stream in streams], placement, rng
    )
    return [{"latency_ratio": report.latency_ratio, "mean_std": report.mean_std}]


def operator_snapshot(
    loads: Floats, workers: int, placement: Workers | None = None
) -> OperatorSnapshot:
    """Return the input of a planner that may move all operators."""
    names = tuple(map(str, range(len(loads))))
    series = LoadSeries(names, loads, np.ones(len(loads), dtype=bool))
    if placement is None:
        return OperatorSnapshot(series, workers)
    return OperatorSnapshot(series, workers, placement)


def _draw_fig1(rows: Rows) -> "Figure":
    figure, [axes] = figures.make_panels(1)
    figures.draw_lines(axes, rows, "load", "latency_ratio", PLANS)
    figures.use_log_axis(axes)
    axes.set(
        xlabel=LOAD_LABEL,
        ylabel=LATENCY_RATIO_LABEL,
        title="Figure 1: two chains that burst in turn",
    )
    axes.legend()
    return figure


def _fig1_claims(rows: Rows) -> list[Claim]:
    spreads = group_spreads(rows, "latency_ratio", ["algorithm", "load"])
    loads = sorted({key[1] for key in spreads})
    text = "; ".join(
        f"load {load:g}: {spreads['connected', load]} against {spreads['cut', load]}"
        for load in loads
    )
    same = all(spreads["variance", load].mean <= 1.1 * spreads["cut", load].mean for load in loads)
    return [
        make_claim(
            "The cut plan performs much better than the connected plan under fluctuating load",
            text,
            all(spreads["cut", load].mean < spreads["connected", load].mean for load in loads),
        ),
        make_claim(
            "(ours) variance finds a plan as good as the cut plan by itself",
            ", ".join(f"load {load:g}: {spreads['variance', load]}" for load in loads),
            same,
        ),
    ]


TIMED_PLANNERS = ("cor-glb", "variance")
PAPER_SECONDS = {10: 0.5, 20: 3.4, 50: 54.0}
PAIR_PLANNER = "cor-re"
PAPER_PAIR_SECONDS = 0.006


def _table1_points(scale: Scale) -> list[Point]:
    seeds = range(2 if scale == "small" else 5)
    cases = [(n, name) for n in PAPER_SECONDS for name in TIMED_PLANNERS] + [(2, PAIR_PLANNER)]
    return [{"workers": n, "algorithm": name, "seed": seed} for n, name in cases for seed in seeds]


def _measure_table1(point: Point) -> list[Row]:
    """Time a plan of 10 operators per worker and 10 samples: the fastest of three, compiled."""
    workers, name = int(point["workers"]), str(point["algorithm"])
    rng = np.random.default_rng(int(point["seed"]))
    network = chain_network(10 * workers, 10, 0.001, 0.2, rng)
    streams = periodic_streams(network.source_count, 10.0, 10.0, 4.0, rng)
    streams = calibrate_streams(network, streams, workers, 0.9, 10.0, rng)
    loads = ideal_loads(network, sample_rates(streams, 10.0, 1.0))
    # For a pair step, one worker starts with three quarters of the operators.
    uneven = (np.arange(len(loads)) % 4 == 0).astype(np.int32)
    snapshot = operator_snapshot(loads, workers, uneven if name == PAIR_PLANNER else None)
    warm_up(name)
    times = []
    for _ in range(3):
        started = time.thread_time()
        plan_operators(name, snapshot, OperatorConfig(), np.random.default_rng(0))
        times.append(time.thread_time() - started)
    return [{"plan_seconds": min(times)}]


def _markdown_table1(rows: Rows) -> str:
    spreads = group_spreads(rows, "plan_seconds", ["algorithm", "workers"])
    body = [["COR-GLB in the paper (2 GHz Athlon)", *(f"{s:g} s" for s in PAPER_SECONDS.values())]]
    body += [
        [plot_style(name).label, *(f"{1000 * spreads[name, n].mean:.3g} ms" for n in PAPER_SECONDS)]
        for name in TIMED_PLANNERS
    ]
    return markdown_table(["workers", *(str(n) for n in PAPER_SECONDS)], body)


def _table1_claims(rows: Rows) -> list[Claim]:
    spreads = group_spreads(rows, "plan_seconds", ["algorithm", "workers"])
    quicker = {n: PAPER_SECONDS[n] / spreads["cor-glb", n].mean for n in PAPER_SECONDS}
    pair = spreads[PAIR_PLANNER, 2].mean
    growth = float(np.log(spreads["cor-glb", 50].mean / spreads["cor-glb", 10].mean) / np.log(5))
    return [
        make_claim(
            "COR-GLB takes 0.5 s, 3.4 s and 0.9 min for 10, 20 and 50 workers",
            ", ".join(
                f"n = {n}: {format_number(ratio)} times faster" for n, ratio in quicker.items()
            ),
            all(ratio >= 1 for ratio in quicker.values()),
        ),
        make_claim(
            "Its time grows at most with the cube of the number of workers",
            f"with its power {growth:.2g} from 10 to 50 workers",
            growth <= 3,
        ),
        make_claim(
            "Redistribution takes 6 ms for a pair of workers, a small part of a second",
            f"{1000 * pair:.2g} ms with all that surrounds it",
            pair <= PAPER_PAIR_SECONDS,
        ),
    ]


EXPERIMENTS = (
    Experiment(
        id="borealis-fig1",
        paper=PAPER,
        title="Two operator mapping plans with fluctuating load",
        shows="latency when chains that burst in turn share a worker, or are cut across workers",
        cost_note="15 s on 2 cores",
        points=_fig1_points,
        run=_measure_fig1,
        draw=_draw_fig1,
        claims=_fig1_claims,
    ),
    Experiment(
        id="borealis-table1",
        paper=PAPER,
        title="Computation time with different n",
        shows="CPU time of a global plan by number of workers, 10 operators each",
        cost_note="10 s on 2 cores",
        points=_table1_points,
        run=_measure_table1,
        markdown=_markdown_table1,
        claims=_table1_claims,
    ),
)
