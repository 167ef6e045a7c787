"""Throughput of a CPU-bound query with as many workers as cores: balanced and hash only."""

import statistics
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Rows, print_row
from benchmarks.live.flow_runs import (
    GAIN,
    FlowRun,
    query_imbalance,
    reachable_bounds,
    run_flow,
)
from benchmarks.runtime.sides import session
from benchmarks.workloads import BEGIN, JOIN, SECOND, add_query, temporary_folder, trades
from evenflow import Balancing
from evenflow.datasets.zipf import draw_zipf
from evenflow.research.live_runner import write_batches

CLOSE_JOIN = JOIN + " AND abs(a.price - b.price) < 0.001"


def cpu() -> Rows:
    """A self-join that keeps two workers on two cores busy; alternating runs in one session.

    Few pairs match, so that writing results does not dominate.
    """
    spark, batches, skip, turns = session(), 12, 6, 3
    span, results = 60 * SECOND, []
    for skew, rows in ((0.85, 200_000), (1.0, 150_000)):
        rng = np.random.default_rng(4)
        with temporary_folder() as folder:
            write_batches(
                folder / "trades",
                (
                    trades(rng, BEGIN + at * span, span, draw_zipf(rng, skew, 10_000, rows))
                    for at in range(batches)
                ),
            )
            sides: dict[str, list[FlowRun]] = {"hash": [], "balanced": []}
            for turn in range(turns):
                for name, config in (("hash", Balancing.off()), ("balanced", Balancing())):
                    sides[name].append(
                        run_flow(
                            spark,
                            folder / f"{name}{turn}",
                            [folder / "trades"],
                            partial(add_query, sql=CLOSE_JOIN, key="symbol"),
                            workers=2,
                            balancing=config,
                        )
                    )
        row: dict[str, Any] = {"skew": skew, "rows_per_batch": rows}
        for name, runs in sides.items():
            batch_seconds = [
                statistics.median(s.interval_seconds for s in p.snapshots[skip:]) for p in runs
            ]
            row[f"{name}_turns"] = [rows / seconds for seconds in batch_seconds]
            row[name] = statistics.median(row[f"{name}_turns"])
            row[f"{name}_uneven"] = statistics.median(
                query_imbalance(p.snapshots[skip:]) for p in runs
            )
        row["bound"] = statistics.median(
            reachable_bounds(flow_run)[-1] for flow_run in sides["balanced"]
        )
        # Ratios of neighbouring runs, as the speed of the machine varies.
        turn_pairs = zip(row["balanced_turns"], row["hash_turns"], strict=True)
        row["gain"] = statistics.median(even / hashed for even, hashed in turn_pairs)
        row["gain_of_uneven"] = row["gain"] / row["hash_uneven"]
        row["goal_gain"] = row["gain_of_uneven"] >= GAIN
        print_row(row)
        results.append(row)
    spark.stop()
    return results
