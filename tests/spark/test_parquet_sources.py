"""Parquet files that the router reads: the same rows as Spark reads, or Spark reads them."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.support.spark_harness import (
    BEGIN_US,
    SCHEMAS,
    SECOND,
    closing,
    rows_of,
    shifted,
    trades,
    write_batches,
)

import evenflow
from evenflow.spark.driver.parquet_sources import reads_parquet_files

SUMS = """SELECT window.start AS s, symbol, count(*) AS n, sum(qty) AS q, max(venue) AS v
    FROM trades GROUP BY window(ts, '10 seconds'), symbol"""
ROWS = trades(np.random.default_rng(3), 120)
LAST = closing(ROWS, BEGIN_US + 3600 * SECOND)


def frame_of(spark: SparkSession, folder: Path) -> DataFrame:
    reader = spark.readStream.schema(SCHEMAS["trades"]).option("maxFilesPerTrigger", 1)
    return reader.option("recursiveFileLookup", "false").parquet(str(folder))


def run_over(spark: SparkSession, place: Path, folder: Path) -> evenflow.Run:
    flow = evenflow.Flow(spark, workers=2, checkpoint=str(place / "checkpoint"))
    frame = frame_of(spark, folder)
    assert reads_parquet_files(spark, frame)
    flow.source("trades", frame, time="ts", watermark="5 seconds")
    flow.query("sums", SUMS, key="symbol")
    run = flow.start(available_now=True)
    run.await_termination()
    return run


def batch_answer(spark: SparkSession, folder: Path) -> DataFrame:
    frame = spark.read.schema(SCHEMAS["trades"]).parquet(str(folder))
    frame.where("ts < '2100-01-01'").createOrReplaceTempView("trades")
    return spark.sql(SUMS).where("s < '2023-11-14 23:00:00'")


def test_the_router_reads_plain_files(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "my trades 100% ä"
    write_batches(folder, [ROWS.slice(0, 0), ROWS, ROWS, LAST])
    odd = closing(ROWS, BEGIN_US + 150 * 365 * 86_400 * SECOND)
    odd = odd.set_column(3, "price", pa.array([7.5]))
    mixed = pa.concat_tables([ROWS.slice(0, 50), odd, ROWS.slice(50)])
    first, second = folder / "000001.parquet", folder / "000002.parquet"
    time = first.stat().st_mtime
    pq.write_table(mixed, first, row_group_size=30)
    later = shifted(ROWS, 60)
    wide = later.set_column(1, "symbol", later["symbol"].cast(pa.large_string()))
    pq.write_table(wide.select(["qty", "symbol", "ts", "venue", "price"]), second)
    for at, path in enumerate((first, second)):
        os.utime(path, (time + at, time + at))
    run = run_over(spark, tmp_path, folder)
    assert run._sources_read_here == {"trades"}
    assert rows_of(run.results("sums")) == rows_of(batch_answer(spark, folder))
    assert run.ahead == {"trades": 1}
    [row] = run.poison("trades").collect()
    assert row["price"] == 7.5  # no query needs it, but rows set aside are whole


def int96(folder: Path, name: str) -> None:
    pq.write_table(ROWS, folder / name, use_deprecated_int96_timestamps=True)


def missing(folder: Path, name: str) -> None:
    pq.write_table(ROWS.drop_columns(["venue"]), folder / name)


def narrow(folder: Path, name: str) -> None:
    rows = ROWS.set_column(4, "qty", ROWS["qty"].cast(pa.int32()))
    pq.write_table(rows, folder / name)


def other_case(folder: Path, name: str) -> None:
    pq.write_table(ROWS.rename_columns(["ts", "SYMBOL", "venue", "price", "qty"]), folder / name)


def partitioned(folder: Path, name: str) -> None:
    (folder / "venue=2").mkdir()
    pq.write_table(ROWS, folder / "venue=2" / name)


@pytest.mark.parametrize("write", [int96, missing, narrow, other_case, partitioned])
def test_spark_reads_what_the_router_might_read_otherwise(
    spark: SparkSession, tmp_path: Path, write: object
) -> None:
    folder = tmp_path / "trades"
    folder.mkdir()
    write(folder, "000000.parquet")  # type: ignore[operator]
    last = folder / "venue=2" if write is partitioned else folder
    write_batches(last, [LAST], first=90_000_000)
    run = run_over(spark, tmp_path, folder)
    assert run._sources_read_here == set()
    assert rows_of(run.results("sums")) == rows_of(batch_answer(spark, folder))


def test_only_plain_parquet_is_read_by_the_router(spark: SparkSession, tmp_path: Path) -> None:
    write_batches(tmp_path / "trades", [ROWS])
    frame = frame_of(spark, tmp_path / "trades")
    reader = spark.readStream.schema(frame.schema)
    assert reads_parquet_files(spark, frame)
    assert reads_parquet_files(spark, frame.to(frame.schema))
    assert reads_parquet_files(spark, frame.select("ts", "qty"))
    for other in (
        frame.where("qty > 1"),
        frame.selectExpr("ts", "qty + 1 AS qty"),
        frame.selectExpr("ts", "price AS qty"),
        frame.union(frame),
        frame.withWatermark("ts", "1 second"),
        reader.option("mergeSchema", "true").parquet(str(tmp_path / "trades")),
        reader.json(str(tmp_path / "trades")),
        spark.readStream.format("rate").load(),
    ):
        assert not reads_parquet_files(spark, other)
