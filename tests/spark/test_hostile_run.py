"""Operators that hang, on real Spark: found by their time limit, and left out at the next start."""

from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from tests.support.evil_operators import Counted, Crashes, DueSleeps, HoldsTheLock, Sleeps
from tests.support.poll import until
from tests.support.spark_harness import (
    BEGIN_US,
    SECOND,
    SUMS,
    Play,
    batch_rows,
    closing,
    rows_of,
    trade_batches,
    write_batches,
)


def test_hanging_operators_are_found_and_can_be_left_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    play = Play(spark, tmp_path, workers=2)
    rows = trade_batches(3)
    write_batches(tmp_path / "trades", rows[:2])
    flow = play.flow()
    flow.query("sums", SUMS, key="symbol")
    flow.operator("sleeps", Sleeps, "trades", worker=0)
    flow.operator("due_sleeps", DueSleeps, "trades", worker=1)
    flow.operator("counted", Counted, "trades")
    run = flow.start(trigger="200 milliseconds")
    try:
        until(lambda: set(run.quarantined) == {"sleeps", "due_sleeps"}, run)
        until(lambda: run.committed >= 2, run)
    finally:
        run.stop()
    write_batches(tmp_path / "trades", [rows[2], closing(rows[0], BEGIN_US + 3600 * SECOND)], 2)
    again = flow.start(available_now=True, without=["counted"])
    again.await_termination()
    assert set(again.quarantined) == {"sleeps", "due_sleeps", "counted"}
    assert "started without it" in again.quarantined["counted"]
    expected = batch_rows(spark, SUMS, {"trades": pa.concat_tables(rows)})
    assert rows_of(again.results("sums")) == expected


def test_isolated_operators_cost_no_worker_process(spark: SparkSession, tmp_path: Path) -> None:
    """A crash and a hang that no interrupt ends: each batch is done in one attempt."""
    play = Play(spark, tmp_path, workers=2)
    rows = trade_batches(2)
    write_batches(tmp_path / "trades", [*rows, closing(rows[0], BEGIN_US + 3600 * SECOND)])
    flow = play.flow()
    flow.query("sums", SUMS, key="symbol")
    flow.operator("crashes", Crashes, "trades", isolate=True)
    flow.operator("hangs", HoldsTheLock, "trades", isolate=True)
    flow.operator("counted", Counted, "trades", isolate=True)
    run = flow.start(trigger="200 milliseconds")
    try:
        expected = batch_rows(spark, SUMS, {"trades": pa.concat_tables(rows)})
        until(lambda: rows_of(run.results("sums")) == expected, run)
        assert set(run.quarantined) == {"crashes", "hangs"}
        assert "signal 11" in run.quarantined["crashes"]
        assert "time limit" in run.quarantined["hangs"]
        assert [row.n for row in run.results("counted").collect()] == [40, 80, 81]
    finally:
        run.stop()
    # A worker's process that ended would have left a note of its attempt.
    assert not list((tmp_path / "checkpoint").glob("attempts/*/*"))
