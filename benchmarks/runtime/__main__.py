"""The runtime against native Spark, both in one run: `python -m benchmarks.runtime [row ...]`.

Rows: empty, join, aggregate, hot_aggregate, templates, buffered, and q5_1, q5_5, q5_20, q5_40:
TPC-H Q5 with that many minutes of event time per batch. Each side reads files in its own Spark
session; times are medians of what Spark reports, without the first batches. Prints JSON; compare
the ratios.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from benchmarks.harness import print_row
from benchmarks.runtime.sides import WORKERS, Side, session
from benchmarks.workloads import (
    BEGIN,
    COUNT,
    JOIN,
    SECOND,
    TRADES,
    add_query,
    temporary_folder,
    trades,
)
from evenflow import Flow, Run
from evenflow.datasets import tpch_q5
from evenflow.datasets.zipf import draw_zipf
from evenflow.research.live_runner import write_batches


class Count(StatefulProcessor):
    """Counts rows: a minimal stateful operator."""

    def init(self, handle: Any) -> None:
        self.value = handle.getValueState("n", "n long")

    def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Any:  # noqa: N802
        before = self.value.get()
        number = (before[0] if before else 0) + sum(len(part) for part in rows)
        self.value.update((number,))
        yield pd.DataFrame({"slot": [key[0]], "n": [number]})

    def close(self) -> None:
        """Nothing to release."""


def empty(side: Side) -> None:
    """A batch of ten rows, against a bare transformWithState pipeline."""
    rng, spark = np.random.default_rng(1), side.spark
    batches = [trades(rng, BEGIN + at * SECOND, SECOND, np.arange(10)) for at in range(20)]
    write_batches(side.folder / "trades", batches)

    def bare() -> DataFrame:
        spark.conf.set("spark.sql.shuffle.partitions", str(WORKERS))
        ids = spark.range(1000).groupBy(F.expr(f"pmod(hash(id), {WORKERS})")).agg(F.min("id"))
        slots = F.explode(F.array(*[F.lit(row[1]).cast("long") for row in ids.collect()]))
        numbered = side.stream("trades").select(slots.alias("slot"), "qty")
        return numbered.groupBy("slot").transformWithStateInPandas(
            Count(), "slot long, n long", "Update", "None"
        )

    side.native(bare, skip=6, mode="update")
    query = "SELECT ts, qty FROM trades"
    side.evenflow(lambda f: f.query("q", query, key="symbol"), TRADES, skip=6)


def join(side: Side) -> None:
    """Self-join within 20 s, Zipf 0.85 over 10,000 keys, 1,000 rows a second of event time.

    Native Spark reads 20,000 rows a batch, Evenflow five times as many: each near its best.
    """
    rng, rows = np.random.default_rng(1), int(20_000 * side.scale)
    span = 20 * SECOND
    count = 3 if side.name == "native" else 20
    batches = [
        trades(rng, BEGIN + at * span, span, draw_zipf(rng, 0.85, 10_000, rows))
        for at in range(count)
    ]
    write_batches(side.folder / "trades", batches)

    def pairs() -> DataFrame:
        left, right = (side.stream("trades").withWatermark("ts", "0 seconds") for _ in range(2))
        on = "a.symbol = b.symbol AND b.ts >= a.ts AND b.ts <= a.ts + INTERVAL 20 SECONDS"
        joined = left.alias("a").join(right.alias("b"), F.expr(on))
        return joined.select("a.symbol", "a.ts", F.col("b.ts").alias("t2"), "a.price")

    side.native(pairs, skip=1, inputs=2)
    declare = partial(add_query, sql=JOIN, key="symbol")
    side.evenflow(declare, TRADES, skip=1, files=5)


def aggregate(side: Side) -> None:
    """Tumbling count and sum, 1,000,000 rows a batch, 10,000 keys."""
    tumbling_count(side, hot_share=0.0)


def hot_aggregate(side: Side) -> None:
    """The same with one key that has 60 % of the rows."""
    tumbling_count(side, hot_share=0.6)


def tumbling_count(side: Side, hot_share: float) -> None:
    rng, rows = np.random.default_rng(1), int(1_000_000 * side.scale)
    span = 10 * SECOND
    batches = [
        trades(
            rng,
            BEGIN + at * span,
            span,
            np.where(rng.random(rows) < hot_share, 0, rng.integers(0, 10_000, rows)),
        )
        for at in range(30)
    ]
    write_batches(side.folder / "trades", batches)

    def sums() -> DataFrame:
        source = side.stream("trades").withWatermark("ts", "0 seconds")
        grouped = source.groupBy(F.window("ts", "10 seconds"), "symbol")
        return grouped.agg(F.count("*").alias("n"), F.sum("qty").alias("q"))

    def check(run: Run) -> None:
        """Compare all complete windows with Spark's batch SQL over the same rows."""
        side.spark.read.parquet(str(side.folder / "trades")).createOrReplaceTempView("trades")
        expected, found = side.spark.sql(COUNT), run.results("q")
        [(last,)] = found.agg(F.max("s")).collect()
        if expected.where(F.col("s") <= F.lit(last)).exceptAll(found).count():
            raise RuntimeError("the results differ from Spark's batch SQL")
        side.results["equals_batch_sql"] = found.count()

    side.native(sums, skip=15)
    side.evenflow(partial(add_query, sql=COUNT, key="symbol"), TRADES, skip=15, check=check)


