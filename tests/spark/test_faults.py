"""Faults that only Spark shows: files of sources that change, and a worker out of memory.

The table of all faults and their tests is in docs/reference/faults.md.
"""

import shutil
from collections.abc import Iterator
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
    Play,
    batch_rows,
    closing,
    rows_of,
    shifted,
    trades,
    write_batches,
)

import evenflow
from evenflow.errors import SourceError
from evenflow.spark.driver.completed_batch import CompletedBatch

SQL = """SELECT window.start AS s, symbol, count(*) AS n, sum(qty) AS q FROM trades
    GROUP BY window(ts, '10 seconds'), symbol"""
GROUPS = Path("/sys/fs/cgroup/memory")


def flow_over(play: Play) -> evenflow.Flow:
    flow = play.flow()
    flow.query("sums", SQL, key="symbol")
    return flow


def test_a_source_file_vanishes_or_changes_before_its_batch_is_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    given = [shifted(trades(np.random.default_rng(at), 40, span_s=8), 8 * at) for at in range(3)]
    end = closing(given[0], BEGIN_US + 3600 * SECOND)
    write_batches(tmp_path / "trades", [*given, end])
    file, play = tmp_path / "trades/000001.parquet", Play(spark, tmp_path, workers=2)

    def remove(batch: CompletedBatch) -> None:
        if batch.number == 0:  # Spark has listed the file for the next batch
            shutil.move(file, tmp_path / "kept")

    run = flow_over(play).start(available_now=True, controller=remove)
    with pytest.raises(SourceError, match=r"000001\.parquet"):
        run.await_termination()
    # It comes back, with more rows than before: the batch runs again as if it had always had them.
    changed = pa.concat_tables([given[1], given[1].slice(0, 10)])
    write_batches(tmp_path / "trades", [changed], first=1)
    last = flow_over(play).start(available_now=True)
    last.await_termination()
    expected = batch_rows(spark, SQL, {"trades": pa.concat_tables([given[0], changed, given[2]])})
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
        spark, SQL, {"trades": pa.concat_tables(given)}
    )
