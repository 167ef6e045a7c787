"""Balance of keyed load: hash only against balanced, before and after other keys become hot.

rows_equal        rows of both runs; each equals Spark's batch SQL over the same files
over_bound        largest over mean load over its bound (1.08, or that of the verdict): mean of the
                  last batches
plans, detected   number of plans; batches from the start or the shift until the first
worst_over_bound  maximum over single batches from the third after that plan; null without one
..._of_batch      cost of moves as share of the median batch
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.harness import Rows, print_row
from benchmarks.live.batch_check import Check, pair_check, window_check
from benchmarks.live.flow_runs import (
    FlowRun,
    query_imbalance,
    reachable_bounds,
    run_flow,
)
from benchmarks.runtime.sides import session
from benchmarks.workloads import BEGIN, COUNT, JOIN, SECOND, add_query, temporary_folder, trades
from evenflow import Balancing
from evenflow.datasets.zipf import draw_zipf
from evenflow.model import Snapshot
from evenflow.research.live_runner import write_batches

NEAR_JOIN = JOIN.replace("20 SECONDS", "20 MILLISECONDS")
BATCHES, SHIFT = 18, 9
CheckFactory = Callable[[SparkSession, Path, str], Check]


def spread() -> Rows:
    """Hash only against balanced, before and after other keys become hot."""
    results = []
    for master, cases in (
        ("local[8,4]", [("rows", COUNT, 40_000, 10 * SECOND, 1e-4, window_check)]),
        (
            "local[2,4]",
            [
                ("count", COUNT, 100_000, 10 * SECOND, 0.0, window_check),
                ("near_join", NEAR_JOIN, 40_000, 40 * SECOND, 0.0, _within(SECOND // 50)),
                ("join", JOIN, 40_000, 40 * SECOND, 0.0, _within(20 * SECOND)),
            ],
        ),
    ):
        spark = session(master=master)
        for query, sql, rows, span, cost, make_check in cases:
            for skew in (0.85, 1.0):
                for keys in (10_000, 100_000):
                    with temporary_folder() as folder:
                        write_batches(folder / "trades", _shifting_batches(skew, keys, rows, span))
                        row = {"query": query, "skew": skew, "keys": keys}
                        row |= _compare(spark, folder, sql, cost, make_check)
                    print_row(row)
                    results.append(row)
        spark.stop()
    return results


def _within(reach_us: int) -> CheckFactory:
    return partial(pair_check, reach_us=reach_us)


def _shifting_batches(skew: float, keys: int, rows: int, span: int) -> Iterator[pa.Table]:
    """Yield batches; from batch SHIFT on other keys are hot."""
    rng = np.random.default_rng(1)
    other = rng.permutation(keys)
    for at in range(BATCHES):
        ranks = draw_zipf(rng, skew, keys, rows)
        yield trades(rng, BEGIN + at * span, span, ranks if at < SHIFT else other[ranks])


def _compare(
    spark: SparkSession, folder: Path, sql: str, cost: float, make_check: CheckFactory
) -> dict[str, Any]:
    """Run a query with hash only and balanced; both must equal Spark's batch SQL."""
    hashed, even = (
        run_flow(
            spark,
            folder / name,
            [folder / "trades"],
            partial(add_query, sql=sql, key="symbol"),
            balancing=config,
            emulated_cost=cost,
        )
        for name, config in (("hash", Balancing.off()), ("even", Balancing()))
    )
    check = make_check(spark, folder / "trades", sql)
    row: dict[str, Any] = {"rows_equal": [check(flow_run.run) for flow_run in (hashed, even)]}
    bounds, decisions = reachable_bounds(even), even.run.decisions
    by_batch = [query_imbalance([snapshot]) for snapshot in even.snapshots]
    over = [imbalance / bound for imbalance, bound in zip(by_batch, bounds, strict=True)]
    planned = {d.batch for d in decisions if d.plan is not None}
    plans = [at for at, snapshot in enumerate(even.snapshots) if snapshot.batch in planned]
    for phase, start, end in (("", 0, SHIFT), ("_after_shift", SHIFT, BATCHES)):
        settled = slice(end - 4 if start == 0 else start + 4, end)
        phase_plans = [at for at in plans if start <= at < end]
        # The batch after a plan transfers state, the second uses the plan, the third is judged.
        judged = slice(phase_plans[0] + 3, end) if phase_plans else settled
        row |= {
            f"hash{phase}": query_imbalance(hashed.snapshots[max(start, 3) : end]),
            f"balanced{phase}": query_imbalance(even.snapshots[settled]),
            f"heaviest_key{phase}": heaviest_key(even.snapshots[settled]),
            f"over_bound{phase}": statistics.mean(over[settled]),
            f"plans{phase}": len(phase_plans),
            f"detected{phase}": phase_plans[0] - start + 1 if phase_plans else None,
            f"worst_over_bound{phase}": max(over[judged], default=None),
        }
    return row | {
        **move_costs(even),
        "by_batch": np.round(by_batch, 3).tolist(),
        "bounds": np.round(bounds, 3).tolist(),
        "reasons": [d.reason for d in decisions],
        "moves": [len(d.moves) for d in decisions],
    }


def move_costs(flow_run: FlowRun) -> dict[str, Any]:
    """Return the cost of moves, also as share of the median batch; 0 without moves."""
    batch, outcomes = (
        statistics.median(s.interval_seconds for s in flow_run.snapshots),
        flow_run.run.outcomes,
    )
    row = {"batch_seconds": batch, "handed_bytes": sum(o.handed_bytes for o in outcomes)}
    for measure, seconds in (
        ("pause", [o.pause_seconds for o in outcomes]),
        ("duration", [o.duration_seconds for o in outcomes if o.duration_seconds is not None]),
    ):
        median, most = statistics.median(seconds or [0.0]), max(seconds, default=0.0)
        row |= {f"{measure}_seconds_median": median, f"{measure}_seconds_max": most}
        row |= {
            f"{measure}_of_batch_median": median / batch,
            f"{measure}_of_batch_max": most / batch,
        }
    return row


def heaviest_key(snapshots: Sequence[Snapshot]) -> float:
    """Return the load of the heaviest key over the mean load: a lower bound of every plan."""
    mean = float(np.sum([s.queries["q"].load.mean() for s in snapshots]))
    costs: dict[int, float] = {}
    for keys in (keys for s in snapshots if (keys := s.queries["q"].keys) is not None):
        for key, cost in zip(keys.hashes.tolist(), keys.cost.tolist(), strict=True):
            costs[key] = costs.get(key, 0.0) + cost
    return max(costs.values()) / mean
