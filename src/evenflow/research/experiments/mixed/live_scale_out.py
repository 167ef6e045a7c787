"""Adding a worker while the stream runs: figure 15 (section V), live on Spark.

The word count of figure 14 runs on all workers but one until it is balanced; then the last one is
activated. Keys that hash to the new worker move there at once under every algorithm; planners
balance the rest. PKG chooses among the active workers.
"""

import statistics
from typing import TYPE_CHECKING

import pyarrow as pa

from evenflow.research import figures
from evenflow.research.experiment import Claim
from evenflow.research.experiments.mixed.closed_loop import PAPER
from evenflow.research.experiments.mixed.live_points import (
    CHANGE_BATCHES,
    NOISE_REASON,
    SEEDS,
    SETTLED_BATCHES,
    THROUGHPUT_LABEL,
    common_columns,
    live_experiment,
)
from evenflow.research.experiments.mixed.live_tolerance import word_batches
from evenflow.research.live_workload import LiveWorkload, count_workload, point_balancing
from evenflow.research.plot_styles import plot_style
from evenflow.research.points import Point, Rows, Scale
from evenflow.research.seed_statistics import Spread, format_number, make_claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALGORITHMS = ("mixed", "readj", "pkg", "cover")
THETA = 0.1


def _points(scale: Scale) -> list[Point]:
    size = common_columns(scale, theta=THETA, activate=CHANGE_BATCHES[scale] - 1)
    return [{**size, "algorithm": name, "seed": s} for name in ALGORITHMS for s in SEEDS[scale]]


def _live_workload(point: Point) -> LiveWorkload:
    workers = int(point["workers"])
    batches = word_batches(point, 2 * int(point["change"]))
    streams, queries = count_workload("words", "word", batches, point, old=workers - 1)
    config, cost = point_balancing(point), float(point["cost"])
    return LiveWorkload(
        streams,
        queries,
        workers,
        config,
        cost,
        initial_active=workers - 1,
        activate_after_batch=int(point["activate"]),
    )


def _draw(rows: Rows) -> "Figure":
    figure, axes = figures.make_panels(2)
    rates = [row["rows"] / row["seconds"] for row in rows.to_pylist()]
    shown = rows.append_column("throughput", pa.array(rates))
    for panel, y, label in (
        (axes[0], "throughput", THROUGHPUT_LABEL),
        (axes[1], "max_over_mean", "fullest worker (means of those in use)"),
    ):
        figures.draw_lines(panel, shown, "batch", y, ALGORITHMS)
        panel.axvline(rows["activate"][0].as_py() + 0.5, color="black", linestyle=":", linewidth=1)
        panel.set(xlabel="batch (dotted: one worker more)", ylabel=label)
        figures.set_axis_minimum(panel, 1 if y == "max_over_mean" else 0)
    figures.draw_legend(figure, axes)
    return figure


def _throughput(rows: list[dict[str, float]]) -> float:
    return statistics.median(row["rows"] / row["seconds"] for row in rows)


def _batches_by_seed(rows: Rows, name: str) -> list[list[dict[str, float]]]:
    """Return the batches of each seed."""
    batches = [row for row in rows.to_pylist() if row["algorithm"] == name]
    seeds = sorted({row["seed"] for row in batches})
    return [[row for row in batches if row["seed"] == seed] for seed in seeds]


def _batches_until_even(run: list[dict[str, float]]) -> int | None:
    """Return the batches from the new worker on until the fullest is within the tolerance."""
    later = [row for row in run if row["batch"] > row["activate"]]
    return next(
        (
            at
            for at, row in enumerate(later, 1)
            if row["active"] == row["workers"] and row["max_over_mean"] <= 1 + THETA
        ),
        None,
    )


def _claims(rows: Rows) -> list[Claim]:
    gain, after, wait = {}, {}, {}
    for name in ALGORITHMS:
        runs = _batches_by_seed(rows, name)
        settled = [_throughput(run[-SETTLED_BATCHES:]) for run in runs]
        first = [
            _throughput([r for r in run if r["batch"] <= r["activate"]][-SETTLED_BATCHES:])
            for run in runs
        ]
        gain[name] = Spread(tuple(a / b for a, b in zip(settled, first, strict=True)))
        after[name] = Spread(tuple(settled))
        waits = [_batches_until_even(run) for run in runs]
        known = [batches for batches in waits if batches is not None]
        wait[name] = statistics.fmean(known) if len(known) == len(waits) else None
    workers = int(rows["workers"][0].as_py())

    def describe(name: str) -> str:
        batches = wait[name]
        return f"{plot_style(name).label} {'never' if batches is None else format_number(batches)}"

    slow = wait["readj"] if wait["readj"] is not None else float("inf")
    return [
        make_claim(
            "Mixed puts a worker more to use: throughput follows",
            f"last batches with {workers} over those with {workers - 1} workers, "
            f"{format_number(workers / (workers - 1))} being all there is to gain: "
            + ", ".join(f"{plot_style(name).label} {gain[name]}" for name in ALGORITHMS),
            gain["mixed"].mean >= 1 + 0.5 / (workers - 1),
            "The fixed cost of a batch does not shrink, and other words occur in other batches.",
        ),
        make_claim(
            "Mixed balances the workers again much sooner than Readj",
            f"batches until the fullest is within {THETA:g} of the mean: "
            + ", ".join(describe(name) for name in ALGORITHMS),
            wait["mixed"] is not None and wait["mixed"] < slow,
            "Readj with the best of its thresholds and swaps found by binary search plans within "
            "the same batch.",
        ),
        make_claim(
            "PKG has a lower throughput than Mixed",
            f"Mixed over PKG {format_number(after['mixed'].mean / after['pkg'].mean)}, "
            f"cover over Mixed {format_number(after['cover'].mean / after['mixed'].mean)}, "
            "in the last batches",
            after["mixed"].mean > 1.02 * after["pkg"].mean,
            "A word's partial counts are merged once a batch, not every 10 ms: few rows more, on "
            "workers that PKG keeps perfectly even. " + NOISE_REASON,
        ),
    ]


EXPERIMENTS = (
    live_experiment(
        id="mixed-fig15",
        paper=PAPER,
        title="Scale-out, live",
        shows="rows a second on Spark, batch by batch, when a worker is added",
        cost_note="45 s on 2 cores",
        points=_points,
        live_workload=_live_workload,
        draw=_draw,
        claims=_claims,
    ),
)
