"""Live experiments played on Spark: a point's streams through a flow, measured batch by batch."""

import os
import re
import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.errors import InputError
from evenflow.model import Decision, Snapshot, imbalance
from evenflow.research.experiment import Experiment
from evenflow.research.live_workload import LiveWorkload
from evenflow.research.points import Row
from evenflow.spark.flow import Flow
from evenflow.spark.run import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_MASTER = re.compile(r"local(\[(\d+|\*)(,\d+)?\])?")


def with_spark_run(experiment: Experiment, spark: "SparkSession") -> Experiment:
    """Give a live experiment its run on a session."""
    made = experiment.live_workload
    if made is None:
        return experiment
    return replace(experiment, run=lambda point: run_live_workload(spark, made(point)))


def master_with_task_slots(master: str, slots: int) -> str:
    """Return a master that runs so many tasks at once: workers that sleep need no core.

    >>> master_with_task_slots("local[*]", 8), master_with_task_slots("local[16]", 8), master_with_task_slots("spark://host:7077", 8)
    ('local[8,4]', 'local[16]', 'spark://host:7077')
    """
    found = LOCAL_MASTER.fullmatch(master)
    if found is None or (str(found[2]).isdecimal() and int(found[2]) >= slots):
        return master
    return f"local[{slots},4]"


def run_live_workload(spark: "SparkSession", wanted: LiveWorkload) -> list[Row]:
    """Run a flow to the end of its streams; return a row for each batch that brought rows."""
    slots = spark.sparkContext.defaultParallelism
    if slots < wanted.workers:
        raise InputError(
            f"{wanted.workers} workers that sleep side by side need as many task slots, got "
            f"{slots}; use a master with more cores, or fewer workers"
        )
    with tempfile.TemporaryDirectory(prefix="evenflow-play-") as folder:
        run = _start_run(spark, Path(folder), wanted)
        try:
            _activate_workers(run, wanted)
            run.await_termination()
        finally:
            run.stop()
        if run.quarantined:
            raise InputError(f"queries failed: {dict(run.quarantined)}")
        decisions = {decision.batch: decision for decision in run.decisions}
        fed = [s for s in run.snapshots if _source_rows(s, wanted)]
        return [_measured_row(at, s, decisions.get(s.batch), wanted) for at, s in enumerate(fed)]


def _start_run(spark: "SparkSession", folder: Path, wanted: LiveWorkload) -> Run:
    flow = Flow(
        spark,
        workers=wanted.workers,
        checkpoint=str(folder / "checkpoint"),
        active=wanted.initial_active,
    )
    for name, batches in wanted.streams.items():
        path = str(folder / name)
        write_batches(folder / name, batches)
        schema = spark.read.parquet(path).schema
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        flow.source(name, reader.parquet(path), time="ts", watermark="0 seconds")
    for name, rows in wanted.tables.items():
        flow.table(name, spark.createDataFrame(rows))
    for query in wanted.queries:
        flow.query(query.name, query.sql, key=query.key, publish=query.publish)
    return flow.start(
        available_now=True, balancing=wanted.balancing, emulated_cost=wanted.row_seconds
    )


def write_batches(folder: Path, batches: Iterable[pa.Table]) -> None:
    """Write one file per batch; Spark reads files in order of their modification times."""
    folder.mkdir(parents=True)
    for at, rows in enumerate(batches):
        path = folder / f"{at:05d}.parquet"
        pq.write_table(rows, path)
        os.utime(path, (1e9 + 10 * at, 1e9 + 10 * at))


def _activate_workers(run: Run, wanted: LiveWorkload) -> None:
    """Put all workers to use after a batch."""
    if wanted.activate_after_batch is None:
        return
    while run.is_active and run.committed <= wanted.activate_after_batch:
        time.sleep(0.02)
    for worker in range(wanted.initial_active or wanted.workers, wanted.workers):
        run.activate(worker)


def _source_rows(snapshot: Snapshot, wanted: LiveWorkload) -> int:
    """Count the rows that a batch took from its sources."""
    first = snapshot.queries.get(wanted.queries[0].name)
    return 0 if first is None else int(first.rows_in.sum())


def _measured_row(
    at: int, snapshot: Snapshot, decision: Decision | None, wanted: LiveWorkload
) -> Row:
    loads = snapshot.worker_loads()
    moved = decision is not None and decision.plan is not None
    return {
        "batch": at,
        "rows": _source_rows(snapshot, wanted),
        "seconds": snapshot.interval_seconds,
        "max_over_mean": imbalance(loads, snapshot.plan.active),
        "active": len(snapshot.plan.active),
        "adjusted": int(moved),
        "moved_mb": decision.moved_bytes / 1e6 if moved and decision is not None else 0.0,
        "fullest_seconds": float(np.max(snapshot.worker_cpu_seconds)),
    }
