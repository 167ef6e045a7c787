"""What the parts share: run a flow over files to its end, and how even its load was."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from evenflow import Flow, Run
from evenflow.model import Snapshot, imbalance

WORKERS = 8
GAIN = 0.9  # of what the imbalance of hash only leaves to gain: the goal


def reading(spark: SparkSession, path: Path) -> DataFrame:
    schema = spark.read.parquet(str(path)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(path))


class Played(NamedTuple):
    """The snapshots of the batches that had rows, and the run, which has ended."""

    snapshots: Sequence[Snapshot]
    run: Run


def play(
    spark: SparkSession,
    where: Path,
    sources: Sequence[Path],
    declare: Callable[[Flow], Any],
    *,
    workers: int = WORKERS,
    **start: Any,
) -> Played:
    """Run a flow over files to its end."""
    flow = Flow(spark, workers=workers, checkpoint=str(where))
    for source in sources:
        flow.source(source.name, reading(spark, source), time="ts", watermark="0 seconds")
    declare(flow)
    run = flow.start(available_now=True, **start)
    run.await_termination()
    if run.quarantined:
        raise RuntimeError(f"a query failed: {run.quarantined}")
    fed = [s for s in run.snapshots if any(q.rows_in.any() for q in s.queries.values())]
    return Played(fed, run)


def host(flow: Flow, sql: str, key: str) -> None:
    flow.query("q", sql, key=key)


def uneven(snapshots: Sequence[Snapshot]) -> float:
    """Give the largest over the mean load of query q over some batches."""
    return imbalance(np.sum([s.queries["q"].load for s in snapshots], axis=0))


def verdicts(played: Played) -> list[float]:
    """Give what the controller said at each border it cannot get below; 1.08 if it said nothing."""
    told = {
        d.batch: [v.reachable for v in d.verdicts if v.code == "heavy_key" and v.reachable]
        for d in played.run.decisions
    }
    return [max([1.08, *told.get(s.batch, ())]) for s in played.snapshots]
