"""Continuous TPC-H Q5 over skewed foreign keys: hash only and balanced, in turns A B B A.

8 workers, rows of the join cost 1.5 ms each (emulated). Other orders become hot every 15 batches.

rows_per_second  median over the batches with line items; `gain` is balanced over hash only
uneven           largest over mean load of the join's workers: median, and the part of batches
                 within 1.1, from the fifth batch after each change of the hot orders on
windows          results, equal to Spark's batch SQL
"""

import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.harness import Rows, print_row
from benchmarks.live.flow_runs import FlowRun, run_flow
from benchmarks.runtime.sides import session
from benchmarks.workloads import temporary_folder
from evenflow import Balancing, Flow
from evenflow.datasets import tpch_q5
from evenflow.research.live_runner import write_batches

SCALE, BATCH_SECONDS, COST = 0.1, 10, 1.5e-3
HOT_BATCHES = tpch_q5.WINDOW_SECONDS // 2 // BATCH_SECONDS  # hot orders change after so many
BATCHES, ANSWERED = 3 * HOT_BATCHES, 4
REVENUE = tpch_q5.REVENUE_SQL.format(joined="joined")


def q5() -> Rows:
    """Hash only against the default balancing."""
    spark, results = session(master="local[8,4]"), []
    with temporary_folder() as folder:
        tpch_q5.generate_tables(folder, SCALE)
        tables = tpch_q5.read_tables(folder)
    for name in tpch_q5.TABLES:
        spark.createDataFrame(tables[name]).createOrReplaceTempView(name)
    for skew in (0.8, 1.2):
        with temporary_folder() as folder:
            row = {"skew": skew, **_compare(spark, folder, tables, skew)}
        print_row(row)
        results.append(row)
    spark.stop()
    return results


def _compare(
    spark: SparkSession, folder: Path, tables: dict[str, pa.Table], skew: float
) -> dict[str, Any]:
    streams = tpch_q5.skewed_streams(tables, np.random.default_rng(1), skew=skew)
    for name, rows in streams.items():
        *parts, last = tpch_q5.cut_by_time(rows, BATCH_SECONDS)
        write_batches(folder / name, [*parts[:BATCHES], last])
        spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)
    spark.sql(tpch_q5.JOIN_SQL).createOrReplaceTempView("joined")
    expected = sorted(map(tuple, spark.sql(REVENUE).collect()))
    sides: dict[str, list[FlowRun]] = {"hash": [], "balanced": []}
    for turn, name in enumerate(("hash", "balanced", "balanced", "hash")):
        made = run_flow(
            spark,
            folder / f"{name}{turn}",
            [folder / stream for stream in tpch_q5.STREAMS],
            lambda flow: _declare(spark, flow),
            balancing=Balancing() if name == "balanced" else Balancing.off(),
            emulated_cost=COST,
        )
        windows = sorted(map(tuple, made.run.results("revenue").collect()))
        if not expected or windows != expected:
            raise RuntimeError(f"{len(windows)} rows differ from Spark's {len(expected)}")
        sides[name].append(made)
    row: dict[str, Any] = {"windows": len(expected)}
    for name, runs in sides.items():
        speeds = [_rows_per_second(run) for run in runs]
        row[f"{name}_turns"] = [round(speed) for speed in speeds]
        row[f"{name}_rows_per_second"] = statistics.median(speeds)
        uneven = [value for run in runs for value in _uneven(run)]
        row[f"{name}_uneven"] = statistics.median(uneven)
        row[f"{name}_within"] = float(np.mean(np.array(uneven) <= 1.1))
    row["plans"] = [sum(d.plan is not None for d in r.run.decisions) for r in sides["balanced"]]
    row["gain"] = row["balanced_rows_per_second"] / row["hash_rows_per_second"]
    row["goal_gain"] = row["gain"] >= 1.3
    row["goal_even"] = row["balanced_uneven"] <= 1.1
    return row


def _declare(spark: SparkSession, flow: Flow) -> None:
    for name in tpch_q5.TABLES:
        flow.table(name, spark.table(name))
    flow.query("joined", tpch_q5.JOIN_SQL, key=tpch_q5.ORDER_KEY, publish=True)
    flow.query("revenue", REVENUE)


def _rows_per_second(made: FlowRun) -> float:
    """Return the rows of the join over the seconds of a batch, both medians."""
    kept = made.snapshots[HOT_BATCHES + ANSWERED : BATCHES]
    rows = statistics.median(int(s.queries["joined"].rows_in.sum()) for s in kept)
    return rows / statistics.median(s.interval_seconds for s in kept)


def _uneven(made: FlowRun) -> list[float]:
    """Return the imbalance of single batches, without those that follow a change of hot orders."""
    loads = [s.queries["joined"].load for s in made.snapshots[:BATCHES]]
    return [
        float(load.max() / load.mean())
        for batch, load in enumerate(loads)
        if batch >= HOT_BATCHES and batch % HOT_BATCHES >= ANSWERED
    ]
