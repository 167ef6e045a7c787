"""Runs a flow over files to its end, and measures the balance of its load."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pyspark.sql import SparkSession

from benchmarks.runtime.sides import stream_files
from evenflow import Flow, Run
from evenflow.model import Snapshot, imbalance

WORKERS = 8
GAIN = 0.9  # goal: share of the possible gain, which is the imbalance of hash only


class FlowRun(NamedTuple):
    """A finished run, and the snapshots of its batches with rows."""

    snapshots: Sequence[Snapshot]
    run: Run


def run_flow(
    spark: SparkSession,
    folder: Path,
    sources: Sequence[Path],
    declare: Callable[[Flow], Any],
    *,
    workers: int = WORKERS,
    **start: Any,
) -> FlowRun:
    """Run a flow over files to its end."""
    flow = Flow(spark, workers=workers, checkpoint=str(folder))
    for source in sources:
        flow.source(source.name, stream_files(spark, source), time="ts", watermark="0 seconds")
    declare(flow)
    run = flow.start(available_now=True, **start)
    run.await_termination()
    if run.quarantined:
        raise RuntimeError(f"a query failed: {run.quarantined}")
    with_rows = [s for s in run.snapshots if any(q.rows_in.any() for q in s.queries.values())]
    return FlowRun(with_rows, run)


def query_imbalance(snapshots: Sequence[Snapshot]) -> float:
    """Return the largest over the mean load of query q over some batches."""
    return imbalance(np.sum([s.queries["q"].load for s in snapshots], axis=0))


def reachable_bounds(flow_run: FlowRun) -> list[float]:
    """Return the least imbalance that the controller reports as reachable after each batch."""
    reachable = {
        d.batch: [v.reachable for v in d.verdicts if v.code == "heavy_key" and v.reachable]
        for d in flow_run.run.decisions
    }
    return [max([1.08, *reachable.get(s.batch, ())]) for s in flow_run.snapshots]
