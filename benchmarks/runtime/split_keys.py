"""A key with half of the rows, whole and split: `python -m benchmarks.runtime.split_keys`.

The runtime's router, workers and committer in one process, without Spark, so that CPU seconds can
be counted on a busy machine. Turns A B B A; medians of batches after the split is in force.

busiest    CPU seconds of the busiest of the workers per batch, whole and split
gain       the first over the second: how much sooner a batch ends if every worker has a core
total      CPU seconds of all workers, split over whole: what the copies cost
rows       results, the same on both sides
"""

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from tests.support.local_runtime import Local

from benchmarks.harness import Rows, print_row, run_parts
from benchmarks.workloads import BEGIN, JOIN, SECOND, trades
from evenflow.model import KeySplit, Plan, RoutingTable, hash_keys
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.registry import StreamSpec

BATCHES, SKIP, SPAN_US = 5, 3, 60 * SECOND
HOT = int(hash_keys(pa.array(["s0"]))[0])
CLOSE = " AND abs(a.price - b.price) < 0.001"
TWO_STREAMS = JOIN.replace("trades b", "orders b") + CLOSE
MET = f"""SELECT window.start AS s, symbol, count(*) AS n FROM ({JOIN + CLOSE})
    GROUP BY window(ts, '10 seconds'), symbol"""
ALARMS = "SELECT ts, symbol FROM trades WHERE symbol = :symbol AND price > :least AND price < :most"


@dataclass(frozen=True)
class Case:
    """A query, how many rows its streams have per batch, and which part of them is hot."""

    name: str
    sql: str
    rows: Mapping[str, int]
    hot: Mapping[str, float]
    subscriptions: int = 0


CASES = (
    Case("self_join", JOIN + CLOSE, {"trades": 16_000}, {"trades": 0.5}),
    Case(
        "two_streams",
        TWO_STREAMS,
        {"trades": 40_000, "orders": 20_000},
        {"trades": 0.5, "orders": 0.1},
    ),
    Case("join_aggregate", MET, {"trades": 16_000}, {"trades": 0.5}),
    Case("template", ALARMS, {"trades": 20_000}, {"trades": 0.5}, subscriptions=1_000),
)


def split_keys() -> Rows:
    """Compare every case on two and on four workers."""
    return [_compare(case, workers) for case in CASES for workers in (2, 4)]


def _compare(case: Case, workers: int) -> dict[str, Any]:
    sides: dict[str, list[np.ndarray]] = {"whole": [], "split": []}
    results = []
    for side in ("whole", "split", "split", "whole"):
        seconds, found = _play(case, workers, split=side == "split")
        sides[side].append(seconds)
        results.append(found)
    if any(found != results[0] for found in results):
        raise RuntimeError(f"the results of {case.name} differ")
    measured = {side: np.concatenate(runs) for side, runs in sides.items()}
    busiest = {side: float(np.median(found.max(axis=1))) for side, found in measured.items()}
    total = {side: float(np.median(found.sum(axis=1))) for side, found in measured.items()}
    row = {
        "case": case.name,
        "workers": workers,
        "busiest": busiest,
        "gain": busiest["whole"] / busiest["split"],
        "total": total["split"] / total["whole"],
        "rows": sum(results[0].values()),
    }
    print_row(row)
    return row


def _play(case: Case, workers: int, *, split: bool) -> tuple[np.ndarray, Any]:
    """Return the CPU seconds of (batch, worker), and the results."""
    form = "template" if case.subscriptions else "query"
    with tempfile.TemporaryDirectory() as folder:
        batches = list(_batches(case))
        streams = {name: StreamSpec(rows.schema, "ts", 0) for name, rows in batches[0].items()}
        local = Local(
            folder, streams, [Submission(form, "q", case.sql, ("symbol",))], workers=workers
        )
        if case.subscriptions:
            least = np.random.default_rng(2).random(case.subscriptions) * 100
            local.subscribe("q", [
                {"subscription": f"{at}", "symbol": "s0", "least": low, "most": low + 0.01}
                for at, low in enumerate(least.tolist())
            ])  # fmt: skip
        if split:
            shared = RoutingTable().with_splits([KeySplit(HOT, tuple(range(workers)), "trades")])
            local.committer.commands.request_plan(Plan(workers, {}, {"q": shared}))
        seconds = np.zeros((BATCHES, workers))
        for at, rows in enumerate(batches):
            for report in local.batch(rows):
                stats = report.query_stats.values()
                seconds[at, report.worker] = sum(one.cpu_seconds for one in stats)
        return seconds[SKIP:], local.results("q")


def _batches(case: Case) -> Iterator[dict[str, pa.Table]]:
    rng = np.random.default_rng(4)
    for at in range(BATCHES):
        yield {
            stream: trades(
                rng,
                BEGIN + at * SPAN_US,
                SPAN_US,
                np.where(rng.random(count) < case.hot[stream], 0, rng.integers(1, 10_001, count)),
            )
            for stream, count in case.rows.items()
        }


if __name__ == "__main__":
    run_parts({"split_keys": split_keys})
