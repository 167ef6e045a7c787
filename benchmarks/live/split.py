"""A key with half of the rows: CPU-bound queries on two cores, hash only and with splits.

Two workers on two cores, nothing emulated; the controller decides by itself. Turns A B B A.

seconds     median seconds of a batch after the plans; `..._turns` lists the runs
uneven      largest over mean load of the workers over those batches
gain        seconds of hash only over those of split; each pair of neighbouring runs, and the median
rows        results, equal on both sides; those of the self-join also compared with batch SQL
"""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Rows, print_row
from benchmarks.live.batch_check import pair_check
from benchmarks.live.cpu import CLOSE_JOIN
from benchmarks.live.flow_runs import FlowRun, query_imbalance, run_flow
from benchmarks.runtime.sides import session
from benchmarks.workloads import BEGIN, SECOND, temporary_folder, trades
from evenflow import Balancing, Flow
from evenflow.research.live_runner import write_batches

BATCHES, SKIP, SPAN = 14, 8, 60 * SECOND
TWO_STREAMS = CLOSE_JOIN.replace("trades b", "orders b")
ALARMS = "SELECT ts, symbol FROM trades WHERE symbol = :symbol AND price > :least AND price < :most"


@dataclass(frozen=True)
class HotCase:
    """A query, the rows of its streams per batch, and what it must reach."""

    name: str
    sql: str
    rows: Mapping[str, int]
    goal_gain: float
    subscriptions: int = 0

    def declare(self, flow: Flow) -> None:
        """Add the query to a flow."""
        if not self.subscriptions:
            flow.query("q", self.sql, key="symbol")
            return
        flow.template("q", self.sql, key="symbol")
        least = np.random.default_rng(2).random(self.subscriptions) * 100
        flow.subscribe("q", [
            {"subscription": f"{at}", "symbol": "s0", "least": low, "most": low + 0.001}
            for at, low in enumerate(least.tolist())
        ])  # fmt: skip


CASES = (
    HotCase("self_join", CLOSE_JOIN, {"trades": 30_000}, 1.5),
    HotCase("two_streams", TWO_STREAMS, {"trades": 40_000, "orders": 20_000}, 1.3),
    HotCase("template", ALARMS, {"trades": 60_000}, 0.0, subscriptions=2_000),
)


def split() -> Rows:
    """Hash only against the default balancing."""
    spark, results = session(), []
    for case in CASES:
        with temporary_folder() as folder:
            _write(folder, case)
            sides: dict[str, list[FlowRun]] = {"hash": [], "split": []}
            for turn, name in enumerate(("hash", "split", "split", "hash")):
                sources = [folder / stream for stream in case.rows]
                balancing = Balancing() if name == "split" else Balancing.off()
                run = run_flow(
                    spark,
                    folder / f"{name}{turn}",
                    sources,
                    case.declare,
                    workers=2,
                    balancing=balancing,
                )
                sides[name].append(run)
            row = {"case": case.name, **_compare(sides, case)}
            found = {r.run.results("q").count() for runs in sides.values() for r in runs}
            if len(found) != 1:
                raise RuntimeError(f"{case.name}: the sides have {found} rows")
            row["rows"] = found.pop()
            if case.name == "self_join":
                check = pair_check(spark, folder / "trades", case.sql, reach_us=20 * SECOND)
                row["rows_checked"] = [check(r.run) for runs in sides.values() for r in runs]
        print_row(row)
        results.append(row)
    spark.stop()
    return results


def _compare(sides: Mapping[str, list[FlowRun]], case: HotCase) -> dict[str, Any]:
    row: dict[str, Any] = {"rows_per_batch": dict(case.rows)}
    for name, runs in sides.items():
        kept = [run.snapshots[SKIP:] for run in runs]
        turns = [statistics.median(s.interval_seconds for s in snapshots) for snapshots in kept]
        row[f"{name}_turns"], row[f"{name}_seconds"] = turns, statistics.median(turns)
        row[f"{name}_uneven"] = statistics.median(query_imbalance(s) for s in kept)
        row[f"{name}_cpu_seconds"] = statistics.median(
            float(s.worker_cpu_seconds.sum()) for snapshots in kept for s in snapshots
        )
    pairs = zip(row["hash_turns"], row["split_turns"], strict=True)
    row["gains"] = [hashed / shared for hashed, shared in pairs]
    row["gain"] = statistics.median(row["gains"])
    row["goal_gain"] = row["gain"] >= case.goal_gain
    row["goal_even"] = row["split_uneven"] <= 1.1
    return row


def _write(folder: Path, case: HotCase) -> None:
    """Give every second row of each stream to one key, and the others to 10,000 keys."""
    rng = np.random.default_rng(4)
    for stream, count in case.rows.items():
        write_batches(
            folder / stream,
            (
                trades(
                    rng,
                    BEGIN + at * SPAN,
                    SPAN,
                    np.where(np.arange(count) % 2, 0, rng.integers(1, 10_001, count)),
                )
                for at in range(BATCHES)
            ),
        )