def templates(side: Side) -> None:
    """100,000 subscriptions of 20 templates over 100,000 events a batch."""
    rng, rows = np.random.default_rng(1), int(100_000 * side.scale)
    each = int(5_000 * side.scale)
    batches = [
        trades(rng, BEGIN + at * SECOND, SECOND, rng.integers(0, 10_000, rows)) for at in range(50)
    ]
    write_batches(side.folder / "trades", batches)
    wanted = pa.table(
        {
            "subscription": [f"n{at}" for at in range(each)],
            "symbol": np.char.add("s", rng.integers(0, 10_000, each).astype(str)),
            "limit": 80 + rng.random(each) * 20,
        }
    )

    def hits() -> DataFrame:
        """One join for all 20 templates, which a number identifies; parameters are broadcast."""
        numbers = side.spark.range(20).withColumnRenamed("id", "template")
        parameters = side.spark.createDataFrame(wanted).crossJoin(numbers)
        on = F.expr("symbol = wanted AND price > limit AND qty > template")
        joined = side.stream("trades").join(
            F.broadcast(parameters.withColumnRenamed("symbol", "wanted")), on
        )
        return joined.select("template", "subscription", "ts", "price")

    def declare(flow: Flow) -> None:
        for at in range(20):
            sql = f"""SELECT ts, price FROM trades
                WHERE symbol = :symbol AND price > :limit AND qty > {at}"""
            flow.template(f"t{at}", sql)
            flow.subscribe(f"t{at}", wanted)

    side.native(hits, skip=25)
    side.evenflow(declare, TRADES, skip=25)


def buffered(side: Side) -> None:
    """Ten times the buffered rows, the same new rows, no extra matches: against itself."""
    sql = """SELECT a.ts, b.ts AS t2 FROM trades a JOIN trades b ON a.symbol = b.symbol
        AND a.qty = b.qty + 1000 AND b.ts >= a.ts AND b.ts <= a.ts + INTERVAL {} SECONDS"""
    rng, rows = np.random.default_rng(1), int(20_000 * side.scale)
    batches = [
        trades(rng, BEGIN + at * SECOND, SECOND, draw_zipf(rng, 0.85, 10_000, rows))
        for at in range(60)
    ]
    write_batches(side.folder / "trades", batches)
    for name, seconds in (("native", 5), ("evenflow", 50)):
        declare = partial(add_query, sql=sql.format(seconds), key="symbol")
        side.evenflow(declare, TRADES, skip=52, name=name)


HOURS = 8  # of event time in the streams of Q5, 750,000 rows each
# Minutes of event time per batch -> batches of each side; the last third is measured.
Q5_BATCHES = {1: (40, 40), 5: (30, 36), 20: (15, 24), 40: (9, 12)}


