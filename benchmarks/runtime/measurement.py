"""The cost of measuring load: `python -m benchmarks.runtime.measurement [measuring]`.

measuring   one stream, alternately two batches with and two without measuring, so that other load
            of the machine affects both alike. Reports the time of a batch, the CPU of all processes
            and of the workers (median ratio of neighbouring turns, and the 90 % bootstrap interval
            of that median), the CPU of the commit step and of the history thread; and the
            difference between the load that the cost model explains and the CPU that each worker
            measured, per batch and over all batches (lasting)

Without measuring, no keys are counted, and a commit does not observe, judge or record. Workers
still report rows, seconds and bytes of each query.
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

from benchmarks.harness import Rows, print_row, run_parts
from benchmarks.process_stats import cpu_seconds
from benchmarks.runtime.sides import session, stream_files
from benchmarks.workloads import BEGIN, COUNT, JOIN, SECOND, temporary_folder, trades
from evenflow import Balancing, Flow
from evenflow.datasets.zipf import draw_zipf
from evenflow.model import BalanceMetrics, Decision, Reason, Snapshot, Trigger
from evenflow.research.live_runner import write_batches
from evenflow.spark.driver.balancer import Balancer
from evenflow.spark.driver.completed_batch import CompletedBatch
from evenflow.spark.protocol.ledger import Ledger
from evenflow.spark.worker.spark_tasks import batch_id
from evenflow.storage.history import HistoryWriter
from evenflow.storage.history.writer import BATCHES_PER_GROUP

WORKERS = 8
TURN_BATCHES = 2
WARM_UP_TURNS, MEASURED_TURNS = 16, 80
RUNS = 2
NO_METRICS = BalanceMetrics(1.0, 0.0, 0.0)


def is_measured(batch: int) -> bool:
    """Return whether a batch belongs to a turn with measuring."""
    return batch // TURN_BATCHES % 2 == 1


class AlternatingMeasureOptions:
    """Replaces `MeasureOptions` on the workers."""

    emulated_seconds_per_row = 0.0

    @property
    def per_key(self) -> bool:
        """Whether keys are counted in the current batch."""
        return is_measured(batch_id())


class AlternatingBalancer(Balancer):
    """Observes, judges and records in every other turn, and measures its CPU seconds.

    commit_seconds   of each measured batch
    history_seconds  of the history thread, for all batches together
    ended            batch -> time of its commit, and CPU seconds of all processes by then
    """

    def __init__(self) -> None:
        super().__init__(Balancing.off())  # without moves both turns do the same work
        self.commit_seconds: dict[int, float] = {}
        self.history_seconds = 0.0
        self._started = 0.0
        self.ended: dict[int, tuple[float, float]] = {}

    def open(self, ledger: Ledger) -> None:
        """Time the history thread; its files hold the usual number of measured batches."""
        super().open(ledger)
        self._history = HistoryWriter(
            ledger.store, block=4 * BATCHES_PER_GROUP, group=2 * BATCHES_PER_GROUP
        )
        compact = self._history._compact

        def timed(batches: Any, batch: int) -> None:
            began = time.thread_time()
            compact(batches, batch)
            self.history_seconds += time.thread_time() - began

        self._history._compact = timed  # type: ignore[method-assign]

    def observe(self, batch: CompletedBatch) -> None:
        if is_measured(batch.number):
            self._started = time.thread_time()
            super().observe(batch)

    def propose(self, batch: CompletedBatch) -> Decision:
        if is_measured(batch.number):
            return super().propose(batch)
        return Decision(batch.number, batch.at, Trigger.NONE, Reason.OFF, "", NO_METRICS)

    def record(self, decision: Decision, batch: CompletedBatch) -> None:
        if is_measured(batch.number):
            super().record(decision, batch)
            self.commit_seconds[batch.number] = time.thread_time() - self._started
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
        with temporary_folder() as folder:
            write_batches(folder / "in", _stream(keys, count, span))
            runs = [_run(spark, folder / str(at), folder / "in", sql) for at in range(RUNS)]
        row = {"query": name, "keys": keys, "rows_per_batch": count, **_compare_turns(runs)}
        print_row(row)
        rows.append(row)
    spark.stop()
    return rows


def _stream(keys: int, count: int, span: int) -> Iterator[pa.Table]:
    """Yield all batches: a dozen are drawn, then repeated with later times."""
    rng = np.random.default_rng(1)
    drawn = [trades(rng, BEGIN, span, draw_zipf(rng, 0.85, keys, count)) for _ in range(12)]
    for at in range(TURN_BATCHES * (WARM_UP_TURNS + MEASURED_TURNS)):
        rows = drawn[at % len(drawn)]
        times = pc.add(rows["ts"], pa.scalar(at * span, pa.duration("us")))
        yield rows.set_column(0, "ts", times)


def _run(spark: SparkSession, checkpoint: Path, source: Path, sql: str) -> dict[str, Any]:
    flow = Flow(spark, workers=WORKERS, checkpoint=str(checkpoint))
    flow.source("trades", stream_files(spark, source), time="ts", watermark="0 seconds")
    flow.query("q", sql, key="symbol")
    balancer = AlternatingBalancer()
    with (
        patch("evenflow.spark.flow.Balancer", lambda *_: balancer),
        patch("evenflow.spark.flow.MeasureOptions", lambda *_: AlternatingMeasureOptions()),
    ):
        run = flow.start(available_now=True)
    run.await_termination()
    if run.quarantined:
        raise RuntimeError(f"a query failed: {run.quarantined}")
    warm = range(WARM_UP_TURNS * TURN_BATCHES, (WARM_UP_TURNS + MEASURED_TURNS) * TURN_BATCHES)
    batches = [batch for batch in run.batches if batch.number in warm]
    seen = [s for s in run.snapshots if s.batch in warm]
    ended = np.array([balancer.ended[at] for at in range(warm.start - 1, warm.stop)])
    worked = [sum(report.cpu_seconds for report in batch.reports) for batch in batches]
    return {
        "spent_ms": 1000 * np.column_stack([np.diff(ended, axis=0), worked]),
        "border_cpu_ms": [1000 * balancer.commit_seconds[s.batch] for s in seen],
        "filed_cpu_ms": 1000 * balancer.history_seconds / len(balancer.commit_seconds),
        "errors": [error for snapshot in seen for error in _errors([snapshot])],
        "lasting_errors": _errors(seen),
        "report_kb": max(sum(map(len, r.encode())) for b in batches for r in b.reports) / 1000,
    }


def _errors(snapshots: list[Snapshot]) -> list[float]:
    """Return the relative errors of the cost model on each worker over some batches."""
    load = np.sum([s.queries["q"].load for s in snapshots], axis=0)
    measured = np.sum([s.queries["q"].cpu_seconds for s in snapshots], axis=0)
    errors: list[float] = np.abs(load[measured > 0] / measured[measured > 0] - 1).tolist()
    return errors


def _compare_turns(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Compare neighbouring turns without and with measuring."""
    measures = ("batch_ms", "cpu_ms", "worker_cpu_ms")
    spent = np.concatenate([run["spent_ms"] for run in runs])
    off, on = spent.reshape(-1, 2, TURN_BATCHES, len(measures)).mean(axis=2).swapaxes(0, 1)
    pairs = on / off
    drawn = np.random.default_rng(0).integers(0, len(pairs), (2000, len(pairs)))
    spread = np.quantile(np.median(pairs[drawn], axis=1), [0.05, 0.95], axis=0)
    border_ms = float(np.median([spent for run in runs for spent in run["border_cpu_ms"]]))
    filed_ms = float(np.mean([run["filed_cpu_ms"] for run in runs]))
    errors, lasting = (
        [error for run in runs for error in run[kind]] for kind in ("errors", "lasting_errors")
    )
    row: dict[str, Any] = {}
    for at, name in enumerate(measures):
        row[name] = float(np.median(off[:, at]))
        row[f"{name}_ratio"] = float(np.median(pairs[:, at]))
        row[f"{name}_ratio_spread"] = spread[:, at].round(4).tolist()
    added_ms = (row["worker_cpu_ms_ratio"] - 1) * row["worker_cpu_ms"] + border_ms + filed_ms
    return row | {
        # CPU that measuring adds over the CPU of a batch: less noisy than the ratio of all CPU.
        "added_share": added_ms / row["cpu_ms"],
        "border_cpu_ms": border_ms,
        "filed_cpu_ms": filed_ms,
        "load_error_median": float(np.median(errors)),
        "load_error_p90": float(np.quantile(errors, 0.9)),
        "lasting_error_median": float(np.median(lasting)),
        "report_kb": max(run["report_kb"] for run in runs),
    }


if __name__ == "__main__":
    run_parts({"measuring": measuring})
