"""Faults that only Spark shows: files of sources that change, and a worker out of memory.

The table of all faults and their tests is in docs/reference/faults.md.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.support.operators import Greedy
from tests.support.spark_harness import (
    BEGIN_US,
    SECOND,
    SUMS,
    Play,
    batch_rows,
    closing,
    rows_of,
    shifted,
    stream,
    trade_batches,
    trades,
    write_batches,
)

import evenflow
from evenflow.errors import SourceError
from evenflow.spark.driver.completed_batch import CompletedBatch

GROUPS = Path("/sys/fs/cgroup/memory")


def flow_over(play: Play) -> evenflow.Flow:
    flow = play.flow()
    flow.query("sums", SUMS, key="symbol")
    return flow


@pytest.mark.parametrize("place", ["local", "remote"])
def test_a_source_file_vanishes_or_changes_before_its_batch_is_committed(
    spark: SparkSession, tmp_path: Path, place: str
) -> None:
    given = trade_batches(3)
    end = closing(given[0], BEGIN_US + 3600 * SECOND)
    write_batches(tmp_path / "trades", [*given, end])
    file, folder = tmp_path / "trades/000001.parquet", str(tmp_path / "trades")
    if place == "remote":  # another file system for Spark than the local disk
        spark.conf.set("fs.viewfs.mounttable.faults.link./rows", tmp_path.as_uri())
        folder = "viewfs://faults/rows/trades"

    def start(controller: Callable[[CompletedBatch], None] | None = None) -> evenflow.Run:
        reader = spark.readStream.schema(stream(spark, tmp_path, "trades").schema)
        frame = reader.option("maxFilesPerTrigger", 1).parquet(folder)
        flow = evenflow.Flow(spark, workers=2, checkpoint=str(tmp_path / "checkpoint"))
        flow.source("trades", frame, time="ts", watermark="5 seconds")
        flow.query("sums", SUMS, key="symbol")
        return flow.start(available_now=True, controller=controller)

    def remove(batch: CompletedBatch) -> None:
        if batch.number == 0:  # Spark has listed the file for the next batch
            shutil.move(file, tmp_path / "kept")

    def fail(batch: CompletedBatch) -> None:
        if batch.number == 1:
            raise RuntimeError("the driver fails after Spark has read the file")

    with pytest.raises(SourceError, match=r"000001\.parquet cannot be read: it is gone; put"):
        start(remove).await_termination()
    with pytest.raises(SourceError, match=r"000001\.parquet cannot be read: it is gone; put"):
        start().await_termination()
    shutil.move(tmp_path / "kept", file)
    with pytest.raises(Exception, match="the driver fails"):
        start(fail).await_termination()
    shutil.move(file, tmp_path / "kept")
    with pytest.raises(SourceError, match=r"000001\.parquet cannot be read: it is gone; put"):
        start().await_termination()
    # It comes back, with more rows than before: the batch runs again as if it had always had them.
    changed = pa.concat_tables([given[1], given[1].slice(0, 10)])
    write_batches(tmp_path / "trades", [changed], first=1)
    last = start()
    last.await_termination()
    expected = batch_rows(spark, SUMS, {"trades": pa.concat_tables([given[0], changed, given[2]])})
    assert rows_of(last.results("sums")) == expected
    assert dict(last.quarantined) == {}


@pytest.fixture
def memory_group() -> Iterator[str]:
    """A control group of 300 MB; nothing where it cannot be made."""
    group = GROUPS / "evenflow-test"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(300 << 20))
    except OSError:
        yield ""
        return
    yield str(group)
    with suppress(OSError):
        group.rmdir()


def test_a_worker_killed_for_its_memory_changes_nothing(
    spark: SparkSession, tmp_path: Path, memory_group: str
) -> None:
    rows = trades(np.random.default_rng(1), 40)
    column = rows.schema.get_field_index("symbol")
    greedy = rows.set_column(column, "symbol", pa.array([str(tmp_path)] * len(rows)))
    (tmp_path / "oom").write_text(memory_group)
    given = [rows, shifted(greedy, 60), shifted(rows, 120)]
    write_batches(tmp_path / "trades", [*given, closing(rows, BEGIN_US + 3600 * SECOND)])
    flow = flow_over(Play(spark, tmp_path, workers=2))
    flow.operator("greedy", Greedy, "trades")
    run = flow.start(available_now=True)
    run.await_termination()
    assert (tmp_path / "killed").exists()
    assert dict(run.quarantined) == {}
    assert rows_of(run.results("greedy")) == {(40,): 1, (80,): 1, (120,): 1, (121,): 1}
    assert rows_of(run.results("sums")) == batch_rows(
        spark, SUMS, {"trades": pa.concat_tables(given)}
    )
