"""The continuous Q5 gives what Spark's batch SQL gives over the same rows."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.support.spark_harness import rows_of, write_batches

import evenflow
from evenflow.datasets import tpch_q5
from evenflow.datasets.event_time import SECOND_US
from evenflow.errors import InputError


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    folder = tmp_path_factory.mktemp("tpch")
    tpch_q5.generate_tables(folder, 0.01)
    return tpch_q5.read_tables(folder)


def test_keys_are_skewed_and_every_line_item_follows_its_order(tables: dict[str, pa.Table]) -> None:
    made = tpch_q5.skewed_streams(tables, np.random.default_rng(1), skew=1.0)
    again = tpch_q5.skewed_streams(tables, np.random.default_rng(1), skew=1.0)
    assert made == again
    both = made["lineitem"].join(made["orders"], "orderkey", right_suffix="_of_order")
    assert len(both) == len(tables["lineitem"])
    wait_us = np.subtract(
        *(both[name].cast(pa.int64()).to_numpy() for name in ("ts", "ts_of_order"))
    )
    assert wait_us.min() > 0
    assert wait_us.max() <= tpch_q5.WINDOW_SECONDS * SECOND_US
    for stream, key in (("lineitem", "l_suppkey"), ("orders", "o_custkey")):
        most = max(made[stream][key].value_counts().field("counts").to_pylist())
        even = len(made[stream]) / len(tables[stream][key].unique())
        assert most > 2 * even, key
    with pytest.raises(InputError, match="skew must be 0 or more, got -1"):
        tpch_q5.skewed_streams(tables, np.random.default_rng(1), skew=-1)


def test_streaming_gives_what_batch_gives(
    spark: SparkSession, tmp_path: Path, tables: dict[str, pa.Table]
) -> None:
    made = tpch_q5.skewed_streams(tables, np.random.default_rng(1), seconds=900)
    flow = evenflow.Flow(spark, workers=2, checkpoint=str(tmp_path / "checkpoint"))
    for name, rows in made.items():
        write_batches(tmp_path / name, tpch_q5.cut_by_time(rows, 600))
        static = spark.read.parquet(str(tmp_path / name))
        static.createOrReplaceTempView(name)
        reader = spark.readStream.schema(static.schema).option("maxFilesPerTrigger", 1)
        flow.source(name, reader.parquet(str(tmp_path / name)), time="ts", watermark="0 seconds")
    for name in tpch_q5.TABLES:
        spark.createDataFrame(tables[name]).createOrReplaceTempView(name)
        flow.table(name, spark.table(name))
    flow.query("joined", tpch_q5.JOIN_SQL, key=tpch_q5.ORDER_KEY, publish=True)
    flow.query("revenue", tpch_q5.REVENUE_SQL.format(joined="joined"))
    run = flow.start(available_now=True)
    run.await_termination()
    assert dict(run.quarantined) == {}
    assert dict(run.late) == {}
    spark.sql(tpch_q5.JOIN_SQL).createOrReplaceTempView("joined_by_batch")
    expected = rows_of(spark.sql(tpch_q5.REVENUE_SQL.format(joined="joined_by_batch")))
    assert len(expected) > 20
    assert rows_of(run.results("revenue")) == expected
