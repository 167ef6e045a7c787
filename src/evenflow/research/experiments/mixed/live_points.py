"""What figures 13 to 16 share: sizes, and how the batches of a played point are read.

Throughput is rows over seconds of all batches that count, adjusting and moving included. How much
of that is spent before a plan answers a change depends on how long the load then stays, which the
paper leaves open: claims about throughput read the last batches before the next change ("settled",
their median) and tell the whole beside it. Latency is that of micro-batches: a batch's seconds,
from its start to its commit, batches following each other without a pause.

Seconds are the clock's: what Spark itself needs for a batch, and what else the machine does, is in
them. The fullest worker's own seconds ("pace") have neither.

Departures
- Micro-batches of a bounded stream instead of Storm's single tuples; a row costs emulated time.
- The controller waits for three batches and for certainty beyond three standard errors before it
  judges, aims at half the tolerance so that plans last, and a plan holds from the next border but
  one: a change of load costs every planner the same few batches. Those are its defaults.
- Readj is given the best of fourteen thresholds each time.
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
SETTLED_BATCHES = 3  # last batches before a change, by which a planner has done what it can
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
    """Return what all points of a scale have."""
    return {
        "workers": WORKERS[scale],
        "batch_rows": BATCH_ROWS[scale],
        "cost": COST_SECONDS,
        "change": CHANGE_BATCHES[scale],
        **more,
    }


def summarise_points(rows: Rows, first: str = "change") -> Rows:
    """Return one row for each point: its batches from number `first` (a column) on, summed up."""
    points: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    named = [name for name in rows.column_names if name not in MEASURE_COLUMNS]
    for row in rows.to_pylist():
        if row["batch"] >= row[first]:
            points.setdefault(tuple(row[name] for name in named), []).append(row)
    return pa.Table.from_pylist(
        [
            {**dict(zip(named, key, strict=True)), **_summarise_batches(mine)}
            for key, mine in points.items()
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
    """Draw algorithms that do not depend on the axis as level lines."""
    found = group_spreads(rows, y, ["algorithm"])
    for name in algorithms:
        if (name,) in found:
            figures.draw_line(axes, name, [(x, found[name,]) for x in (min(xs), max(xs))])


def live_experiment(**fields: Any) -> Experiment:
    """Return a live experiment."""
    return Experiment(run=requires_spark, live=True, **fields)
