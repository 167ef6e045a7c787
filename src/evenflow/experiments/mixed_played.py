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

from evenflow.experiments import drawing
from evenflow.experiments.experiment import Experiment, Point, Rows, Scale
from evenflow.experiments.measures import spreads
from evenflow.experiments.play import unplayed

WORKERS: dict[Scale, int] = {"small": 8, "paper": 15}
ROWS: dict[Scale, int] = {"small": 8_000, "paper": 60_000}
COST_SECONDS = 4e-4
CHANGE: dict[Scale, int] = {"small": 6, "paper": 20}  # batches from one change to the next
SEEDS: dict[Scale, range] = {"small": range(1), "paper": range(5)}
SETTLED = 3  # last batches before a change, by which a planner has done what it can
MEASURES = {
    "batch",
    "rows",
    "seconds",
    "fullest_seconds",
    "max_over_mean",
    "active",
    "adjusted",
    "moved_mb",
}
THROUGHPUT = "throughput (rows a second)"
LATENCY = "latency of a batch (s)"
BUSY = (
    "What Spark needs for a batch comes on top of the fullest worker's time and differs by several "
    "percent from run to run; so do single runs of the same point."
)


def common(scale: Scale, **more: Any) -> Point:
    """Return what all points of a scale have."""
    return {
        "workers": WORKERS[scale],
        "batch_rows": ROWS[scale],
        "cost": COST_SECONDS,
        "change": CHANGE[scale],
        **more,
    }


def played(rows: Rows, first: str = "change") -> Rows:
    """Return one row for each point: its batches from number `first` (a column) on, summed up."""
    points: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    named = [name for name in rows.column_names if name not in MEASURES]
    for row in rows.to_pylist():
        if row["batch"] >= row[first]:
            points.setdefault(tuple(row[name] for name in named), []).append(row)
    return pa.Table.from_pylist(
        [{**dict(zip(named, key, strict=True)), **_summed(mine)} for key, mine in points.items()]
    )


def _summed(batches: Sequence[dict[str, Any]]) -> dict[str, Any]:
    count, seconds = (sum(row[name] for row in batches) for name in ("rows", "seconds"))
    last = batches[-SETTLED:]
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


def level(axes: Any, rows: Rows, y: str, algorithms: Sequence[str], xs: Sequence[float]) -> None:
    """Draw algorithms that do not depend on the axis as level lines."""
    found = spreads(rows, y, ["algorithm"])
    for name in algorithms:
        if (name,) in found:
            drawing.line(axes, name, [(x, found[name,]) for x in (min(xs), max(xs))])


def live(**fields: Any) -> Experiment:
    """Return a live experiment."""
    return Experiment(run=unplayed, live=True, **fields)
