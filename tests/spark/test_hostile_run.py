"""Operators that hang, on real Spark: found by their time limit, and left out at the next start."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from tests.support.evil_operators import Counted, DueSleeps, Sleeps
from tests.support.poll import until
from tests.support.spark_harness import (
    BEGIN_US,
    SECOND,
    Play,
    batch_rows,
    closing,
    rows_of,
    shifted,
    trades,
    write_batches,
)

SUMS = """SELECT window.start AS s, symbol, count(*) AS n, sum(qty) AS q
    FROM trades GROUP BY window(ts, '10 seconds'), symbol"""


def test_hanging_operators_are_found_and_can_be_left_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    play, rng = Play(spark, tmp_path, workers=2), np.random.default_rng(3)
    rows = [shifted(trades(rng, 40, span_s=8), 8 * at) for at in range(3)]
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
