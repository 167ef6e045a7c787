"""How even keyed load is: hash only against balanced, before and after other keys become hot.

rows_equal        rows of both runs, each the same as of Spark's batch SQL over the same files
over_bound        mean of the last batches: largest over mean load, over 1.08 or the verdict's bound
plans, detected   borders with a plan; batches until the first, from the start or from the shift on
worst_over_bound  of single batches, from the third after that plan on; null if there is none
..._of_batch      what moves cost in shares of the median batch
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.harness import Rows, tell
from benchmarks.live.batch_answers import Check, same_pairs, same_windows
from benchmarks.live.flow_runs import Played, host, play, uneven, verdicts
from benchmarks.runtime.sides import session, write
from benchmarks.workloads import BEGIN, COUNT, JOIN, SECOND, folder, trades, zipf
from evenflow import Balancing
from evenflow.model import Snapshot

NEAR_JOIN = JOIN.replace("20 SECONDS", "20 MILLISECONDS")
BATCHES, SHIFT = 18, 9
Answer = Callable[[SparkSession, Path, str], Check]


def spread() -> Rows:
    """Hash only against balanced, before and after other keys become hot."""
    found = []
    for master, cases in (
        ("local[8,4]", [("rows", COUNT, 40_000, 10 * SECOND, 1e-4, same_windows)]),
        (
            "local[2,4]",
            [
                ("count", COUNT, 100_000, 10 * SECOND, 0.0, same_windows),
                ("near_join", NEAR_JOIN, 40_000, 40 * SECOND, 0.0, _within(SECOND // 50)),
                ("join", JOIN, 40_000, 40 * SECOND, 0.0, _within(20 * SECOND)),
            ],
        ),
    ):
        spark = session(master=master)
        for query, sql, rows, span, cost, answer in cases:
            for skew in (0.85, 1.0):
                for keys in (10_000, 100_000):
                    with folder() as where:
                        write(where / "trades", _shifting(skew, keys, rows, span))
                        row = {"query": query, "skew": skew, "keys": keys}
                        row |= _spread(spark, where, sql, cost, answer)
                    tell(row)
                    found.append(row)
        spark.stop()
    return found


def _within(reach_us: int) -> Answer:
    return partial(same_pairs, reach_us=reach_us)


def _shifting(skew: float, keys: int, rows: int, span: int) -> Iterator[pa.Table]:
    """Make batches whose hot keys are others from batch SHIFT on."""
    rng = np.random.default_rng(1)
    other = rng.permutation(keys)
    for at in range(BATCHES):
        hot = zipf(rng, skew, keys, rows)
        yield trades(rng, BEGIN + at * span, span, hot if at < SHIFT else other[hot])


def _spread(
    spark: SparkSession, where: Path, sql: str, cost: float, answer: Answer
) -> dict[str, Any]:
    """Run a query twice over the same batches; both must give what Spark's batch SQL gives."""
    hashed, even = (
        play(
            spark,
            where / name,
            [where / "trades"],
            partial(host, sql=sql, key="symbol"),
            balancing=config,
            emulated_cost=cost,
        )
        for name, config in (("hash", Balancing.off()), ("even", Balancing()))
    )
    check = answer(spark, where / "trades", sql)
    row: dict[str, Any] = {"rows_equal": [check(played.run) for played in (hashed, even)]}
    bounds, decisions = verdicts(even), even.run.decisions
    by_batch = [uneven([snapshot]) for snapshot in even.snapshots]
    over = [found / bound for found, bound in zip(by_batch, bounds, strict=True)]
    planned = {d.batch for d in decisions if d.plan is not None}
    plans = [at for at, snapshot in enumerate(even.snapshots) if snapshot.batch in planned]
    for phase, start, end in (("", 0, SHIFT), ("_after_shift", SHIFT, BATCHES)):
        settled = slice(end - 4 if start == 0 else start + 4, end)
        made = [at for at in plans if start <= at < end]
        # The batch after a plan hands state over, the second goes by it; the third is judged.
        judged = slice(made[0] + 3, end) if made else settled
        row |= {
            f"hash{phase}": uneven(hashed.snapshots[max(start, 3) : end]),
            f"balanced{phase}": uneven(even.snapshots[settled]),
            f"heaviest_key{phase}": heaviest_key(even.snapshots[settled]),
            f"over_bound{phase}": statistics.mean(over[settled]),
            f"plans{phase}": len(made),
            f"detected{phase}": made[0] - start + 1 if made else None,
            f"worst_over_bound{phase}": max(over[judged], default=None),
        }
    return row | {
        **moving(even),
        "by_batch": np.round(by_batch, 3).tolist(),
        "bounds": np.round(bounds, 3).tolist(),
        "reasons": [d.reason for d in decisions],
        "moves": [len(d.moves) for d in decisions],
    }


def moving(played: Played) -> dict[str, Any]:
    """Tell what moves cost, also as shares of the median batch; nothing, where nothing moved."""
    batch, outcomes = (
        statistics.median(s.interval_seconds for s in played.snapshots),
        played.run.outcomes,
    )
    row = {"batch_seconds": batch, "handed_bytes": sum(o.handed_bytes for o in outcomes)}
    for what, seconds in (
        ("pause", [o.pause_seconds for o in outcomes]),
        ("duration", [o.duration_seconds for o in outcomes if o.duration_seconds is not None]),
    ):
        median, most = statistics.median(seconds or [0.0]), max(seconds, default=0.0)
        row |= {f"{what}_seconds_median": median, f"{what}_seconds_max": most}
        row |= {f"{what}_of_batch_median": median / batch, f"{what}_of_batch_max": most / batch}
    return row


def heaviest_key(snapshots: Sequence[Snapshot]) -> float:
    """Give the load of the heaviest key over the mean load: no plan of whole keys is below it."""
    mean = float(np.sum([s.queries["q"].load.mean() for s in snapshots]))
    costs: dict[int, float] = {}
    for keys in (keys for s in snapshots if (keys := s.queries["q"].keys) is not None):
        for key, cost in zip(keys.hashes.tolist(), keys.cost.tolist(), strict=True):
            costs[key] = costs.get(key, 0.0) + cost
    return max(costs.values()) / mean
