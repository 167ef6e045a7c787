"""Throughput and latency as the load changes faster: figure 13 (section V), live on Spark.

A windowed count of Zipf keys, z 0.85. After some batches the load of one worker shifts by f means;
batches from the first shift on count.

Difference from the paper: the shift refers to the owners by hash, since rows are generated before
they are routed.
"""

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from evenflow.datasets.event_time import SECOND_US, START_US, TIMESTAMP
from evenflow.model import hash_keys, jump_hash
from evenflow.research import figures
from evenflow.research.experiment import Claim
from evenflow.research.experiments.mixed.closed_loop import PAPER
from evenflow.research.experiments.mixed.comparison import SpreadByKey
from evenflow.research.experiments.mixed.live_points import (
    LATENCY_LABEL,
    NOISE_REASON,
    SEEDS,
    THROUGHPUT_LABEL,
    common_columns,
    live_experiment,
    summarise_points,
)
from evenflow.research.key_workload import fluctuate_costs, zipf_costs
from evenflow.research.live_workload import LiveWorkload, count_workload, point_balancing
from evenflow.research.points import Point, Rows, Scale
from evenflow.research.seed_statistics import (
    format_number,
    group_spreads,
    make_claim,
    paired_ratios,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALGORITHMS = ("hash", "readj", "mixed", "cover", "ideal")
FLUCTUATIONS: dict[Scale, tuple[float, ...]] = {
    "small": (0.2, 2.0),
    "paper": (0.2, 0.5, 1.0, 1.5, 2.0),
}
KEYS: dict[Scale, int] = {"small": 10_000, "paper": 100_000}
CHANGES: dict[Scale, int] = {"small": 1, "paper": 4}
BATCH_US = 10 * SECOND_US


def _points(scale: Scale) -> list[Point]:
    size = common_columns(scale, keys=KEYS[scale], skew=0.85, theta=0.08, changes=CHANGES[scale])
    return [
        {**size, "fluctuation": f, "algorithm": algorithm, "seed": seed}
        for f in FLUCTUATIONS[scale]
        for algorithm in ALGORITHMS
        for seed in SEEDS[scale]
    ]


def fluctuating_batches(point: Point) -> list[pa.Table]:
    """Return the stream: Zipf keys whose load shifts at every change."""
    rng = np.random.default_rng(100 + int(point["seed"]))
    key_count, workers = int(point["keys"]), int(point["workers"])
    home = jump_hash(hash_keys(np.arange(key_count)), workers)
    cost = zipf_costs(key_count, float(point["skew"]), rng, total=1.0)
    batches = []
    for at in range(int(point["change"]) * (1 + int(point["changes"]))):
        if at and at % int(point["change"]) == 0:
            cost = fluctuate_costs(cost, home, workers, float(point["fluctuation"]), rng)
        count = int(point["batch_rows"])
        times = START_US + at * BATCH_US + np.arange(count) * BATCH_US // count
        keys = rng.choice(key_count, count, p=cost / cost.sum())
        columns = [pa.array(times).cast(TIMESTAMP), pa.array(keys)]
        batches.append(pa.Table.from_arrays(columns, names=["ts", "item"]))
    return batches


def _live_workload(point: Point) -> LiveWorkload:
    streams, queries = count_workload("items", "item", fluctuating_batches(point), point)
    return LiveWorkload(
        streams, queries, int(point["workers"]), point_balancing(point), float(point["cost"])
    )


def _draw(rows: Rows) -> "Figure":
    figure, axes = figures.make_panels(3)
    shown = summarise_points(rows)
    for panel, y, label in (
        (axes[0], "settled", f"{THROUGHPUT_LABEL}, settled"),
        (axes[1], "latency", LATENCY_LABEL),
        (axes[2], "max_over_mean", "fullest worker (means)"),
    ):
        figures.draw_lines(panel, shown, "fluctuation", y, ALGORITHMS)
        panel.set(xlabel="fluctuation f", ylabel=label)
        figures.set_axis_minimum(panel, 1 if y == "max_over_mean" else 0)
    figures.draw_legend(figure, axes, columns=5)
    return figure


def _claims(rows: Rows) -> list[Claim]:
    shown = summarise_points(rows)
    spreads = group_spreads(shown, "throughput", ["algorithm", "fluctuation"])
    settled = group_spreads(shown, "settled", ["algorithm", "fluctuation"])
    pace = group_spreads(shown, "pace", ["algorithm", "fluctuation"])
    places = sorted({f for _, f in spreads})
    low, high = places[0], places[-1]

    def of_ideal(name: str, values: SpreadByKey = spreads) -> dict[float, float]:
        return {f: values[name, f].mean / values["ideal", f].mean for f in places}

    def describe(shares: dict[float, float]) -> str:
        return ", ".join(f"{format_number(share)} at f {f:g}" for f, share in shares.items())

    mixed, readj, at_last = of_ideal("mixed"), of_ideal("readj"), of_ideal("mixed", settled)
    ours = paired_ratios(shown, "throughput", "cover", "mixed", ["fluctuation", "seed"])
    waits = paired_ratios(shown, "latency", "mixed", "ideal", ["fluctuation", "seed"])
    best = max(settled[name, f].mean / settled["ideal", f].mean
               for name in ALGORITHMS[:-1] for f in places)  # fmt: skip
    return [
        make_claim(
            "Mixed's throughput is very close to the ideal at every f",
            f"of the ideal, once settled: {describe(at_last)}, "
            f"hash {describe(of_ideal('hash', settled))}; "
            f"over all batches since the change: {describe(mixed)}, "
            f"hash {describe(of_ideal('hash'))}; "
            f"by the fullest worker alone, settled: {describe(of_ideal('mixed', pace))}, hash "
            f"{describe(of_ideal('hash', pace))}, Readj {describe(of_ideal('readj', pace))}; "
            f"cover {ours} times Mixed",
            min(at_last.values()) >= 0.9,
            NOISE_REASON,
        ),
        make_claim(
            "Mixed's latency is very close to the ideal",
            f"{waits} times the ideal's",
            waits.high <= 1.1,
            "A batch is as late as its fullest worker, also in the batches before the plan that "
            "answers a change.",
        ),
        make_claim(
            "Readj works well only where the load changes little",
            f"of the ideal: {describe(readj)}; Mixed {describe(mixed)}",
            readj[high] < 0.9 * readj[low] and readj[high] < 0.95 * mixed[high],
            "Planning is not what takes the time here: with the best of its thresholds and swaps "
            "found by binary search Readj answers after the same batch as the others.",
        ),
        make_claim(
            "The ideal is above every planner that keeps keys together",
            f"the nearest has {format_number(best)} of its throughput",
            best <= 1.02,
            NOISE_REASON,
        ),
    ]


EXPERIMENTS = (
    live_experiment(
        id="mixed-fig13",
        paper=PAPER,
        title="Throughput and latency by fluctuation, live",
        shows="rows a second and seconds a batch on Spark as the load changes faster",
        cost_note="115 s on 2 cores",
        points=_points,
        live_workload=_live_workload,
        draw=_draw,
        claims=_claims,
    ),
)
