"""Python processes of Spark killed from outside, and queries that end their own process."""

import os
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from tests.support.operators import Deadly, Held
from tests.support.poll import until
from tests.support.spark_harness import Play, batch_rows, rows_of, shifted, trades, write_batches

SQL = """SELECT window.start AS s, symbol, count(*) AS n FROM trades
    GROUP BY window(ts, '10 seconds'), symbol"""


def test_two_outside_kills_in_one_batch_blame_nobody(spark: SparkSession, tmp_path: Path) -> None:
    rows = trades(np.random.default_rng(1), 40)
    column = rows.schema.get_field_index("symbol")
    held = rows.set_column(column, "symbol", pa.array([str(tmp_path)] * len(rows)))
    given = [rows, shifted(held, 60), shifted(rows, 120), shifted(rows, 1000)]
    write_batches(tmp_path / "trades", given)
    flow = Play(spark, tmp_path, workers=2).flow()
    flow.operator("held", Held, "trades")
    flow.query("sums", SQL, key="symbol")
    run = flow.start(available_now=True)
    killed: set[Path] = set()

    def is_held() -> bool:
        return set(tmp_path.glob("pid-*")) > killed

    for _ in range(2):
        until(is_held, run)
        (held_by,) = set(tmp_path.glob("pid-*")) - killed
        os.kill(int(held_by.name.removeprefix("pid-")), signal.SIGKILL)
        killed.add(held_by)
    until(is_held, run)
    (tmp_path / "go").touch()
    run.await_termination()
    assert dict(run.quarantined) == {}
    assert rows_of(run.results("held")) == {(40,): 1, (80,): 1, (120,): 1, (160,): 1}
    answer = batch_rows(spark, SQL, {"trades": pa.concat_tables(given)})
    last_window = max(row[0] for row in answer)
    closed = {row: count for row, count in answer.items() if row[0] < last_window}
    found = rows_of(run.results("sums"))
    assert {row: count for row, count in found.items() if row in closed} == closed
    assert set(found) <= set(answer)


def test_an_operator_that_ends_its_process_is_quarantined_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_batches(tmp_path / "trades", [trades(np.random.default_rng(1), 40)] * 2)
    play = Play(spark, tmp_path, workers=1)
    flow = play.flow()
    flow.operator("deadly", Deadly, "trades")
    flow.query("every", "SELECT ts FROM trades")
    run = play.run(flow)
    assert "ended the worker's process" in run.quarantined["deadly"]
    assert run.results("every").count() == 80
