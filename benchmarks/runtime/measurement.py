"""What live balancing costs and brings: `python -m benchmarks.runtime.measurement [measuring]`.

measuring   one stream with and without measuring, two batches with and two without in turns, so
            that whatever else the machine does meets both alike: time of a batch, CPU of all
            processes and of the workers' own work (the median ratio of neighbouring turns, and
            where nine in ten such medians lie if the turns are drawn anew), CPU of the border
            and of the history's thread; and how far the load that rows explain is from the CPU
            that each worker measured, in single batches and over all of them (lasting)

Without it no key is counted, and at a border nothing is observed, judged or written to the history.
What is left is what workers report anyway: rows, seconds and bytes of each query, a few numbers.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from benchmarks.harness import Rows, main, tell
from benchmarks.process_stats import cpu_seconds
from benchmarks.runtime.sides import session, write
from benchmarks.workloads import BEGIN, COUNT, JOIN, SECOND, folder, trades, zipf
from evenflow import Balancing, Flow
from evenflow.model import BalanceMetrics, Decision, Reason, Snapshot, Trigger
from evenflow.spark.driver.balancer import Balancer
from evenflow.spark.driver.completed_batch import CompletedBatch
from evenflow.spark.worker.spark_tasks import batch_id
from evenflow.storage.file_store import FileStore
from evenflow.storage.history import HistoryWriter
from evenflow.storage.history.writer import BATCHES_PER_GROUP

WORKERS = 8
# Batches of a turn; turns that warm up, and turns that count.
TURN, COLD, WARM, RUNS = 2, 16, 80, 2
NOTHING = BalanceMetrics(1.0, 0.0, 0.0)


def is_measured(batch: int) -> bool:
    """Tell whether a batch is of a turn with measuring."""
    return batch // TURN % 2 == 1


class MeasuringInTurns:
    """Stands in for `MeasureOptions` on the workers."""

    emulated_seconds_per_row = 0.0

    @property
    def per_key(self) -> bool:
        """Whether keys are counted in the batch at hand."""
        return is_measured(batch_id())


class InTurns(Balancer):
    """Observes, judges and writes down in every other turn; notes the CPU seconds of it all.

    border  seconds at the border of each measured batch
    filed   seconds of the history's thread, for all of them together
    ended   at the end of each border: the time, and the seconds of all processes up to then
    """

    def __init__(self) -> None:
        super().__init__(Balancing.off())  # nothing is moved, so that both sides do the same work
        self.border: dict[int, float] = {}
        self.filed = 0.0
        self._began = 0.0
        self.ended: dict[int, tuple[float, float]] = {}

    def open(self, store: FileStore, head: int) -> None:
        """Keep a history whose thread is timed, with as many measured batches in a file as ever."""
        super().open(store, head)
        self._history = HistoryWriter(
            store, block=4 * BATCHES_PER_GROUP, group=2 * BATCHES_PER_GROUP
        )
        file = self._history._compact

        def timed(batches: Any, now: int) -> None:
            began = time.thread_time()
            file(batches, now)
            self.filed += time.thread_time() - began

        self._history._compact = timed  # type: ignore[method-assign]

    def observe(self, batch: CompletedBatch) -> None:
        if is_measured(batch.number):
            self._began = time.thread_time()
            super().observe(batch)

    def propose(self, batch: CompletedBatch) -> Decision:
        if is_measured(batch.number):
            return super().propose(batch)
        return Decision(batch.number, batch.at, Trigger.NONE, Reason.OFF, "", NOTHING)

    def record(self, decision: Decision, batch: CompletedBatch) -> None:
        if is_measured(batch.number):
            super().record(decision, batch)
            self.border[batch.number] = time.thread_time() - self._began
        self.ended[batch.number] = time.perf_counter(), cpu_seconds()


def measuring() -> Rows:
    """Measuring on and off, in one stream."""
    spark = session()
    rows: Rows = []
    for name, sql, keys, count, span in (
        ("join", JOIN, 10_000, 100_000, 100 * SECOND),
        ("join", JOIN, 100_000, 100_000, 100 * SECOND),
        ("count", COUNT, 10_000, 500_000, 10 * SECOND),
        ("count", COUNT, 100_000, 500_000, 10 * SECOND),
    ):
        with folder() as where:
            write(where / "in", _stream(keys, count, span))
            runs = [_run(spark, where / str(at), where / "in", sql) for at in range(RUNS)]
        row = {"query": name, "keys": keys, "rows_per_batch": count, **_compared(runs)}
        tell(row)
        rows.append(row)
    spark.stop()
    return rows


def _stream(keys: int, count: int, span: int) -> Iterator[pa.Table]:
    """Give the rows of all batches; after a dozen the same come again, later."""
    rng = np.random.default_rng(1)
    drawn = [trades(rng, BEGIN, span, zipf(rng, 0.85, keys, count)) for _ in range(12)]
    for at in range(TURN * (COLD + WARM)):
        rows = drawn[at % len(drawn)]
        times = pc.add(rows["ts"], pa.scalar(at * span, pa.duration("us")))
        yield rows.set_column(0, "ts", times)


def _run(spark: SparkSession, where: Path, source: Path, sql: str) -> dict[str, Any]:
    schema = spark.read.parquet(str(source)).schema
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
    flow = Flow(spark, workers=WORKERS, checkpoint=str(where))
    flow.source("trades", frame, time="ts", watermark="0 seconds")
    flow.query("q", sql, key="symbol")
    balancer = InTurns()
    with (
        patch("evenflow.spark.flow.Balancer", lambda *_: balancer),
        patch("evenflow.spark.flow.MeasureOptions", lambda *_: MeasuringInTurns()),
    ):
        run = flow.start(available_now=True)
    run.await_termination()
    if run.quarantined:
        raise RuntimeError(f"a query failed: {run.quarantined}")
    warm = range(COLD * TURN, (COLD + WARM) * TURN)
    batches = [batch for batch in run.batches if batch.number in warm]
    seen = [s for s in run.snapshots if s.batch in warm]
    ended = np.array([balancer.ended[at] for at in range(warm.start - 1, warm.stop)])
    worked = [sum(report.cpu_seconds for report in batch.reports) for batch in batches]
    return {
        "spent_ms": 1000 * np.column_stack([np.diff(ended, axis=0), worked]),
        "border_cpu_ms": [1000 * balancer.border[s.batch] for s in seen],
        "filed_cpu_ms": 1000 * balancer.filed / len(balancer.border),
        "errors": [error for snapshot in seen for error in _errors([snapshot])],
        "lasting_errors": _errors(seen),
        "report_kb": max(sum(map(len, r.encode())) for b in batches for r in b.reports) / 1000,
    }


def _errors(snapshots: list[Snapshot]) -> list[float]:
    """How far what rows explain is from what each worker measured, over some batches."""
    load = np.sum([s.queries["q"].load for s in snapshots], axis=0)
    measured = np.sum([s.queries["q"].cpu_seconds for s in snapshots], axis=0)
    errors: list[float] = np.abs(load[measured > 0] / measured[measured > 0] - 1).tolist()
    return errors


def _compared(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Put turns without and with measuring beside each other, neighbours in pairs."""
    what = ("batch_ms", "cpu_ms", "worker_cpu_ms")
    spent = np.concatenate([run["spent_ms"] for run in runs])
    off, on = spent.reshape(-1, 2, TURN, len(what)).mean(axis=2).swapaxes(0, 1)
    pairs = on / off
    drawn = np.random.default_rng(0).integers(0, len(pairs), (2000, len(pairs)))
    spread = np.quantile(np.median(pairs[drawn], axis=1), [0.05, 0.95], axis=0)
    border_ms = float(np.median([spent for run in runs for spent in run["border_cpu_ms"]]))
    filed_ms = float(np.mean([run["filed_cpu_ms"] for run in runs]))
    errors, lasting = (
        [error for run in runs for error in run[kind]] for kind in ("errors", "lasting_errors")
    )
    found: dict[str, Any] = {}
    for at, name in enumerate(what):
        found[name] = float(np.median(off[:, at]))
        found[f"{name}_ratio"] = float(np.median(pairs[:, at]))
        found[f"{name}_ratio_spread"] = spread[:, at].round(4).tolist()
    added_ms = (found["worker_cpu_ms_ratio"] - 1) * found["worker_cpu_ms"] + border_ms + filed_ms
    return found | {
        # Less disturbed than the ratio of all CPU: what measuring adds, over what a batch takes.
        "added_share": added_ms / found["cpu_ms"],
        "border_cpu_ms": border_ms,
        "filed_cpu_ms": filed_ms,
        "load_error_median": float(np.median(errors)),
        "load_error_p90": float(np.quantile(errors, 0.9)),
        "lasting_error_median": float(np.median(lasting)),
        "report_kb": max(run["report_kb"] for run in runs),
    }


if __name__ == "__main__":
    main({"measuring": measuring})
