"""Nexmark against Spark's own streaming and Flink: `python -m benchmarks.runtime.nexmark`.

    make FOLDER EVENTS               write the events as CSV, which all three can read
    evenflow|native FOLDER q0 ...    run queries one after the other in one Spark session
    heap|rocksdb FOLDER q0 ...       the same in Flink (in a Python with apache-flink)

Prints one JSON object per query: the seconds from its start to its end, and rows per second. Two
cores on every side: `local[2]` and 2 workers, or 2 slots. Evenflow writes its results, the others
discard them. `rocksdb` has checkpoints every second, `heap` none; Evenflow and Spark commit each of
the 20 batches. Before them a short query warms the process up.
"""

import json
import os
import shutil
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.runtime import nexmark_flink

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

EVENTS_FILE, FILES = "events", 20
FILES_BEGIN = 1_700_000_000  # their times of change: Spark reads files in this order
STREAMS = {
    "person": "ts TIMESTAMP, id BIGINT, name STRING, city STRING, state STRING",
    "auction": "ts TIMESTAMP, id BIGINT, seller BIGINT, category INT, initial_bid BIGINT, "
    "expires TIMESTAMP",
    "bid": "ts TIMESTAMP, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING",
}
WARM_UP = "warm-up"


def make(folder: Path, events: int) -> None:
    """Write each stream as 20 files in order of time, and for Flink's two slots as every other."""
    import pyarrow as pa
    from pyarrow import csv

    from evenflow.datasets.nexmark import generate_events

    for size, name in ((events, EVENTS_FILE), (events // 50, WARM_UP)):
        for stream, rows in generate_events(1, size).items():
            written = pa.table([_written(column) for column in rows.columns], rows.column_names)
            ends = [len(written) * at // FILES for at in range(FILES + 1)]
            parts = [written.slice(a, b - a) for a, b in pairwise(ends)]
            halves = [written.take(pa.array(range(half, len(written), 2))) for half in (0, 1)]
            for kind, files in (("spark", parts), ("flink", halves)):
                place = folder / name / kind / stream
                place.mkdir(parents=True, exist_ok=True)
                for at, part in enumerate(files):
                    options = csv.WriteOptions(include_header=False, quoting_style="none")
                    file = place / f"{at:02}.csv"
                    csv.write_csv(part, file, options)
                    os.utime(file, (FILES_BEGIN + at, FILES_BEGIN + at))


def _written(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """Write times to the millisecond, which is what Flink's event times have."""
    import pyarrow as pa

    if not pa.types.is_timestamp(column.type):
        return column
    return column.cast(pa.timestamp("ms"), safe=False).cast(pa.string())


def run_spark(side: str, folder: Path, names: list[str]) -> None:
    """Run queries in one Spark session, as a flow or as Spark's own streaming queries."""
    from benchmarks.runtime.sides import session
    from evenflow.datasets.nexmark import QUERIES, SIDE_INPUT

    spark = session()
    spark.createDataFrame(SIDE_INPUT).createOrReplaceTempView("side_input")
    run = _flow_seconds if side == "evenflow" else _native_seconds
    for data, asked in ((WARM_UP, ["q12"]), (EVENTS_FILE, names)):
        for name in asked:
            shutil.rmtree(folder / "checkpoint", ignore_errors=True)
            try:
                seconds, rows = run(spark, folder, data, QUERIES[name])
                _report(side, name, data, folder, seconds, rows)
            except Exception as problem:
                text = str(problem).strip().splitlines()[0][:160]
                print(json.dumps({"side": side, "query": name, "refused": text}), flush=True)
    spark.stop()


def _frames(spark: "SparkSession", folder: Path, data: str, sql: str) -> "dict[str, DataFrame]":
    frames = {}
    for stream, schema in STREAMS.items():
        if f"FROM {stream}" in sql or f"JOIN {stream}" in sql:
            reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
            frames[stream] = reader.csv(str(folder / data / "spark" / stream))
    return frames


def _flow_seconds(spark: "SparkSession", folder: Path, data: str, sql: str) -> tuple[float, int]:
    from evenflow import Flow
    from evenflow.datasets.nexmark import SCHEMAS, SIDE_INPUT
    from evenflow.sql import Catalog, Stream, compile_query

    streams = {n: Stream(schema, "ts", 1_000_000) for n, schema in SCHEMAS.items()}
    program = compile_query("q", sql, Catalog(streams, {"side_input": SIDE_INPUT.schema}))
    began = time.perf_counter()
    flow = Flow(spark, workers=2, checkpoint=str(folder / "checkpoint"))
    for stream, frame in _frames(spark, folder, data, sql).items():
        flow.source(stream, frame, time="ts", watermark="1 second")
    if program.tables:
        flow.table("side_input", spark.table("side_input"))
    flow.query("q", sql, key=program.key)
    run = flow.start(available_now=True)
    run.await_termination()
    seconds = time.perf_counter() - began
    if run.quarantined:
        raise RuntimeError(str(run.quarantined))
    reports = [report for batch in run.batches for report in batch.reports]
    rows = sum(stats.rows_out for report in reports for stats in report.query_stats.values())
    return seconds, rows


def _native_seconds(spark: "SparkSession", folder: Path, data: str, sql: str) -> tuple[float, int]:
    began = time.perf_counter()
    for stream, frame in _frames(spark, folder, data, sql).items():
        frame.withWatermark("ts", "1 second").createOrReplaceTempView(stream)
    query = (
        spark.sql(sql)
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    seconds = time.perf_counter() - began
    rows = sum(max(0, p.sink.numOutputRows) for p in query.recentProgress)
    return seconds, rows


def _report(side: str, name: str, data: str, folder: Path, seconds: float, rows: int) -> None:
    if data != EVENTS_FILE:
        return
    events = int((folder / "events.txt").read_text())
    found = {"side": side, "query": name, "seconds": round(seconds, 2), "rows_out": rows,
             "events_per_second": round(events / seconds)}  # fmt: skip
    print(json.dumps(found), flush=True)


def main(side: str, folder: Path, names: list[str]) -> None:
    """Run one side."""
    if side == "make":
        make(folder, int(names[0]))
        (folder / "events.txt").write_text(names[0])
    elif side in ("heap", "rocksdb"):
        nexmark_flink.run_queries(side, folder, names, STREAMS)
    else:
        run_spark(side, folder, names)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
