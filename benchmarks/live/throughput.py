"""Throughput with emulated cost per row: balanced, hash only, two choices (PKG) and ideal."""

import statistics
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.harness import Rows, print_row
from benchmarks.live.flow_runs import GAIN, WORKERS, query_imbalance, run_flow
from benchmarks.runtime.sides import session
from benchmarks.workloads import BEGIN, SECOND, add_query, temporary_folder, trades
from evenflow import Balancing
from evenflow.datasets.zipf import draw_zipf
from evenflow.research.live_runner import write_batches
from evenflow.research.live_workload import keys_by_worker, two_choices


def throughput() -> Rows:
    """Rows cost 0.5 ms each, so that workers and not Spark limit the throughput."""
    spark, results = session(master="local[8,4]"), []
    rows, batches, cost, skip = 60_000, 12, 5e-4, 7
    count = """SELECT window.start AS s, {} symbol, count(*) AS n FROM trades
        GROUP BY window(ts, '10 seconds'), {} symbol"""
    for skew in (0.85, 1.0):
        rng, parts = np.random.default_rng(1), keys_by_worker(WORKERS)

        def batch_rows(at: int, rng: Any = rng, skew: float = skew, parts: Any = parts) -> pa.Table:
            hot = draw_zipf(rng, skew, 10_000, rows)
            table = trades(rng, BEGIN + at * 10 * SECOND, 10 * SECOND, hot)
            table = table.append_column("even", pa.array(parts[np.arange(rows) % WORKERS]))
            return table.append_column("pkg", pa.array(parts[two_choices(hot, WORKERS)]))

        with temporary_folder() as folder:
            write_batches(folder / "trades", (batch_rows(at) for at in range(batches)))
            row: dict[str, Any] = {"skew": skew}
            for name, key, config in (
                ("hash", "symbol", Balancing.off()),
                ("balanced", "symbol", Balancing()),
                ("strict", "symbol", Balancing(max_imbalance=0.04)),
                ("pkg", "pkg", Balancing.off()),
                ("ideal", "even", Balancing.off()),
            ):
                extra = "" if key == "symbol" else f"{key},"
                snapshots = run_flow(
                    spark,
                    folder / name,
                    [folder / "trades"],
                    partial(add_query, sql=count.format(extra, extra), key=key),
                    balancing=config,
                    emulated_cost=cost,
                ).snapshots
                row[name] = rows / statistics.median(s.interval_seconds for s in snapshots[skip:])
                row[f"{name}_uneven"] = query_imbalance(snapshots[skip:])
        row["balanced_of_ideal"] = row["balanced"] / row["ideal"]
        row["strict_of_ideal"] = row["strict"] / row["ideal"]
        row["gain"] = row["balanced"] / row["hash"]
        row["gain_of_uneven"] = row["gain"] / row["hash_uneven"]
        row["goal_ideal"] = row["balanced_of_ideal"] >= 0.95
        row["goal_gain"] = row["gain_of_uneven"] >= GAIN
        print_row(row)
        results.append(row)
    spark.stop()
    return results
