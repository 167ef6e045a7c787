"""A continuous TPC-H Q5: figure 16 (section V), live on Spark.

The join of orders and line items is keyed by the order, some of which are hot (z 0.8), and
publishes its results; a second query sums the revenue of nations over a sliding window of five
minutes. Other orders become hot every two and a half minutes of event time, the half window in
which line items follow their orders (see `evenflow.datasets.tpch_q5`).

Batches count from the first line items on, half a window after the first orders.

Differences from the paper: `small` runs five minutes of a tenth of the data; hot orders change more
often than every 15 minutes.
"""

from typing import TYPE_CHECKING

from evenflow.datasets import tpch_q5
from evenflow.datasets.tpch import Tpch
from evenflow.research import figures
from evenflow.research.experiment import Claim
from evenflow.research.experiments.mixed.closed_loop import PAPER
from evenflow.research.experiments.mixed.live_points import (
    SEEDS,
    THROUGHPUT_LABEL,
    WORKERS,
    draw_level_lines,
    live_experiment,
    summarise_points,
)
from evenflow.research.live_workload import LiveQuery, LiveWorkload, point_balancing
from evenflow.research.points import Point, Rows, Scale
from evenflow.research.seed_statistics import format_number, group_spreads, make_claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLANNERS = ("mixed", "readj", "cover")
SIZES: dict[Scale, Point] = {
    # `seconds` of event time per batch: hot orders change every 10 and 15 batches
    "small": {"scale": 0.1, "batches": 20, "seconds": 15, "cost": 1e-3},
    "paper": {"scale": 1.0, "batches": 360, "seconds": 10, "cost": 4e-4},
}
THETAS: dict[Scale, tuple[float, ...]] = {"small": (0.1,), "paper": (0.02, 0.1, 0.3)}


def _points(scale: Scale) -> list[Point]:
    half = tpch_q5.WINDOW_SECONDS // 2 // int(SIZES[scale]["seconds"])
    size = {**SIZES[scale], "workers": WORKERS[scale], "skip": half}
    cases = [(name, theta) for name in PLANNERS for theta in THETAS[scale]]
    return [
        {**size, "algorithm": name, "theta": theta, "seed": seed}
        for name, theta in [("hash", 0.0), *cases]
        for seed in SEEDS[scale]
    ]


def _live_workload(point: Point) -> LiveWorkload:
    data = Tpch(
        scale=float(point["scale"]),
        batches=int(point["batches"]),
        seconds=int(point["seconds"]),
        seed=1 + int(point["seed"]),
    )
    return LiveWorkload(
        {name: list(data.stream_batches(name)) for name in data.streams},
        (
            LiveQuery("joined", tpch_q5.JOIN_SQL, tpch_q5.ORDER_KEY, publish=True),
            LiveQuery("revenue", tpch_q5.REVENUE_SQL.format(joined="joined")),
        ),
        int(point["workers"]),
        point_balancing(point),
        float(point["cost"]),
        tables={name: data.table_rows(name) for name in data.tables},
    )


def _draw(rows: Rows) -> "Figure":
    figure, axes = figures.make_panels(2)
    shown = summarise_points(rows, "skip")
    thetas = sorted({row["theta"] for row in shown.to_pylist()} - {0.0})
    figures.draw_bars(
        axes[0], shown, "theta", "settled", PLANNERS, where=lambda row: row["theta"] > 0
    )
    draw_level_lines(axes[0], shown, "settled", ("hash",), (-0.5, len(thetas) - 0.5))
    groups = [f"{theta:g}" for theta in thetas]
    axes[0].set_xticks(range(len(groups)), groups)
    axes[0].set(xlabel="tolerance", ylabel=f"{THROUGHPUT_LABEL}, settled")
    figures.draw_lines(axes[1], rows, "batch", "max_over_mean", ("hash", *PLANNERS), spread=False)
    axes[1].set(xlabel="batch", ylabel="fullest worker (means)")
    figures.set_axis_minimum(axes[1], 1)
    figures.draw_legend(figure, axes, columns=4)
    return figure


def _claims(rows: Rows) -> list[Claim]:
    shown = summarise_points(rows, "skip")
    spreads = group_spreads(shown, "settled", ["algorithm", "theta"])
    uneven = group_spreads(shown, "settled_over_mean", ["algorithm", "theta"])
    thetas = sorted({theta for name, theta in spreads if name == "mixed"})
    base = spreads["hash", 0.0].mean

    def describe(name: str) -> str:
        return ", ".join(f"{format_number(spreads[name, t].mean / base)} at {t:g}" for t in thetas)

    gains = [spreads["mixed", theta].mean / base for theta in thetas]
    best = [
        spreads["mixed", theta].mean / max(spreads[name, theta].mean for name in PLANNERS)
        for theta in thetas
    ]
    return [
        make_claim(
            "Without balancing the throughput is poor; Mixed's is far better",
            f"over hash ({spreads['hash', 0.0]} rows a second): Mixed {describe('mixed')}; Readj "
            f"{describe('readj')}; cover {describe('cover')}. Fullest worker: hash "
            f"{uneven['hash', 0.0]} means, Mixed {uneven['mixed', thetas[0]]}",
            min(gains) >= 1.2,
            "Hash is only so uneven, and an order is hot for a few batches, the first of which "
            "pass before its load is sure.",
        ),
        make_claim(
            "Mixed has the best throughput at any tolerance",
            "of the best: "
            + ", ".join(f"{format_number(b)} at {t:g}" for b, t in zip(best, thetas, strict=True)),
            min(best) >= 0.98,
            "The planners differ by a few percent, the noise of a run.",
        ),
    ]


EXPERIMENTS = (
    live_experiment(
        id="mixed-fig16",
        paper=PAPER,
        title="Continuous TPC-H Q5, live",
        shows="rows a second on Spark of a keyed join with hot orders, and a sum over it",
        cost_note="75 s on 2 cores",
        points=_points,
        live_workload=_live_workload,
        draw=_draw,
        claims=_claims,
    ),
)
