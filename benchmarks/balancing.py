"""What live balancing costs and brings: `python -m benchmarks.balancing [measuring]`.

measuring   the same batches with and without measuring, in turns in one session: time of a batch,
            CPU of all processes, of the workers' own work and of the border, the least of each;
            and how far the load that rows explain is from the CPU that each worker measured, in
            single batches (with all their noise) and over all of them (lasting)

Without it no key is counted, and at a border nothing is observed, judged or written to the history.
What is left is what workers report anyway: rows, seconds and bytes of each query, a few numbers.
"""

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from pyspark.sql import SparkSession

from benchmarks.common import Rows, main, tell
from benchmarks.processes import cpu_seconds
from benchmarks.runtime import BEGIN, SECOND, trades, zipf
from benchmarks.streaming import session, write
from evenflow import Balancing, Flow
from evenflow.model import Plan, Snapshot
from evenflow.spark.balancer import Balancer
from evenflow.spark.batch import Batch
from evenflow.spark.report import Report
from evenflow.store import Store

WORKERS = 8
COLD, WARM, TURNS = 2, 6, 3
JOIN = """SELECT a.symbol, a.ts, b.ts AS t2, a.price FROM trades a JOIN trades b
    ON a.symbol = b.symbol AND b.ts >= a.ts AND b.ts <= a.ts + INTERVAL 20 SECONDS"""
COUNT = """SELECT window.start AS s, symbol, count(*) AS n, sum(qty) AS q
    FROM trades GROUP BY window(ts, '10 seconds'), symbol"""


@contextmanager
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="evenflow-bench-"))
    try:
        yield made
    finally:
        shutil.rmtree(made)


class Timed(Balancer):
    """Notes the CPU seconds that each border takes to observe, judge and write down."""

    def __init__(self, config: Balancing) -> None:
        super().__init__(config)
        self.spent: list[float] = []

    def __call__(self, batch: Batch) -> Plan | None:
        began = time.thread_time()
        plan = super().__call__(batch)
        self.spent.append(time.thread_time() - began)
        return plan

    def record(self, batch: Batch, plan: Plan | None, refused: tuple[str, ...]) -> None:
        began = time.thread_time()
        super().record(batch, plan, refused)
        self.spent[-1] += time.thread_time() - began


class Blind(Timed):
    """Does nothing at a border, which takes no time."""

    def open(self, store: Store, head: int) -> None:
        """Keep no history."""

    def __call__(self, batch: Batch) -> Plan | None:
        self.spent.append(0.0)
        return None

    def record(self, batch: Batch, plan: Plan | None, refused: tuple[str, ...]) -> None:
        """Write nothing down."""


def measuring() -> Rows:
    """Measuring on and off, over the same files."""
    spark = session()
    rows: Rows = []
    for name, sql, keys, count, span in (
        ("join", JOIN, 10_000, 100_000, 100 * SECOND),
        ("join", JOIN, 100_000, 100_000, 100 * SECOND),
        ("count", COUNT, 10_000, 500_000, 10 * SECOND),
        ("count", COUNT, 100_000, 500_000, 10 * SECOND),
    ):
        with folder() as where:
            rng = np.random.default_rng(1)
            write(
                where / "in",
                (
                    trades(rng, BEGIN + at * span, span, zipf(rng, 0.85, keys, count))
                    for at in range(COLD + WARM)
                ),
            )
            runs = [
                _run(spark, where / str(at), where / "in", sql, at % 2 == 1)
                for at in range(2 * TURNS)
            ]
        row = {"query": name, "keys": keys, "rows_per_batch": count, **_compared(runs)}
        tell(row)
        rows.append(row)
    spark.stop()
    return rows


def _run(spark: SparkSession, where: Path, source: Path, sql: str, measure: bool) -> dict[str, Any]:
    schema = spark.read.parquet(str(source)).schema
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
    flow = Flow(spark, workers=WORKERS, checkpoint=str(where))
    flow.source("trades", frame, time="ts", watermark="0 seconds")
    flow.query("q", sql, key="symbol")
    still = Balancing.off()  # nothing is moved, so that both sides do the same work
    balancer = Timed(still) if measure else Blind(still)
    began = cpu_seconds()
    with patch("evenflow.spark.flow.Balancer", lambda *_: balancer):
        run = flow.start(available_now=True, measure=measure, balancing=still)
    run.await_termination()
    if run.quarantined:
        raise RuntimeError(f"a query failed: {run.quarantined}")
    fed = [batch for batch in run.batches if any(map(_rows_in, batch.reports))][COLD:]
    seen = [s for s in run.snapshots if s.queries["q"].rows_in.any()][COLD:]
    worked = [sum(report.cpu_seconds for report in batch.reports) for batch in fed]
    reports = [report for batch in run.batches for report in batch.reports]
    return {
        "measure": measure,
        "batch_ms": 1000 * statistics.median(batch.seconds for batch in fed),
        "cpu_seconds": cpu_seconds() - began,
        "worker_cpu_ms": 1000 * statistics.median(worked),
        "border_cpu_ms": 1000 * statistics.median(balancer.spent),
        "errors": [error for snapshot in seen for error in _errors([snapshot])],
        "lasting_errors": _errors(seen) if seen else [],
        "report_kb": max(len(report.to_json()) for report in reports) / 1000,
    }


def _rows_in(report: Report) -> int:
    return sum(stats.rows_in for stats in report.queries.values())


def _errors(snapshots: list[Snapshot]) -> list[float]:
    """How far what rows explain is from what each worker measured, over some batches."""
    load = np.sum([s.queries["q"].load for s in snapshots], axis=0)
    measured = np.sum([s.queries["q"].cpu_seconds for s in snapshots], axis=0)
    errors: list[float] = np.abs(load[measured > 0] / measured[measured > 0] - 1).tolist()
    return errors


def _compared(runs: list[dict[str, Any]]) -> dict[str, Any]:
    def least(what: str, measure: bool) -> float:
        return float(min(run[what] for run in runs if run["measure"] == measure))

    border_ms = least("border_cpu_ms", True)
    added_ms = least("worker_cpu_ms", True) - least("worker_cpu_ms", False) + border_ms
    errors, lasting = (
        [error for run in runs for error in run[kind]] for kind in ("errors", "lasting_errors")
    )
    return {
        "batch_ms": least("batch_ms", True),
        "batch_ms_ratio": least("batch_ms", True) / least("batch_ms", False),
        "cpu_ratio": least("cpu_seconds", True) / least("cpu_seconds", False),
        # Less disturbed than the ratio of all CPU: what measuring adds, over what a batch takes.
        "added_share": added_ms / (1000 * least("cpu_seconds", False) / (COLD + WARM)),
        "worker_cpu_ms": least("worker_cpu_ms", True),
        "worker_cpu_ratio": least("worker_cpu_ms", True) / least("worker_cpu_ms", False),
        "border_cpu_ms": border_ms,
        "load_error_median": float(np.median(errors)),
        "load_error_p90": float(np.quantile(errors, 0.9)),
        "lasting_error_median": float(np.median(lasting)),
        "report_kb": least("report_kb", True),
    }


if __name__ == "__main__":
    main({"measuring": measuring})
