"""Whole queries that burst in two phases: balanced against fixed placements."""

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.harness import Rows, print_row
from benchmarks.live.flow_runs import WORKERS, run_flow
from benchmarks.runtime.sides import session
from benchmarks.workloads import BEGIN, SECOND, temporary_folder, trades
from evenflow import Balancing, Flow
from evenflow.model import LoadSeries
from evenflow.model.traffic import total_shipped_bytes
from evenflow.planning import operators
from evenflow.research.live_runner import write_batches


def bursts() -> Rows:
    """Ten streams with four queries each; half of the streams burst while the others rest.

    All queries have the same mean cost. At rest a stream has a fifth of its rows, or none.
    """
    spark, rows = session(master="local[8,4]"), []
    for rest in (100, 0):
        with temporary_folder() as folder:
            rows += _run_burst(spark, folder, rest)
    spark.stop()
    return rows


def _run_burst(spark: SparkSession, folder: Path, rest: int) -> Rows:
    streams, each, batches, period, cost, skip, burst = 10, 4, 36, 6, 4e-4, 18, 500
    rng = np.random.default_rng(2)
    paths = [folder / f"s{at}" for at in range(streams)]
    for at, path in enumerate(paths):
        phase = (at % 2) * period // 2

        def batch_rows(batch: int, phase: int = phase) -> pa.Table:
            count = burst if (batch + phase) % period < period // 2 else rest
            return trades(rng, BEGIN + batch * SECOND, SECOND, np.zeros(count, dtype=int))

        write_batches(path, (batch_rows(batch) for batch in range(batches)))
    names = [f"q{at}" for at in range(streams * each)]
    order = rng.permutation(len(names))
    reads = {names[at]: paths[at // each].name for at in order}
    series = LoadSeries(tuple(reads), np.ones((len(names), 1)), np.ones(len(names), dtype=bool))
    largest = operators.plan_operators(
        "llf-glb",
        operators.OperatorSnapshot(series, WORKERS),
        operators.OperatorConfig(capacity=10.0),
        np.random.default_rng(0),
    ).placement
    fixed = dict(zip(reads, largest.tolist(), strict=True))
    connected = replace(Balancing.off(), queries="leastcost")
    # 20 of 40 queries burst at a time, 5 queries per worker: some worker has 3 that burst.
    least = cost * (3 * burst + 2 * rest)
    sides: dict[str, dict[str, Any]] = {}
    for name, config, placement in (
        ("largest load first", Balancing.off(), fixed),
        ("connected", connected, {}),
        ("balanced", Balancing(), {}),
    ):

        def declare(flow: Flow, placement: dict[str, int] = placement) -> None:
            for query, stream in reads.items():
                sql = f"SELECT ts, qty FROM {stream} WHERE qty > 90"
                flow.query(query, sql, worker=placement.get(query))

        snapshots = run_flow(
            spark, folder / name, paths, declare, balancing=config, emulated_cost=cost
        ).snapshots[skip:]
        sides[name] = {
            "rest": rest,
            "placement": name,
            "max_load": float(np.mean([s.worker_loads().max() for s in snapshots])),
            "least_max_load": least,
            "batch_seconds": statistics.median(s.interval_seconds for s in snapshots),
            "shipped_kb": np.mean([total_shipped_bytes(s) for s in snapshots]) / 1000,
        }
    for side in sides.values():
        side["balanced_max_over_this"] = sides["balanced"]["max_load"] / side["max_load"]
        side["least_over_this"] = least / side["max_load"]
        if side is not sides["balanced"]:
            side["goal"] = side["balanced_max_over_this"] <= 0.75
        print_row(side)
    return list(sides.values())
