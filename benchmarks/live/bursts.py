"""Whole queries that burst in and out of phase: balanced against placements that stay."""

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.harness import Rows, tell
from benchmarks.live.flow_runs import WORKERS, play
from benchmarks.runtime.sides import session, write
from benchmarks.workloads import BEGIN, SECOND, folder, trades
from evenflow import Balancing, Flow
from evenflow.model import LoadSeries
from evenflow.model.traffic import total_shipped_bytes
from evenflow.planning import operators


def bursts() -> Rows:
    """Ten streams, half of them bursting when the others rest; four queries over each.

    A query costs the same in the mean whichever burst it is in. At rest a stream has a fifth of
    its rows, or none.
    """
    spark, found = session(master="local[8,4]"), []
    for rest in (100, 0):
        with folder() as where:
            found += _burst(spark, where, rest)
    spark.stop()
    return found


def _burst(spark: SparkSession, where: Path, rest: int) -> Rows:
    streams, each, batches, period, cost, skip, burst = 10, 4, 36, 6, 4e-4, 18, 500
    rng = np.random.default_rng(2)
    paths = [where / f"s{at}" for at in range(streams)]
    for at, path in enumerate(paths):
        late = (at % 2) * period // 2

        def made(batch: int, late: int = late) -> pa.Table:
            count = burst if (batch + late) % period < period // 2 else rest
            return trades(rng, BEGIN + batch * SECOND, SECOND, np.zeros(count, dtype=int))

        write(path, (made(batch) for batch in range(batches)))
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
    # Half of the 40 burst at a time: somebody has 3 of them, and 2 that rest, as there are 5 each.
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

        snapshots = play(
            spark, where / name, paths, declare, balancing=config, emulated_cost=cost
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
        tell(side)
    return list(sides.values())
