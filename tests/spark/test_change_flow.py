"""A flow on Spark is changed without loss: another definition of a query, columns of a source."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from tests.support.poll import until
from tests.support.spark_harness import (
    BEGIN_US,
    SCHEMAS,
    SECOND,
    batch_rows,
    closing,
    shifted,
    trades,
    write_batches,
)

import evenflow

COUNTS = """SELECT window.start AS s, symbol, count(*) AS n
    FROM trades GROUP BY window(ts, '10 seconds'), symbol"""
TOPS = COUNTS.replace("count(*) AS n", "count(*) AS n, max(price) AS top")
SECONDS, BATCHES = 10, 12


def declare(spark: SparkSession, folder: Path, more_columns: str = "") -> evenflow.Flow:
    flow = evenflow.Flow(spark, workers=2, checkpoint=str(folder / "checkpoint"))
    reader = spark.readStream.schema(str(SCHEMAS["trades"]) + more_columns)
    frame = reader.option("maxFilesPerTrigger", 1).parquet(str(folder / "trades"))
    flow.source("trades", frame, time="ts", watermark="5 seconds")
    return flow


def test_no_result_is_lost_or_given_twice(spark: SparkSession, tmp_path: Path) -> None:
    rng, seen = np.random.default_rng(6), Counter[Any]()
    batches = [
        shifted(trades(rng, 30, span_s=SECONDS), number * SECONDS) for number in range(BATCHES)
    ]
    last = closing(batches[0], BEGIN_US + 3600 * SECOND)

    def keep(frame: DataFrame, _: Any) -> None:
        seen.update(tuple(row) for row in frame.select("s", "symbol", "n").collect())

    write_batches(tmp_path / "trades", batches[:3])
    flow = declare(spark, tmp_path)
    flow.query("counts", COUNTS, key="symbol")
    flow.sink("rows", foreach_batch=keep, queries=["counts"])
    run = flow.start("100 milliseconds")
    until(lambda: run.committed >= 3, run)
    assert run.replace("counts", TOPS).name == "counts__next"  # it reads one more column
    write_batches(tmp_path / "trades", [*batches[3:], last], first=3)
    until(lambda: run.queries.keys() == {"counts"} and run.queries["counts"].text == TOPS, run)
    until(lambda: run.committed > BATCHES and not run.has_pending_work, run)
    newer = run.results("counts").count()
    run.stop()
    expected = batch_rows(spark, COUNTS, {"trades": pa.concat_tables(batches)})
    assert seen == expected
    assert 0 < newer < expected.total()

    market = pa.array(["X"] * 30)
    write_batches(
        tmp_path / "trades",
        [shifted(batches[0], 7200).append_column("market", market)],
        first=BATCHES + 1,
    )
    flow = declare(spark, tmp_path, ", market STRING")
    flow.query("counts", TOPS, key="symbol")
    flow.query("markets", "SELECT ts, market FROM trades")
    run = flow.start("100 milliseconds")
    until(lambda: "markets" in run.queries, run)
    write_batches(
        tmp_path / "trades",
        [shifted(batches[1], 7200).append_column("market", market)],
        first=BATCHES + 2,
    )
    until(lambda: run.results("markets", limit=100).to_arrow().num_rows >= 30, run)
    run.stop()
    assert set(run.results("markets").to_arrow()["market"].to_pylist()) == {"X"}
    assert not run.quarantined
