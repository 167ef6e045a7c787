"""Runs live experiments on Spark: the streams of a point through a flow, measured per batch."""

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
    """Return a live experiment whose `run` uses a Spark session."""
    make_workload = experiment.live_workload
    if make_workload is None:
        return experiment
    return replace(experiment, run=lambda point: run_live_workload(spark, make_workload(point)))


def master_with_task_slots(master: str, slots: int) -> str:
    """Return a master with at least so many task slots; sleeping workers need no core.

    >>> [master_with_task_slots(name, 8) for name in ("local[*]", "local[16]", "spark://host:7077")]
    ['local[8,4]', 'local[16]', 'spark://host:7077']
    """
    match = LOCAL_MASTER.fullmatch(master)
    if match is None or (str(match[2]).isdecimal() and int(match[2]) >= slots):
        return master
    return f"local[{slots},4]"


def run_live_workload(spark: "SparkSession", workload: LiveWorkload) -> list[Row]:
    """Run a flow to the end of its streams; return a row for each batch with input."""
    slots = spark.sparkContext.defaultParallelism
    if slots < workload.workers:
        raise InputError(
            f"{workload.workers} workers need as many task slots, got {slots}; "
            "use a master with more cores, or fewer workers"
        )
    with tempfile.TemporaryDirectory(prefix="evenflow-live-") as folder:
        run = _start_run(spark, Path(folder), workload)
        try:
            _activate_workers(run, workload)
            run.await_termination()
        finally:
            run.stop()
        if run.quarantined:
            raise InputError(f"queries failed: {dict(run.quarantined)}")
        decisions = {decision.batch: decision for decision in run.decisions}
        with_input = [s for s in run.snapshots if _source_rows(s, workload)]
        return [
            _measured_row(number, s, decisions.get(s.batch), workload)
            for number, s in enumerate(with_input)
        ]


def _start_run(spark: "SparkSession", folder: Path, workload: LiveWorkload) -> Run:
    flow = Flow(
        spark,
        workers=workload.workers,
        checkpoint=str(folder / "checkpoint"),
        active=workload.initial_active,
    )
    for name, batches in workload.streams.items():
        path = str(folder / name)
        write_batches(folder / name, batches)
        schema = spark.read.parquet(path).schema
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        flow.source(name, reader.parquet(path), time="ts", watermark="0 seconds")
    for name, rows in workload.tables.items():
        flow.table(name, spark.createDataFrame(rows))
    for query in workload.queries:
        flow.query(query.name, query.sql, key=query.key, publish=query.publish)
    return flow.start(
        available_now=True, balancing=workload.balancing, emulated_cost=workload.row_seconds
    )


def write_batches(folder: Path, batches: Iterable[pa.Table]) -> None:
    """Write one file per batch; Spark reads files in order of their modification times."""
    folder.mkdir(parents=True)
    for at, rows in enumerate(batches):
        path = folder / f"{at:05d}.parquet"
        pq.write_table(rows, path)
        os.utime(path, (1e9 + 10 * at, 1e9 + 10 * at))


def _activate_workers(run: Run, workload: LiveWorkload) -> None:
    """Activate all workers after a batch."""
    if workload.activate_after_batch is None:
        return
    while run.is_active and run.committed <= workload.activate_after_batch:
        time.sleep(0.02)
    for worker in range(workload.initial_active or workload.workers, workload.workers):
        run.activate(worker)


def _source_rows(snapshot: Snapshot, workload: LiveWorkload) -> int:
    """Return the number of rows that a batch read from its sources."""
    first = snapshot.queries.get(workload.queries[0].name)
    return 0 if first is None else int(first.rows_in.sum())


def _measured_row(
    number: int, snapshot: Snapshot, decision: Decision | None, workload: LiveWorkload
) -> Row:
    loads = snapshot.worker_loads()
    moved = decision is not None and decision.plan is not None
    return {
        "batch": number,
        "rows": _source_rows(snapshot, workload),
        "seconds": snapshot.interval_seconds,
        "max_over_mean": imbalance(loads, snapshot.plan.active),
        "active": len(snapshot.plan.active),
        "adjusted": int(moved),
        "moved_mb": decision.moved_bytes / 1e6 if moved and decision is not None else 0.0,
        "fullest_seconds": float(np.max(snapshot.worker_cpu_seconds)),
    }
