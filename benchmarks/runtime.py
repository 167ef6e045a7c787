"""The runtime against native Spark, both in one run: `python -m benchmarks.runtime [row ...]`.

Rows: empty, join, aggregate, templates, buffered. Each reads files of one batch each, lets a few
pass and takes the median time of the others as Spark reports it. JSON out; read the ratios.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import evenflow

SECOND = 1_000_000
BEGIN = 1_700_000_000 * SECOND
SCHEMA = "ts timestamp, symbol string, price double, qty long"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
WORKERS = 8


def session(memory: str = "4g") -> SparkSession:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": memory,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }
    builder = SparkSession.builder.master("local[2,4]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def trades(rng: np.random.Generator, first_us: int, span_us: int, symbols: np.ndarray) -> pa.Table:
    """Rows evenly over a span of time."""
    count = len(symbols)
    times = first_us + (np.arange(count) * span_us) // max(1, count)
    return pa.table(
        {
            "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "symbol": pa.array(np.char.add("s", symbols.astype(str))),
            "price": pa.array(rng.random(count) * 100),
            "qty": pa.array(rng.integers(0, 100, count)),
        }
    )


def zipf(rng: np.random.Generator, skew: float, keys: int, count: int) -> np.ndarray:
    weights = np.arange(1, keys + 1, dtype=float) ** -skew
    return np.asarray(rng.choice(keys, count, p=weights / weights.sum()))


def write(folder: Path, batches: Iterable[pa.Table]) -> None:
    folder.mkdir(parents=True)
    for at, rows in enumerate(batches):
        path = folder / f"{at:05d}.parquet"
        pq.write_table(rows, path)
        os.utime(path, (1e9 + at * 10, 1e9 + at * 10))


def reading(spark: SparkSession, folder: Path, files: int = 1) -> DataFrame:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files).parquet(str(folder))


def batch_ms(progress: Iterable[Any], skip: int, inputs: int = 1) -> dict[str, float]:
    """The median time of a full batch, after the first few; a source read twice counts once."""
    seen = [p for p in progress if p["numInputRows"] > 0][skip:]
    most = max(p["numInputRows"] for p in seen)
    seen = [p for p in seen if p["numInputRows"] == most]
    milliseconds = statistics.median(p["durationMs"]["triggerExecution"] for p in seen)
    return {
        "rows_per_batch": most // inputs,
        "batch_ms": milliseconds,
        "rows_per_second": round(most / inputs / milliseconds * 1000),
        "batches": len(seen),
    }


def native(
    frame: DataFrame, folder: Path, skip: int, mode: str = "append", inputs: int = 1
) -> dict[str, float]:
    """Run a plain Spark streaming query that throws its results away."""
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(folder / "native"))
        .outputMode(mode)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return batch_ms(query.recentProgress, skip, inputs)


def ours(
    spark: SparkSession,
    folder: Path,
    skip: int,
    declare: Callable[[evenflow.Flow], Any],
    files: int = 1,
) -> dict[str, Any]:
    flow = evenflow.Flow(spark, workers=WORKERS, checkpoint=str(folder / "evenflow"))
    source = reading(spark, folder / "in", files)
    flow.source("trades", source, time="ts", watermark="0 seconds")
    declare(flow)
    run = flow.start(available_now=True)
    query = run._query
    run.await_termination()
    if run.quarantined or query is None:
        raise RuntimeError(f"a query failed: {run.quarantined}")
    found: dict[str, Any] = batch_ms(query.recentProgress, skip)
    batches = run.batches[skip:]
    reports = [report for batch in batches for report in batch.reports]
    found["shipped_bytes_per_batch"] = sum(sum(r.shipped.values()) for r in reports) // len(batches)
    found["worker_cpu_ms_per_batch"] = round(
        1000 * sum(r.cpu_seconds for r in reports) / len(batches), 1
    )
    found["rows_out"] = sum(s.rows_out for r in reports for s in r.queries.values())
    found["state_mb"] = round(
        sum(s.state_bytes for r in batches[-2].reports for s in r.queries.values()) / 1e6, 1
    )
    found["python_peak_mb"] = python_peak_mb()
    return found


def python_peak_mb() -> float:
    """The largest resident memory that a Python worker of this session has had."""
    peak = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            command = (status.parent / "cmdline").read_bytes()
            if b"pyspark.daemon" in command:
                line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
                peak = max(peak, int(line.split()[1]))
        except (OSError, StopIteration):
            continue
    return round(peak / 1024)


class Count(StatefulProcessor):
    """The least a stateful operator can do."""

    def init(self, handle: Any) -> None:
        self.value = handle.getValueState("n", "n long")

    def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Any:  # noqa: N802
        before = self.value.get()
        number = (before[0] if before else 0) + sum(len(part) for part in rows)
        self.value.update((number,))
        yield pd.DataFrame({"slot": [key[0]], "n": [number]})

    def close(self) -> None:
        """Nothing to give back."""


def empty(spark: SparkSession, folder: Path, scale: float) -> dict[str, Any]:
    """A batch with next to nothing in it, against a bare transformWithState pipeline."""
    rng = np.random.default_rng(1)
    batches = [trades(rng, BEGIN + at * SECOND, SECOND, np.arange(10)) for at in range(16)]
    write(folder / "in", batches)
    source = reading(spark, folder / "in")
    spark.conf.set("spark.sql.shuffle.partitions", str(WORKERS))
    ids = spark.range(1000).groupBy(F.expr(f"pmod(hash(id), {WORKERS})")).agg(F.min("id"))
    slots = F.explode(F.array(*[F.lit(row[1]).cast("long") for row in ids.collect()]))
    bare = (
        source.select(slots.alias("slot"), "qty")
        .groupBy("slot")
        .transformWithStateInPandas(Count(), "slot long, n long", "Update", "None")
    )
    return {
        "native": native(bare, folder, 4, "update"),
        "evenflow": ours(
            spark, folder, 4, lambda f: f.query("q", "SELECT ts, qty FROM trades", key="symbol")
        ),
    }


def join(spark: SparkSession, folder: Path, scale: float) -> dict[str, Any]:
    """Self-join within 20 s, Zipf 0.85 over 10,000 keys, 1,000 rows a second of event time.

    Native Spark reads 20,000 rows a batch, Evenflow five times as many: each near its best size.
    """
    rng, rows = np.random.default_rng(1), int(20_000 * scale)
    span = 20 * SECOND
    batches = [
        trades(rng, BEGIN + at * span, span, zipf(rng, 0.85, 10_000, rows)) for at in range(20)
    ]
    write(folder / "in", batches)
    write(folder / "few", batches[:3])
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    source = reading(spark, folder / "few").withWatermark("ts", "0 seconds")
    left, right = source.alias("a"), reading(spark, folder / "few").withWatermark("ts", "0 seconds")
    pairs = left.join(
        right.alias("b"),
        F.expr("""a.symbol = b.symbol AND b.ts >= a.ts
                  AND b.ts <= a.ts + INTERVAL 20 SECONDS"""),
    ).select("a.symbol", "a.ts", F.col("b.ts").alias("t2"), "a.price")
    sql = """SELECT a.symbol, a.ts, b.ts AS t2, a.price FROM trades a JOIN trades b
        ON a.symbol = b.symbol AND b.ts >= a.ts AND b.ts <= a.ts + INTERVAL 20 SECONDS"""
    return {
        "native": native(pairs, folder, 1, inputs=2),
        "evenflow": ours(spark, folder, 1, lambda f: f.query("q", sql, key="symbol"), files=5),
    }


def aggregate(spark: SparkSession, folder: Path, scale: float) -> dict[str, Any]:
    """Tumbling count and sum, 1,000,000 rows a batch, 10,000 keys."""
    rng, rows = np.random.default_rng(1), int(1_000_000 * scale)
    span = 10 * SECOND
    batches = [
        trades(rng, BEGIN + at * span, span, rng.integers(0, 10_000, rows)) for at in range(7)
    ]
    write(folder / "in", batches)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    source = reading(spark, folder / "in").withWatermark("ts", "0 seconds")
    sums = source.groupBy(F.window("ts", "10 seconds"), "symbol").agg(
        F.count("*").alias("n"), F.sum("qty").alias("q")
    )
    sql = """SELECT window.start AS s, symbol, count(*) AS n, sum(qty) AS q
        FROM trades GROUP BY window(ts, '10 seconds'), symbol"""
    return {
        "native": native(sums, folder, 2),
        "evenflow": ours(spark, folder, 2, lambda f: f.query("q", sql, key="symbol")),
    }


def templates(spark: SparkSession, folder: Path, scale: float) -> dict[str, Any]:
    """100,000 subscriptions of 20 templates over 100,000 events a batch."""
    rng, rows = np.random.default_rng(1), int(100_000 * scale)
    each = int(5_000 * scale)
    batches = [
        trades(rng, BEGIN + at * SECOND, SECOND, rng.integers(0, 10_000, rows)) for at in range(7)
    ]
    write(folder / "in", batches)
    wanted = pa.table(
        {
            "subscription": [f"n{at}" for at in range(each)],
            "symbol": np.char.add("s", rng.integers(0, 10_000, each).astype(str)),
            "limit": 80 + rng.random(each) * 20,
        }
    )
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    source = reading(spark, folder / "in")
    # Native: one join for all 20, told apart by a number, the parameters broadcast.
    parameters = F.broadcast(
        spark.createDataFrame(wanted)
        .crossJoin(spark.range(20).withColumnRenamed("id", "template"))
        .withColumnRenamed("symbol", "wanted")
    )
    hits = source.join(
        parameters,
        F.expr("symbol = wanted AND price > limit AND qty > template"),
    ).select("template", "subscription", "ts", "price")

    def declare(flow: evenflow.Flow) -> None:
        for at in range(20):
            sql = f"""SELECT ts, price FROM trades
                WHERE symbol = :symbol AND price > :limit AND qty > {at}"""
            flow.template(f"t{at}", sql)
            flow.subscribe(f"t{at}", wanted)

    return {"native": native(hits, folder, 2), "evenflow": ours(spark, folder, 2, declare)}


def buffered(spark: SparkSession, folder: Path, scale: float) -> dict[str, Any]:
    """Ten times more buffered rows, the same new rows, no extra matches: against itself."""
    sql = """SELECT a.ts, b.ts AS t2 FROM trades a JOIN trades b ON a.symbol = b.symbol
        AND a.qty = b.qty + 1000 AND b.ts >= a.ts AND b.ts <= a.ts + INTERVAL {} SECONDS"""
    rng, rows = np.random.default_rng(1), int(20_000 * scale)
    batches = [
        trades(rng, BEGIN + at * SECOND, SECOND, zipf(rng, 0.85, 10_000, rows)) for at in range(60)
    ]
    write(folder / "in", batches)
    found = {}
    for name, seconds in (("short", 5), ("long", 50)):
        (folder / name).mkdir()
        (folder / name / "in").symlink_to(folder / "in")
        query = partial(_declare, sql=sql.format(seconds))
        found[name] = ours(spark, folder / name, 52, query)
    return {"native": found["short"], "evenflow": found["long"]}


def _declare(flow: evenflow.Flow, sql: str) -> None:
    flow.query("q", sql, key="symbol")


ROWS = {f.__name__: f for f in (empty, join, aggregate, templates, buffered)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", default=list(ROWS), help="which rows of the table")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows")
    options = parser.parse_args()
    spark = session()
    results = {}
    for name in options.rows:
        folder = Path(tempfile.mkdtemp(prefix="evenflow-bench-"))
        try:
            found = ROWS[name](spark, folder, options.scale)
            found["what"] = (ROWS[name].__doc__ or "").strip()
            found["speed_ratio"] = round(
                found["evenflow"]["rows_per_second"] / found["native"]["rows_per_second"], 2
            )
            results[name] = found
            print(json.dumps({name: found}), file=sys.stderr, flush=True)
        finally:
            shutil.rmtree(folder)
    print(json.dumps(results, indent=2))
    spark.stop()


if __name__ == "__main__":
    main()
