"""Queries with a backfill on Spark: from a file, in Python, and while a flow runs."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.support.poll import until
from tests.support.spark_harness import (
    SUMS,
    Play,
    batch_rows,
    rows_of,
    shifted,
    trades,
    write_batches,
)
from tests.support.submissions import last_row

from evenflow.errors import InputError
from evenflow.spark.from_spec import flow_from_spec
from evenflow.spec import load_spec

PAIRS = """SELECT a.symbol, a.ts AS t1, b.ts AS t2 FROM trades a JOIN trades b
    ON a.symbol = b.symbol AND b.ts >= a.ts AND b.ts <= a.ts + INTERVAL 8 SECONDS"""


def test_queries_begin_with_the_rows_from_before(spark: SparkSession, tmp_path: Path) -> None:
    """One starts with its flow, the other while it runs; it knows which rows it has missed."""
    rng = np.random.default_rng(4)
    history, *batches = [shifted(trades(rng, 60, span_s=20), 20 * at) for at in range(5)]
    play = Play(spark, tmp_path)
    write_batches(tmp_path / "trades", batches[:2])
    archive = spark.createDataFrame(history)
    flow = play.flow()
    flow.query("sums", SUMS, key="symbol", backfill=archive)
    run = flow.start("100 milliseconds")
    until(lambda: run.committed >= 2, run)
    missed = spark.createDataFrame(pa.concat_tables([history, *batches[:2]]))
    run.submit("pairs", PAIRS, key="symbol", backfill={"trades": missed})
    until(lambda: "pairs" in run.queries, run)
    write_batches(tmp_path / "trades", [batches[2]], first=2)
    until(lambda: run.committed > 4 and not run.has_pending_work, run)
    run.stop()

    write_batches(tmp_path / "trades", [batches[3], last_row()], first=3)
    flow = play.flow()
    flow.query("sums", SUMS, key="symbol", backfill=archive)  # it had it: nothing comes twice
    flow.query("pairs", PAIRS, key="symbol")
    run = play.run(flow)
    rows = pa.concat_tables([history, *batches])
    assert rows_of(run.results("sums")) == batch_rows(spark, SUMS, {"trades": rows})
    rows = pa.concat_tables([rows, last_row()])
    assert rows_of(run.results("pairs")) == batch_rows(spark, PAIRS, {"trades": rows})


RATIOS = """SELECT window.start AS s, symbol, count(*) AS n, sum(10 div venue) AS q
    FROM trades GROUP BY window(ts, '10 seconds'), symbol"""


def test_a_query_that_failed_gets_the_rows_it_missed(spark: SparkSession, tmp_path: Path) -> None:
    """It is submitted again with all rows so far; its results are those of all rows."""
    rng = np.random.default_rng(8)
    batches = [shifted(trades(rng, 60, span_s=20), 20 * at) for at in range(5)]
    venues = batches[1]["venue"].to_pylist()
    zero = pa.array([0, *venues[1:]], batches[1].schema.field("venue").type)
    at = batches[1].schema.get_field_index("venue")
    batches[1] = batches[1].set_column(at, batches[1].schema.field("venue"), zero)
    play = Play(spark, tmp_path)
    write_batches(tmp_path / "trades", batches[:3])
    flow = play.flow()
    flow.query("ratios", RATIOS, key="symbol")
    run = flow.start("100 milliseconds")
    until(lambda: run.committed >= 3, run)
    assert "division by zero" in run.quarantined["ratios"]
    assert run.missing_since == {"ratios": 1}
    mended = RATIOS.replace("10 div venue", "10 div nullif(venue, 0)")
    run.cancel("ratios")
    run.submit(
        "ratios", mended, key="symbol", backfill=spark.read.parquet(str(tmp_path / "trades"))
    )
    until(lambda: not run.quarantined and "ratios" in run.queries, run)
    assert run.missing_since == {}
    write_batches(tmp_path / "trades", [*batches[3:], last_row()], first=3)
    until(lambda: run.committed > 6 and not run.has_pending_work, run)
    run.stop()
    rows = pa.concat_tables(batches)
    assert rows_of(run.results("ratios")) == batch_rows(spark, mended, {"trades": rows})


SPEC = """
workers: 2
checkpoint: run
sources:
  trades:
    format: parquet
    path: trades
    schema: ts TIMESTAMP, symbol STRING, venue INT, price DOUBLE, qty BIGINT
    time: ts
    watermark: 5 seconds
queries:
  dear:
    sql: SELECT ts, price FROM trades WHERE price > 50
    backfill:
      trades: {format: parquet, path: archive, select: ["*"]}
"""


def test_a_specification_names_the_rows_from_before(spark: SparkSession, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    history, batch = trades(rng, 60, span_s=20), shifted(trades(rng, 60, span_s=20), 20)
    write_batches(tmp_path / "trades", [batch])
    (tmp_path / "archive").mkdir()
    pq.write_table(history, tmp_path / "archive/rows.parquet")
    (tmp_path / "spec.yaml").write_text(SPEC)
    run = flow_from_spec(load_spec(tmp_path / "spec.yaml"), spark, str(tmp_path / "run")).start(
        available_now=True
    )
    run.await_termination()
    sql, rows = "SELECT ts, price FROM trades WHERE price > 50", pa.concat_tables([history, batch])
    assert rows_of(run.results("dear")) == batch_rows(spark, sql, {"trades": rows})
    (tmp_path / "spec.yaml").write_text(SPEC.replace("      trades: {", "      quotes: {"))
    with pytest.raises(InputError, match=r"backfill\.quotes: is not a source; sources: trades"):
        load_spec(tmp_path / "spec.yaml")


def test_a_backfill_that_does_not_fit_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    rows = trades(np.random.default_rng(4), 3)
    write_batches(tmp_path / "trades", [rows])
    flow = Play(spark, tmp_path).flow()
    frame = spark.createDataFrame(rows)
    with pytest.raises(InputError, match="has rows of quotes, but it reads trades"):
        flow.query("sums", SUMS, backfill={"quotes": frame})
    with pytest.raises(InputError, match="lacks price, columns of 'trades'; add them"):
        flow.query("sums", SUMS, backfill=frame.drop("price"))
    with pytest.raises(InputError, match="does not have the columns of 'trades'"):
        flow.query("sums", SUMS, backfill=frame.withColumn("price", frame["symbol"]))
    with pytest.raises(InputError, match="is a streaming DataFrame"):
        flow.query("sums", SUMS, backfill=spark.readStream.format("rate").load())
    flow.query("sums", SUMS, backfill=frame.selectExpr("NULL AS ts", "* EXCEPT (ts)"))
    with pytest.raises(InputError, match="3 rows of the backfill of 'sums' have no valid 'ts'"):
        flow.start(available_now=True)
