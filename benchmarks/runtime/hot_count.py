"""A windowed count of which one key has 60 % of the rows: `python -m benchmarks.runtime.hot_count`.

One stream whose batches alternate between uniform keys (A) and the hot key (B), in turns A B B A,
so that other load of the machine affects both alike. 1,000,000 rows a batch, 10,000 keys.

time_ratio, cpu_ratio  B over A of neighbouring batches: median, and its 90 % bootstrap interval
uniform_ms, hot_ms     median time of a batch
"""

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.harness import Rows, print_row, run_parts
from benchmarks.live.batch_check import window_check
from benchmarks.live.flow_runs import run_flow
from benchmarks.runtime.sides import ProgressLog, session
from benchmarks.workloads import BEGIN, COUNT, SECOND, add_query, temporary_folder, trades
from evenflow.research.live_runner import write_batches

ROWS, KEYS, SHARE, SPAN = 1_000_000, 10_000, 0.6, 10 * SECOND
WARM_UP, MEASURED = 8, 32
IS_HOT = (False, True, True, False)


def hot_count() -> Rows:
    """Uniform and hot batches in turns, in one stream."""
    spark = session()
    with temporary_folder() as folder:
        write_batches(folder / "trades", (_batch(at) for at in range(WARM_UP + MEASURED)))
        log = ProgressLog(spark)
        spark.streams.addListener(log)
        flow_run = run_flow(
            spark,
            folder / "run",
            [folder / "trades"],
            lambda flow: add_query(flow, COUNT, "symbol"),
        )
        checked = window_check(spark, folder / "trades", COUNT)(flow_run.run)
    spark.stop()
    cpu = np.array([seconds for _, seconds in log.batches])
    spent = np.column_stack(
        [
            [p.durationMs["triggerExecution"] for p, _ in log.batches[WARM_UP:]],
            1000 * np.diff(cpu)[WARM_UP - 1 :],
        ]
    )[:MEASURED]
    hot = np.resize(IS_HOT, MEASURED)
    row: dict[str, Any] = {"rows_per_batch": ROWS, "batches": MEASURED, "rows_checked": checked}
    ratios = spent[hot] / spent[~hot]
    drawn = np.random.default_rng(0).integers(0, len(ratios), (2000, len(ratios)))
    spread = np.quantile(np.median(ratios[drawn], axis=1), [0.05, 0.95], axis=0)
    for at, name in enumerate(("time", "cpu")):
        row[f"{name}_ratio"] = float(np.median(ratios[:, at]))
        row[f"{name}_ratio_spread"] = spread[:, at].round(3).tolist()
    row["uniform_ms"] = float(np.median(spent[~hot, 0]))
    row["hot_ms"] = float(np.median(spent[hot, 0]))
    row["shuffled_kb"] = (log.shuffled[-1] - log.shuffled[WARM_UP]) / 1024 / (MEASURED - 1)
    row["goal_time"] = row["time_ratio"] <= 1.05
    print_row(row)
    return [row]


def _batch(at: int) -> pa.Table:
    """Return a batch; eight are drawn, then repeated with later times."""
    rows = _draw(at % 8)
    return rows.set_column(0, "ts", pc.add(rows["ts"], pa.scalar(at * SPAN, pa.duration("us"))))


@cache
def _draw(number: int) -> pa.Table:
    rng = np.random.default_rng(number)
    symbols = rng.integers(0, KEYS, ROWS)
    if IS_HOT[number % 4]:
        symbols = np.where(rng.random(ROWS) < SHARE, 0, symbols)
    return trades(rng, BEGIN, SPAN, symbols)


if __name__ == "__main__":
    run_parts({"hot_count": hot_count})
