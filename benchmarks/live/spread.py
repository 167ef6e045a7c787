"""How even keyed load is: hash only against balanced, before and after other keys become hot."""

import statistics
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.balancing import COUNT, JOIN, folder
from benchmarks.common import Rows, tell
from benchmarks.live.playing import host, play, uneven, verdicts
from benchmarks.runtime import BEGIN, SECOND, trades, zipf
from benchmarks.streaming import session, write
from evenflow import Balancing
from evenflow.model import Snapshot

NEAR_JOIN = JOIN.replace("20 SECONDS", "20 MILLISECONDS")
BATCHES, SHIFT = 18, 9


def spread() -> Rows:
    """Hash only against balanced, before and after other keys become hot."""
    found = []
    for master, cases in (
        ("local[8,4]", [("rows", COUNT, 40_000, 10 * SECOND, 1e-4)]),
        (
            "local[2,4]",
            [
                ("count", COUNT, 100_000, 10 * SECOND, 0.0),
                ("near_join", NEAR_JOIN, 40_000, 40 * SECOND, 0.0),
                ("join", JOIN, 40_000, 40 * SECOND, 0.0),
            ],
        ),
    ):
        spark = session(master=master)
        for query, sql, rows, span, cost in cases:
            for skew in (0.85, 1.0):
                for keys in (10_000, 100_000):
                    with folder() as where:
                        write(where / "trades", _shifting(skew, keys, rows, span))
                        row = {"query": query, "skew": skew, "keys": keys}
                        row |= _spread(spark, where, sql, cost)
                    tell(row)
                    found.append(row)
        spark.stop()
    return found


def _shifting(skew: float, keys: int, rows: int, span: int) -> Iterator[pa.Table]:
    """Make batches whose hot keys are others from batch SHIFT on."""
    rng = np.random.default_rng(1)
    other = rng.permutation(keys)
    for at in range(BATCHES):
        hot = zipf(rng, skew, keys, rows)
        yield trades(rng, BEGIN + at * span, span, hot if at < SHIFT else other[hot])


def _spread(spark: SparkSession, where: Path, sql: str, cost: float) -> dict[str, Any]:
    """Run a query twice over the same batches; judge from the fourth after each detection on."""
    hashed, (even, decisions) = (
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
    bounds = verdicts(even, decisions)
    by_batch = [uneven([snapshot]) for snapshot in even]
    over = [found / bound for found, bound in zip(by_batch, bounds, strict=True)]
    row: dict[str, Any] = {}
    for phase, start, end in (("", 0, SHIFT), ("_after_shift", SHIFT, BATCHES)):
        settled = slice(end - 4 if start == 0 else start + 4, end)
        row |= {
            f"hash{phase}": uneven(hashed.snapshots[max(start, 3) : end]),
            f"balanced{phase}": uneven(even[settled]),
            f"heaviest_key{phase}": heaviest_key(even[settled]),
            f"over_bound{phase}": statistics.mean(over[settled]),
        }
    return row | {
        "by_batch": np.round(by_batch, 3).tolist(),
        "bounds": np.round(bounds, 3).tolist(),
        "reasons": [d.reason for d in decisions],
        "moves": [len(d.moves) for d in decisions],
    }


def heaviest_key(snapshots: Sequence[Snapshot]) -> float:
    """Give the load of the heaviest key over the mean load: no plan of whole keys is below it."""
    mean = float(np.sum([s.queries["q"].load.mean() for s in snapshots]))
    costs: dict[int, float] = {}
    for keys in (keys for s in snapshots if (keys := s.queries["q"].keys) is not None):
        for key, cost in zip(keys.hashes.tolist(), keys.cost.tolist(), strict=True):
            costs[key] = costs.get(key, 0.0) + cost
    return max(costs.values()) / mean
