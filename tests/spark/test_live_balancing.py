"""Live balancing on Spark: hot keys are spread, workers come and go, and no row changes."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.support.spark_harness import Play, batch_rows, rows_of, write_batches, zipf_batches

import evenflow
from evenflow.model import imbalance
from evenflow.planning.controller import Balancing
from evenflow.storage.bundle import read_part
from evenflow.storage.history import read_history

QUERIES = {
    "pairs": """SELECT a.symbol, a.ts AS t1, b.ts AS t2 FROM trades a JOIN trades b
        ON a.symbol = b.symbol AND b.ts > a.ts AND b.ts <= a.ts + INTERVAL 20 MILLISECONDS""",
    "counts": """SELECT window.start AS s, symbol, count(*) AS n FROM trades
        GROUP BY window(ts, '2 seconds'), symbol""",
}
MANY = """SELECT window.start AS s, sum(qty) + {} AS n FROM trades
    GROUP BY window(ts, '2 seconds')"""


def check(
    spark: SparkSession, run: evenflow.Run, batches: list[pa.Table], queries: dict[str, str]
) -> None:
    rows = pa.concat_tables(batches)
    for name, sql in queries.items():
        expected = batch_rows(spark, sql, {"trades": rows})
        if "window.start" in sql:  # the last row's window stays open
            last = max(row[0] for row in expected)
            expected = type(expected)({r: n for r, n in expected.items() if r[0] < last})
        assert rows_of(run.results(name)) == expected, name


@pytest.mark.slow
def test_hot_keys_are_spread_and_after_a_shift_again(spark: SparkSession, tmp_path: Path) -> None:
    shift, count = 8, 16
    batches = zipf_batches(count, 3000, 400, 0.9, shift)
    write_batches(tmp_path / "trades", batches)
    flow = Play(spark, tmp_path, workers=4, watermark="0 seconds").flow()
    for name, sql in QUERIES.items():
        flow.query(name, sql, key="symbol")
    # So few rows cost next to nothing: let them cost far more than other processes disturb.
    exact = Balancing(min_excess=0.0)  # a busy machine must not make batches look idle
    run = flow.start(available_now=True, balancing=exact, emulated_cost=2e-4)
    run.await_termination()
    check(spark, run, batches, QUERIES)

    def uneven(batch: int) -> float:
        """By rows, which is nearly what the load is here, without the noise of measuring it."""
        seen = run.snapshots[batch].queries
        return imbalance(np.sum([seen[name].rows_in for name in QUERIES], axis=0))

    assert min(map(uneven, range(3))) > 1.15, "hash alone is uneven here, else nothing is shown"
    planned = [decision for decision in run.decisions if decision.plan is not None]
    assert [decision.reason for decision in planned] == ["keys"] * 2, "a plan for each, then quiet"
    for plan, begin, end in zip(planned, (0, shift), (shift, count), strict=True):
        assert begin <= plan.batch <= begin + 3
        settled = range(plan.batch + 2, end)
        reached = [imbalance(run.snapshots[batch].worker_loads()) for batch in settled]
        assert max(reached) <= 1.08, [decision.message for decision in run.decisions]
        # What a row costs beside a pair and a step is told from three batches: not to a per cent.
        assert max(map(uneven, settled)) < 1 + (uneven(begin) - 1) / 2
    assert any(outcome.handed_bytes for outcome in run.outcomes)
    snapshots, decisions, outcomes = read_history(str(tmp_path / "checkpoint"))
    assert [s.batch for s in snapshots] == [s.batch for s in run.snapshots]
    assert [d.reason for d in decisions] == [d.reason for d in run.decisions]
    assert len(outcomes) == len(run.outcomes)
    hot = run.hot_keys("counts", 5)
    assert hot[0].share == max(key.share for key in hot)


@pytest.mark.slow
def test_four_to_six_to_three_workers_in_one_run(spark: SparkSession, tmp_path: Path) -> None:
    batches = zipf_batches(16, 400, 100, 1.0, 99)
    play = Play(spark, tmp_path, workers=6, watermark="0 seconds", active=4)
    write_batches(tmp_path / "trades", batches[:4])
    flow = play.flow()
    for name, sql in QUERIES.items():
        flow.query(name, sql, key="symbol")
    whole = {f"many{at}": MANY.format(at) for at in range(6)}
    for name, sql in whole.items():
        flow.query(name, sql)
    run = flow.start(trigger="0 seconds", balancing=Balancing(min_excess=0.0))
    try:
        _after(run, lambda: len(run.batches) >= 4)
        assert list(run.plan.active) == [0, 1, 2, 3]
        run.activate(4)
        run.activate(5)
        write_batches(tmp_path / "trades", batches[4:9], 4)
        _after(run, lambda: _rows(run) >= 9 * 400)
        assert list(run.plan.active) == [0, 1, 2, 3, 4, 5]
        _activated_at_once(run)
        for worker in (0, 2, 5):
            run.drain(worker)
        write_batches(tmp_path / "trades", batches[9:13], 9)
        _after(run, lambda: _rows(run) >= 13 * 400 and not run.has_pending_work)
        assert list(run.plan.active) == [1, 3, 4]
        # Here windows are open and rows kept: who has none has handed them over.
        assert {worker for worker in range(6) if _held(run, worker)} == {1, 3, 4}
        begun = run.committed
        write_batches(tmp_path / "trades", batches[13:], 13)
        _after(run, lambda: _rows(run) > 16 * 400 and not run.has_pending_work)
        later = [batch for batch in run.batches if batch.number >= begun]
        busy = {report.worker for batch in later for report in batch.reports if not report.idle}
        assert busy == {1, 3, 4}
    finally:
        run.stop()
    check(spark, run, batches, QUERIES | whole)


def _activated_at_once(run: evenflow.Run) -> None:
    """Assert that all workers have load two batches after a plan that activates some."""
    activated = {d.batch: d.plan for d in run.decisions if d.reason == "activated" and d.plan}
    assert activated
    for batch, plan in activated.items():
        under = next(s for s in run.snapshots if s.batch >= batch + 2 and not s.idle)
        assert under.worker_loads()[list(plan.active)].all(), f"not all of {plan.active} carry load"


def _held(run: evenflow.Run, worker: int) -> set[str]:
    """Return the queries of which a worker has state, by what the ledger says it has next."""
    index = run._checkpoint.head().state_refs.get(worker)
    tasks = {} if index is None else json.loads(read_part(run.checkpoint, index).to_pybytes())
    return {uid for uid, (_, segments) in tasks.items() if segments}


def _after(run: evenflow.Run, ready: Callable[[], bool], seconds: float = 120) -> None:
    begun, tick = time.monotonic(), threading.Event()
    while not ready():
        assert run.is_active, "the run has ended"
        assert time.monotonic() - begun < seconds, "nothing more happens"
        tick.wait(0.1)


def _rows(run: evenflow.Run) -> int:
    return sum(
        stats.rows_in
        for batch in run.batches
        for report in batch.reports
        for uid, stats in report.query_stats.items()
        if uid.startswith("counts@")
    )
