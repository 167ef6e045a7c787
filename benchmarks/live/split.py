"""A key with half of the rows: a CPU-bound self-join on two cores, hash only and split.

seconds        median seconds of a batch, runs in turns A B B A; `..._turns` lists the runs
cpu_seconds    CPU seconds of the workers per batch: what the copies of the split cost
gain           seconds of hash only over those of split; median over neighbouring runs
rows_equal     each run has as many rows as Spark's batch SQL over the same files, or not
"""

import statistics
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.harness import Rows, print_row
from benchmarks.live.batch_check import pair_check
from benchmarks.live.cpu import CLOSE_JOIN
from benchmarks.live.flow_runs import FlowRun, query_imbalance, run_flow
from benchmarks.runtime.sides import session
from benchmarks.workloads import BEGIN, SECOND, add_query, temporary_folder, trades
from evenflow import Balancing
from evenflow.model import KeySplit, Plan, RoutingTable, hash_keys
from evenflow.research.live_runner import write_batches
from evenflow.spark.driver.completed_batch import CompletedBatch

GAIN, BATCHES, SKIP = 1.5, 10, 4
HOT = "s0"


def split() -> Rows:
    """Hash only against a split decided after the first batch, two workers on two cores."""
    spark, span, results = session(), 60 * SECOND, []
    for rows in (30_000,):
        rng = np.random.default_rng(4)
        with temporary_folder() as folder:
            write_batches(
                folder / "trades",
                (
                    trades(rng, BEGIN + at * span, span, _symbols(rng, rows))
                    for at in range(BATCHES)
                ),
            )
            check = pair_check(spark, folder / "trades", CLOSE_JOIN, reach_us=20 * SECOND)
            sides: dict[str, list[FlowRun]] = {"hash": [], "split": []}
            for turn, name in enumerate(("hash", "split", "split", "hash")):
                flow_run = run_flow(
                    spark,
                    folder / f"{name}{turn}",
                    [folder / "trades"],
                    partial(add_query, sql=CLOSE_JOIN, key="symbol"),
                    workers=2,
                    balancing=Balancing.off(),
                    controller=_split_once if name == "split" else None,
                )
                sides[name].append(flow_run)
            row: dict[str, Any] = {"rows_per_batch": rows}
            row["rows_equal"] = [check(r.run) for runs in sides.values() for r in runs]
        for name, runs in sides.items():
            turns = [
                statistics.median(s.interval_seconds for s in r.snapshots[SKIP:]) for r in runs
            ]
            row[f"{name}_turns"], row[f"{name}_seconds"] = turns, statistics.median(turns)
            row[f"{name}_cpu_seconds"] = statistics.median(
                float(s.worker_cpu_seconds.sum()) for r in runs for s in r.snapshots[SKIP:]
            )
            row[f"{name}_uneven"] = statistics.median(
                query_imbalance(r.snapshots[SKIP:]) for r in runs
            )
        pairs = zip(row["hash_turns"], row["split_turns"], strict=True)
        row["gain"] = statistics.median(hashed / shared for hashed, shared in pairs)
        row["goal_gain"] = row["gain"] >= GAIN
        print_row(row)
        results.append(row)
    spark.stop()
    return results


def _symbols(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Give every second row to one key, and the others to 10,000 keys."""
    symbols: np.ndarray = np.where(np.arange(rows) % 2, 0, rng.integers(1, 10_001, rows))
    return symbols


def _split_once(batch: CompletedBatch) -> Plan | None:
    """Split the hot key over all workers after the first batch."""
    if batch.number > 0:
        return None
    key = int(hash_keys(pa.array([HOT]))[0])
    owners = tuple(range(batch.plan.workers))
    table = RoutingTable().with_splits([KeySplit(key, owners, "trades")])
    return Plan(batch.plan.workers, {}, {"q": table})