def q5(side: Side, minutes: int) -> None:
    """TPC-H Q5 over a window of 5 minutes that slides by one, foreign keys Zipf 0.8."""
    native, ours = Q5_BATCHES[minutes]
    batches = native if side.name == "native" else ours
    (side.folder / "tpch").mkdir()
    tpch_q5.generate_tables(side.folder / "tpch", HOURS * 0.1 * side.scale)
    tables = tpch_q5.read_tables(side.folder / "tpch")
    file_minutes = min(minutes, 5)  # Spark lists more than 32 files per batch in an extra job
    files = minutes // file_minutes
    streams = tpch_q5.skewed_streams(
        tables, np.random.default_rng(1), seconds=HOURS * tpch_q5.HOUR_SECONDS
    )
    for name, rows in streams.items():
        *parts, last = tpch_q5.cut_by_time(rows, file_minutes * 60)
        write_batches(side.folder / name, [*parts[: batches * files], last])
        side.spark.read.parquet(str(side.folder / name)).createOrReplaceTempView(name)
    for name in tpch_q5.TABLES:
        side.spark.createDataFrame(tables[name]).createOrReplaceTempView(name)

    def revenue() -> DataFrame:
        for name in tpch_q5.STREAMS:
            stream = side.stream(name, files).withWatermark("ts", "0 seconds")
            stream.createOrReplaceTempView(name)
        side.spark.sql(tpch_q5.JOIN_SQL).createOrReplaceTempView("joined")
        return side.spark.sql(tpch_q5.REVENUE_SQL.format(joined="joined"))

    def declare(flow: Flow) -> None:
        for name in tpch_q5.TABLES:
            flow.table(name, side.spark.table(name))
        flow.query("joined", tpch_q5.JOIN_SQL, key=tpch_q5.ORDER_KEY, publish=True)
        flow.query("revenue", tpch_q5.REVENUE_SQL.format(joined="joined"))

    def check(run: Run) -> None:
        """Compare all windows with Spark's batch SQL over the same rows."""
        side.spark.sql(tpch_q5.JOIN_SQL).createOrReplaceTempView("joined")
        expected = side.spark.sql(tpch_q5.REVENUE_SQL.format(joined="joined")).collect()
        windows = run.results("revenue").collect()
        if not expected or sorted(map(tuple, windows)) != sorted(map(tuple, expected)):
            raise RuntimeError(f"{len(windows)} rows differ from Spark's {len(expected)}")
        side.results["equals_batch_sql"] = len(expected)

    skip = batches * 2 // 3
    side.native(revenue, skip=skip)
    sources = dict.fromkeys(tpch_q5.STREAMS, "ts")
    side.evenflow(declare, sources, skip=skip, files=files, check=check)


ROWS: dict[str, Callable[[Side], None]] = {
    row.__name__: row for row in (empty, join, aggregate, hot_aggregate, templates, buffered)
}
ROWS |= {f"q5_{minutes}": partial(q5, minutes=minutes) for minutes in Q5_BATCHES}


SIDES = ("native", "kept", "evenflow")
KEPT_ROWS = (
    "aggregate",
    "hot_aggregate",
    "templates",
)  # also compared with native Spark that writes results


def measure_side(row: str, side: str, scale: float) -> dict[str, Any]:
    """Measure one side of a row in a subprocess."""
    command = [sys.executable, "-m", "benchmarks.runtime", row, "--side", side]
    command += ["--scale", str(scale)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    results: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return results


def run_side(row: str, name: str, scale: float) -> dict[str, Any]:
    """Measure one side of a row in this process."""
    with temporary_folder() as folder:
        spark = session()
        try:
            side = Side(spark, folder, name, scale)
            ROWS[row](side)
            return side.results
        finally:
            spark.stop()


def _median_run(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the run of median speed."""
    return sorted(runs, key=_speed)[len(runs) // 2]


def _speed(run: dict[str, Any]) -> float:
    return float(run["rows_per_second"])


def _ratio(ours: dict[str, Any], other: dict[str, Any], measure: str) -> float:
    """Compare rows per second, or CPU time per row."""
    if measure == "speed":
        return float(round(ours["rows_per_second"] / other["rows_per_second"], 2))
    our_cpu, other_cpu = (
        side["cpu_ms_per_batch"] / side["rows_per_batch"] for side in (ours, other)
    )
    return float(round(our_cpu / other_cpu, 3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", default=list(ROWS), help="which rows of the table")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows")
    parser.add_argument("--repeat", type=int, default=1, help="sides in turn; the median counts")
    parser.add_argument("--side", choices=SIDES, help="only this, here")
    options = parser.parse_args()
    if options.side:
        print(json.dumps(run_side(options.rows[0], options.side, options.scale)))
        return
    results: dict[str, dict[str, Any]] = {}
    for row in options.rows:
        names = [name for name in SIDES if name != "kept" or row in KEPT_ROWS]
        turns = [
            {name: measure_side(row, name, options.scale) for name in names}
            for _ in range(options.repeat)
        ]
        sides = {name: _median_run([turn[name] for turn in turns]) for name in names}
        ratios = {
            f"{measure}_{name}": _ratio(sides["evenflow"], sides[name], measure)
            for name in names[:-1]
            for measure in ("speed", "cpu")
        }
        each = [_ratio(turn["evenflow"], turn["native"], "speed") for turn in turns]
        print_row({"row": row, **ratios})
        doc = q5.__doc__ if row.startswith("q5_") else ROWS[row].__doc__
        results[row] = {"what": (doc or "").strip(), **ratios, "each_speed": each, **sides}
    sizes = [result for row, result in results.items() if row.startswith("q5_")]
    if len(sizes) > 1:
        best = {name: max((size[name] for size in sizes), key=_speed) for name in SIDES[::2]}
        ratio = _ratio(best["evenflow"], best["native"], "speed")
        results["q5"] = {"what": "each at its best", "speed_native": ratio, **best}
        print_row({"row": "q5, each at its best", "speed_native": ratio})
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
