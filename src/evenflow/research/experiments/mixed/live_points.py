"""Shared by figures 13 to 16: sizes, and measures over the batches of a live point.

Throughput is rows over seconds of all counted batches, including planning and moves. The share of
batches before a plan takes effect depends on how long the load then stays constant, which the paper
does not say. So claims about throughput use the last batches before the next change ("settled",
their median) and also report the total. Latency is the seconds of a micro-batch from start to
commit; batches follow each other without a pause.

Seconds are wall time and include Spark's overhead and other load of the machine. The seconds of the
fullest worker ("pace") include neither.

Differences from the paper
- Micro-batches of a bounded stream instead of Storm's single tuples; rows cost emulated time.
- With its defaults the controller waits for three batches and for a difference above three standard
  errors, aims at half the tolerance so that plans last, and a plan takes effect two batches later.
  So a change of load costs every planner the same few batches.
- Readj tries fourteen thresholds each time and uses the best.
"""

import statistics
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from evenflow.research import figures
from evenflow.research.experiment import Experiment
from evenflow.research.live_workload import requires_spark
from evenflow.research.points import Point, Rows, Scale
from evenflow.research.seed_statistics import group_spreads

WORKERS: dict[Scale, int] = {"small": 8, "paper": 15}
BATCH_ROWS: dict[Scale, int] = {"small": 8_000, "paper": 60_000}
COST_SECONDS = 4e-4
CHANGE_BATCHES: dict[Scale, int] = {"small": 6, "paper": 20}  # batches from one change to the next
SEEDS: dict[Scale, range] = {"small": range(1), "paper": range(5)}
SETTLED_BATCHES = 3  # last batches before a change, when plans have taken effect
MEASURE_COLUMNS = {
    "batch",
    "rows",
    "seconds",
    "fullest_seconds",
    "max_over_mean",
    "active",
    "adjusted",
    "moved_mb",
}
THROUGHPUT_LABEL = "throughput (rows a second)"
LATENCY_LABEL = "latency of a batch (s)"
NOISE_REASON = (
    "What Spark needs for a batch comes on top of the fullest worker's time and differs by several "
    "percent from run to run; so do single runs of the same point."
)


def common_columns(scale: Scale, **more: Any) -> Point:
    """Return the columns that all points of a scale share."""
    return {
        "workers": WORKERS[scale],
        "batch_rows": BATCH_ROWS[scale],
        "cost": COST_SECONDS,
        "change": CHANGE_BATCHES[scale],
        **more,
    }


def summarise_points(rows: Rows, first: str = "change") -> Rows:
    """Return one row per point, which summarises its batches from number row[first] on."""
    points: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    named = [name for name in rows.column_names if name not in MEASURE_COLUMNS]
    for row in rows.to_pylist():
        if row["batch"] >= row[first]:
            points.setdefault(tuple(row[name] for name in named), []).append(row)
    return pa.Table.from_pylist(
        [
            {**dict(zip(named, key, strict=True)), **_summarise_batches(batches)}
            for key, batches in points.items()
        ]
    )


def _summarise_batches(batches: Sequence[dict[str, Any]]) -> dict[str, Any]:
    count, seconds = (sum(row[name] for row in batches) for name in ("rows", "seconds"))
    last = batches[-SETTLED_BATCHES:]
    return {
        "throughput": count / seconds,
        "settled": statistics.median(row["rows"] / row["seconds"] for row in last),
        "pace": statistics.median(row["rows"] / row["fullest_seconds"] for row in last),
        "latency": seconds / len(batches),
        "max_over_mean": sum(row["max_over_mean"] for row in batches) / len(batches),
        "settled_over_mean": sum(row["max_over_mean"] for row in last) / len(last),
        "adjusted": sum(row["adjusted"] for row in batches),
        "moved_mb": sum(row["moved_mb"] for row in batches),
    }


def draw_level_lines(
    axes: Any, rows: Rows, y: str, algorithms: Sequence[str], xs: Sequence[float]
) -> None:
    """Draw algorithms that do not depend on the x axis as horizontal lines."""
    spreads = group_spreads(rows, y, ["algorithm"])
    for name in algorithms:
        if (name,) in spreads:
            figures.draw_line(axes, name, [(x, spreads[name,]) for x in (min(xs), max(xs))])


def live_experiment(**fields: Any) -> Experiment:
    """Return an experiment whose points run on Spark."""
    return Experiment(run=requires_spark, live=True, **fields)
