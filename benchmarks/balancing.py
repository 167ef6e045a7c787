"""What live balancing costs and brings: `python -m benchmarks.balancing [measuring]`.

measuring   the same batches with and without statistics of keys, in turns in one session: time of a
            batch, CPU of the workers, and how well rows explain the CPU that workers measured
"""

import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

import evenflow
from benchmarks.common import Rows, main, tell
from benchmarks.runtime import BEGIN, SECOND, batch_ms, reading, session, trades, write, zipf
from evenflow.history import History
from evenflow.spark.observe import Memory, observe
from evenflow.store import Store

WORKERS = 8
COLD = 2
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


def measuring() -> Rows:
    """Statistics of keys on and off, over the same files."""
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
                    for at in range(COLD + 6)
                ),
            )
            runs = [_run(spark, where / str(at), where / "in", sql, at % 2 == 1) for at in range(4)]
        row = {"query": name, "keys": keys, "rows_per_batch": count, **_compared(runs)}
        tell(row)
        rows.append(row)
    spark.stop()
    return rows


def _run(spark: SparkSession, where: Path, source: Path, sql: str, measure: bool) -> dict[str, Any]:
    flow = evenflow.Flow(spark, workers=WORKERS, checkpoint=str(where))
    flow.source("trades", reading(spark, source), time="ts", watermark="0 seconds")
    flow.query("q", sql, key="symbol")
    errors: list[float] = []
    run = flow.start(
        available_now=True, measure=measure, controller=_record(where, errors, measure)
    )
    query = run._query
    run.await_termination()
    if run.quarantined or query is None:
        raise RuntimeError(f"a query failed: {run.quarantined}")
    warm = [b for b in run.batches if sum(s.rows_in for r in b.reports for s in r.queries.values())]
    seconds = [sum(r.cpu_seconds for r in batch.reports) for batch in warm[COLD:]]
    return {
        "measure": measure,
        "batch_ms": batch_ms(query.recentProgress, COLD)["batch_ms"],
        "worker_cpu_ms": 1000 * statistics.median(seconds),
        "errors": errors,
        "report_kb": max(len(r.to_json()) for b in warm for r in b.reports) / 1000,
    }


def _record(
    where: Path, errors: list[float], measure: bool
) -> Callable[[evenflow.spark.driver.Batch], None] | None:
    """Do at every border what balancing does before it decides: observe and record."""
    if not measure:
        return None
    history, memory = History(Store(str(where))), [Memory()]

    def look(batch: evenflow.spark.driver.Batch) -> None:
        snapshot, memory[0] = observe(batch, memory[0])
        history.append(snapshot)
        query = snapshot.queries["q"]
        if snapshot.batch > COLD and query.rows_in.any():
            errors.extend(np.abs(query.load / query.cpu_seconds - 1).tolist())

    return look


def _compared(runs: list[dict[str, Any]]) -> dict[str, Any]:
    def least(what: str, measure: bool) -> float:
        return float(min(run[what] for run in runs if run["measure"] == measure))

    errors = [error for run in runs for error in run["errors"]]
    return {
        "batch_ms": least("batch_ms", True),
        "batch_ms_ratio": least("batch_ms", True) / least("batch_ms", False),
        "worker_cpu_ms": least("worker_cpu_ms", True),
        "worker_cpu_ratio": least("worker_cpu_ms", True) / least("worker_cpu_ms", False),
        "load_error_median": float(np.median(errors)),
        "load_error_p90": float(np.quantile(errors, 0.9)),
        "report_kb": least("report_kb", True),
    }


if __name__ == "__main__":
    main({"measuring": measuring})
