"""Experiments swept on Spark: a DataFrame of points in, a DataFrame of results out.

Points go out in chunks, a job each and a task for each point, or for as many as take some seconds,
as a job has its price. Twice as many tasks as the cluster has cores are under way at any time, so
that no core waits for the longest one, and every chunk is handed back as soon as it is done:
whoever keeps it loses only what was under way.
Points of live experiments run streams of their own: they follow one by one, on the driver, in a
session with a task slot for each of their workers.
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
MAX_JOBS = 32  # at most, at a time
TASK_SECONDS, MAX_POINTS_PER_TASK = (
    3.0,
    16,
)  # of a task, as far as can be foreseen; points of a task

WorkItem = tuple[str, str]  # the id of an experiment, and the name of a point


class MeasurePoints:
    """mapInArrow over points."""

    def __init__(self, find: Callable[[str], Experiment]) -> None:
        self.find = find

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Measure the points of one partition, one by one."""
        freeze_heap()
        for batch in batches:
            for row in batch.to_pylist():
                outcome = measure_point(self.find(row["experiment"]), row["point"])
                yield pa.RecordBatch.from_pylist([asdict(outcome)])


def sweep_points(
    spark: "SparkSession",
    work: Sequence[WorkItem],
    keep: Callable[[list[PointResult]], None],
    find: Callable[[str], Experiment] = EXPERIMENTS.__getitem__,
) -> None:
    """Measure all points; `keep` is called with each chunk that is done, on this thread.

    A point that several figures show is measured once.
    """
    planned = group_equal_points([item for item in work if not find(item[0]).live], find)

    def keep_all(outcomes: list[PointResult]) -> None:
        keep(
            [
                replace(outcome, experiment=id_, cpu_seconds=0.0 if at else outcome.cpu_seconds)
                for outcome in outcomes
                for at, id_ in enumerate(planned[outcome.experiment, outcome.point])
            ]
        )

    _measure_on_tasks(spark, list(planned), keep_all, find)
    for id_, point in work:
        if find(id_).live:
            keep([measure_point(with_spark_run(find(id_), spark), point)])


def sweep_on_master(
    master: str,
    work: Sequence[WorkItem],
    keep: Callable[[list[PointResult]], None],
    find: Callable[[str], Experiment] = EXPERIMENTS.__getitem__,
) -> None:
    """Measure all points on a master; a local one gets more task slots for live points."""
    planned = [item for item in work if not find(item[0]).live]
    live = [item for item in work if find(item[0]).live]
    slots = max((int(json.loads(point).get("workers", 1)) for _, point in live), default=1)
    for part, chosen in ((planned, master), (live, master_with_task_slots(master, slots))):
        if part:
            spark = open_session(chosen, {"spark.app.name": "evenflow reproduce"})
            try:
                sweep_points(spark, part, keep, find)
            finally:
                spark.stop()


def _measure_on_tasks(
    spark: "SparkSession",
    work: Sequence[WorkItem],
    keep: Callable[[list[PointResult]], None],
    find: Callable[[str], Experiment],
) -> None:
    """Measure points as Spark tasks."""
    cores = spark.sparkContext.defaultParallelism
    jobs = min(2 * cores, MAX_JOBS)
    seconds: dict[str, list[float]] = {}  # of the points of each experiment that are done
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
                    outcomes = future.result()
                    for one in outcomes:
                        seconds.setdefault(one.experiment, []).append(one.cpu_seconds)
                    keep(outcomes)
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            # A second Ctrl-C may have broken what we talk to Spark through: the first is told.
            with suppress(Exception):
                spark.sparkContext.cancelAllJobs()
            raise


def group_equal_points(
    work: Sequence[WorkItem], find: Callable[[str], Experiment]
) -> dict[WorkItem, list[str]]:
    """Return what is to be measured, and the experiments that each result is for, its own first."""
    first: dict[tuple[object, str], WorkItem] = {}
    shared: dict[WorkItem, list[str]] = {}
    for id_, point in work:
        item = first.setdefault((find(id_).run, point), (id_, point))
        shared.setdefault(item, []).append(id_)
    return shared


def one_per_algorithm_first(work: Sequence[WorkItem]) -> list[WorkItem]:
    """Put one point of each algorithm of each experiment first, those of the papers in turn.

    They compile what the others then find on disk, and processes side by side have different
    papers' kernels to compile, instead of the same ones each.
    """
    scouts: dict[tuple[str, str], WorkItem] = {}
    for item in work:
        scouts.setdefault((item[0], json.loads(item[1]).get("algorithm", "")), item)
    papers: dict[str, list[WorkItem]] = {}
    for item in scouts.values():
        papers.setdefault(item[0].partition("-")[0], []).append(item)
    turns = zip_longest(*papers.values())
    first = [item for turn in turns for item in turn if item is not None]
    sent = set(first)
    return [*first, *(item for item in work if item not in sent)]


def _chunks(
    work: Sequence[WorkItem], tasks: int, seconds: Mapping[str, Sequence[float]]
) -> Iterator[Sequence[WorkItem]]:
    """Cut the work for jobs of so many tasks: each one point, or as many as take some seconds."""
    at = 0
    while at < len(work):
        experiment = work[at][0]
        known = seconds.get(experiment, [TASK_SECONDS])
        most = tasks * min(
            max(int(TASK_SECONDS * len(known) / max(sum(known), 1e-3)), 1), MAX_POINTS_PER_TASK
        )
        chunk = list(takewhile(lambda item: item[0] == experiment, work[at : at + most]))  # noqa: B023
        yield chunk
        at += len(chunk)


def _measure_chunk(
    spark: "SparkSession", chunk: Sequence[WorkItem], find: Callable[[str], Experiment]
) -> list[PointResult]:
    rows = [dict(zip(WORK_SCHEMA.names, item, strict=True)) for item in chunk]
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, WORK_SCHEMA))
    found = frame.mapInArrow(MeasurePoints(find), RESULT_DDL).collect()
    return [PointResult(**row.asDict()) for row in found]
