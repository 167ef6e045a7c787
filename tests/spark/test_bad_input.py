"""Bad files and rows of sources on Spark: named, left out, and harmless to everything else."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.support.poll import until
from tests.support.spark_harness import (
    BEGIN_US,
    SECOND,
    SUMS,
    Play,
    batch_rows,
    closing,
    rows_of,
    stream,
    trade_batches,
    write_batches,
)

import evenflow
from evenflow.errors import InputError, SourceError

ROWS = trade_batches(3)


def damage(folder: Path) -> list[Path]:
    """Three batches, and between them a cut file, a retyped one, and rows of the year 2190."""
    ahead = closing(ROWS[0], BEGIN_US + 166 * 365 * 86_400 * SECOND)
    retyped = ROWS[0].set_column(4, "qty", pa.array(["many"] * len(ROWS[0])))
    end = closing(ROWS[0], BEGIN_US + 3600 * SECOND)
    write_batches(folder, [ROWS[0], ROWS[0], ROWS[1], retyped, ahead, ROWS[2], end])
    cut, other = folder / "000001.parquet", folder / "000003.parquet"
    times = cut.stat().st_mtime
    cut.write_bytes(cut.read_bytes()[:-500])
    os.utime(cut, (times, times))
    return [cut, other]


def make_flow(play: Play, on_bad_file: str, options: dict[str, str]) -> evenflow.Flow:
    flow = evenflow.Flow(play.spark, workers=2, checkpoint=str(play.folder / "checkpoint"))
    reader = play.spark.readStream.schema(stream(play.spark, play.folder, "trades").schema)
    frame = reader.options(**options).parquet(str(play.folder / "trades"))
    flow.source("trades", frame, time="ts", watermark="5 seconds", on_bad_file=on_bad_file)  # type: ignore[arg-type]
    flow.query("sums", SUMS, key="symbol")
    return flow


def test_bad_files_are_left_out_by_name_and_the_rest_is_batch_sql(
    spark: SparkSession, tmp_path: Path
) -> None:
    play = Play(spark, tmp_path)
    bad = damage(tmp_path / "trades")
    options = {"maxFilesPerTrigger": "4"}
    run = make_flow(play, "skip", options).start(trigger="100 milliseconds")
    expected = batch_rows(spark, SUMS, {"trades": pa.concat_tables(ROWS)})
    try:
        until(lambda: run.watermarks.get("trades", 0) > BEGIN_US + 3000 * SECOND, run)
        until(lambda: rows_of(run.results("sums")) == expected, run)
        found = {file.path.rpartition("/")[2]: file.reason for file in run.bad_files}
        assert set(found) == {path.name for path in bad}
        assert "Parquet" in found["000001.parquet"]
        assert "qty" in found["000003.parquet"]
        assert run.ahead == {"trades": 1}
        assert run.poison("trades").count() == 1
        assert run.poison("trades").collect()[0]["ts"].year == 2189
    finally:
        run.stop()
    # A restart knows them, and a file that is mended later is not read again.
    pq.write_table(ROWS[0], bad[0])
    again = make_flow(play, "skip", options).start(available_now=True)
    again.await_termination()
    assert rows_of(again.results("sums")) == expected
    assert len(again.bad_files) == 2


def test_a_bad_file_stops_the_run_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    play = Play(spark, tmp_path)
    bad = damage(tmp_path / "trades")
    run = make_flow(play, "stop", {"maxFilesPerTrigger": "1"}).start(trigger="100 milliseconds")
    with pytest.raises(SourceError) as failure:
        run.await_termination(120)
    run.stop()
    message = str(failure.value)
    assert bad[0].name in message
    assert "on_bad_file: skip" in message
    assert "\n" not in message
    assert len(message) < 700
    # The run goes on where it stopped once the file is mended.
    pq.write_table(ROWS[0].slice(0, 0), bad[0])
    pq.write_table(ROWS[0].slice(0, 0), bad[1])
    again = make_flow(play, "stop", {}).start(available_now=True)
    again.await_termination()
    expected = batch_rows(spark, SUMS, {"trades": pa.concat_tables(ROWS)})
    assert rows_of(again.results("sums")) == expected


def test_only_files_can_be_left_out(spark: SparkSession, tmp_path: Path) -> None:
    flow = evenflow.Flow(spark, workers=1, checkpoint=str(tmp_path))
    rate = spark.readStream.format("rate").load()
    with pytest.raises(InputError, match="does not read files"):
        flow.source("x", rate, time="timestamp", watermark="1 second", on_bad_file="skip")
