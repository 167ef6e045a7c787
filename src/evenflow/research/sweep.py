"""Measures points as Spark tasks: a DataFrame of points in, a DataFrame of results out.

A job measures a chunk of points, one per task, or as many as take some seconds together. Twice as
many tasks as cores are in flight, so that no core waits for the longest one. Each finished chunk is
passed to the caller at once: an interruption loses only points in flight.

Points of live experiments run streams. They run one by one, on the driver, in a session with a task
slot for each of their workers.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import takewhile, zip_longest
from typing import TYPE_CHECKING

import pyarrow as pa

from evenflow.research.experiment import Experiment, PointResult, measure_point
from evenflow.research.experiments.registry import EXPERIMENTS
from evenflow.research.live_runner import master_with_task_slots, with_spark_run
from evenflow.spark.session import open_session
from evenflow.spark.worker.spark_tasks import freeze_heap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORK_SCHEMA = pa.schema({"experiment": pa.string(), "point": pa.string()})
RESULT_DDL = "experiment string, point string, rows string, cpu_seconds double, error string"
MAX_JOBS = 32  # running at a time
TASK_SECONDS = 3.0  # that a task should take, by the mean of earlier points
MAX_POINTS_PER_TASK = 16

WorkItem = tuple[str, str]  # experiment id, point name
Save = Callable[[list[PointResult]], None]
FindExperiment = Callable[[str], Experiment]


class MeasurePoints:
    """Measures points in a Spark task, as function of `mapInArrow`."""

    def __init__(self, find: FindExperiment) -> None:
        self.find = find

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Measure the points of one partition."""
        freeze_heap()
        for batch in batches:
            for row in batch.to_pylist():
                result = measure_point(self.find(row["experiment"]), row["point"])
                yield pa.RecordBatch.from_pylist([asdict(result)])


def sweep_points(
    spark: "SparkSession",
    work: Sequence[WorkItem],
    save: Save,
    find: FindExperiment = EXPERIMENTS.__getitem__,
) -> None:
    """Measure all points and call `save` with each finished chunk, on this thread.

    A point that several figures share is measured once.
    """
    planned = group_equal_points([item for item in work if not find(item[0]).live], find)

    def save_all(results: list[PointResult]) -> None:
        save(
            [
                replace(result, experiment=id_, cpu_seconds=0.0 if index else result.cpu_seconds)
                for result in results
                for index, id_ in enumerate(planned[result.experiment, result.point])
            ]
        )

    _measure_on_tasks(spark, list(planned), save_all, find)
    for id_, point in work:
        if find(id_).live:
            save([measure_point(with_spark_run(find(id_), spark), point)])


def sweep_on_master(
    master: str,
    work: Sequence[WorkItem],
    save: Save,
    find: FindExperiment = EXPERIMENTS.__getitem__,
) -> None:
    """Measure all points on a master; a local master gets more task slots for live points."""
    planned = [item for item in work if not find(item[0]).live]
    live = [item for item in work if find(item[0]).live]
    slots = max((int(json.loads(point).get("workers", 1)) for _, point in live), default=1)
    for part, chosen in ((planned, master), (live, master_with_task_slots(master, slots))):
        if part:
            spark = open_session(chosen, {"spark.app.name": "evenflow reproduce"})
            try:
                sweep_points(spark, part, save, find)
            finally:
                spark.stop()


def _measure_on_tasks(
    spark: "SparkSession",
    work: Sequence[WorkItem],
    save: Save,
    find: FindExperiment,
) -> None:
    """Measure points in Spark tasks."""
    cores = spark.sparkContext.defaultParallelism
    jobs = min(2 * cores, MAX_JOBS)
    seconds: dict[str, list[float]] = {}  # of finished points, by experiment
    chunks = _chunks(one_per_algorithm_first(work), max(2 * cores // jobs, 1), seconds)
    pending: set[Future[list[PointResult]]] = set()
    with ThreadPoolExecutor(jobs, thread_name_prefix="evenflow-sweep") as threads:
        try:
            while True:
                for chunk in chunks:
                    pending.add(threads.submit(_measure_chunk, spark, chunk, find))
                    if len(pending) == jobs:
                        break
                if not pending:
                    return
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    results = future.result()
                    for result in results:
                        seconds.setdefault(result.experiment, []).append(result.cpu_seconds)
                    save(results)
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            # A second Ctrl-C may have broken the connection to Spark: raise the first.
            with suppress(Exception):
                spark.sparkContext.cancelAllJobs()
            raise


def group_equal_points(work: Sequence[WorkItem], find: FindExperiment) -> dict[WorkItem, list[str]]:
    """Return the points to measure, each with the ids of all experiments that share it."""
    first: dict[tuple[object, str], WorkItem] = {}
    shared: dict[WorkItem, list[str]] = {}
    for id_, point in work:
        item = first.setdefault((find(id_).run, point), (id_, point))
        shared.setdefault(item, []).append(id_)
    return shared


def one_per_algorithm_first(work: Sequence[WorkItem]) -> list[WorkItem]:
    """Put one point of each algorithm of each experiment first, alternating between papers.

    These points compile kernels, which later points read from disk; alternating papers lets
    parallel processes compile different kernels.
    """
    first_points: dict[tuple[str, str], WorkItem] = {}
    for item in work:
        first_points.setdefault((item[0], json.loads(item[1]).get("algorithm", "")), item)
    papers: dict[str, list[WorkItem]] = {}
    for item in first_points.values():
        papers.setdefault(item[0].partition("-")[0], []).append(item)
    turns = zip_longest(*papers.values())
    first = [item for turn in turns for item in turn if item is not None]
    sent = set(first)
    return [*first, *(item for item in work if item not in sent)]


def _chunks(
    work: Sequence[WorkItem], tasks: int, seconds: Mapping[str, Sequence[float]]
) -> Iterator[Sequence[WorkItem]]:
    """Split the work into jobs of so many tasks, each of about TASK_SECONDS."""
    start = 0
    while start < len(work):
        experiment = work[start][0]
        known = seconds.get(experiment, [TASK_SECONDS])
        most = tasks * min(
            max(int(TASK_SECONDS * len(known) / max(sum(known), 1e-3)), 1), MAX_POINTS_PER_TASK
        )
        chunk = list(takewhile(lambda item: item[0] == experiment, work[start : start + most]))  # noqa: B023
        yield chunk
        start += len(chunk)


def _measure_chunk(
    spark: "SparkSession", chunk: Sequence[WorkItem], find: FindExperiment
) -> list[PointResult]:
    points = [dict(zip(WORK_SCHEMA.names, item, strict=True)) for item in chunk]
    frame = spark.createDataFrame(pa.Table.from_pylist(points, WORK_SCHEMA))
    rows = frame.mapInArrow(MeasurePoints(find), RESULT_DDL).collect()
    return [PointResult(**row.asDict()) for row in rows]
