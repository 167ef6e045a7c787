"""What even load brings where rows cost time: against hash only, two choices (PKG) and ideal."""

import statistics
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.harness import Rows, tell
from benchmarks.live.flow_runs import GAIN, WORKERS, host, play, uneven
from benchmarks.runtime.sides import session, write
from benchmarks.workloads import BEGIN, SECOND, folder, trades, zipf
from evenflow import Balancing
from evenflow.model import hash_keys, jump_hash


def throughput() -> Rows:
    """Rows that cost 0.5 ms each, so that workers and not Spark set the pace."""
    spark, found = session(master="local[8,4]"), []
    rows, batches, cost, skip = 60_000, 12, 5e-4, 7
    count = """SELECT window.start AS s, {} symbol, count(*) AS n FROM trades
        GROUP BY window(ts, '10 seconds'), {} symbol"""
    for skew in (0.85, 1.0):
        rng, parts = np.random.default_rng(1), parts_for(WORKERS)

        def made(at: int, rng: Any = rng, skew: float = skew, parts: Any = parts) -> pa.Table:
            hot = zipf(rng, skew, 10_000, rows)
            table = trades(rng, BEGIN + at * 10 * SECOND, 10 * SECOND, hot)
            table = table.append_column("even", pa.array(parts[np.arange(rows) % WORKERS]))
            return table.append_column("pkg", pa.array(parts[two_choices(hot, WORKERS)]))

        with folder() as where:
            write(where / "trades", (made(at) for at in range(batches)))
            row: dict[str, Any] = {"skew": skew}
            for name, key, config in (
                ("hash", "symbol", Balancing.off()),
                ("balanced", "symbol", Balancing()),
                ("strict", "symbol", Balancing(max_imbalance=0.04)),
                ("pkg", "pkg", Balancing.off()),
                ("ideal", "even", Balancing.off()),
            ):
                extra = "" if key == "symbol" else f"{key},"
                snapshots = play(
                    spark,
                    where / name,
                    [where / "trades"],
                    partial(host, sql=count.format(extra, extra), key=key),
                    balancing=config,
                    emulated_cost=cost,
                ).snapshots
                row[name] = rows / statistics.median(s.interval_seconds for s in snapshots[skip:])
                row[f"{name}_uneven"] = uneven(snapshots[skip:])
        row["balanced_of_ideal"] = row["balanced"] / row["ideal"]
        row["strict_of_ideal"] = row["strict"] / row["ideal"]
        row["gain"] = row["balanced"] / row["hash"]
        row["gain_of_uneven"] = row["gain"] / row["hash_uneven"]
        row["goal_ideal"] = row["balanced_of_ideal"] >= 0.95
        row["goal_gain"] = row["gain_of_uneven"] >= GAIN
        tell(row)
        found.append(row)
    spark.stop()
    return found


def parts_for(workers: int) -> np.ndarray:
    """Give a number for each worker that the hash sends there."""
    numbers = np.arange(1000)
    homes = jump_hash(hash_keys(numbers), workers)
    return np.array([numbers[homes == worker][0] for worker in range(workers)])


def two_choices(keys: np.ndarray, workers: int) -> np.ndarray:
    """Partial key grouping: each row to the less loaded of its key's two workers so far."""
    hashes = hash_keys(keys)
    first, second = jump_hash(hashes, workers), jump_hash(hash_keys(hashes.view(np.int64)), workers)
    loads, chosen = [0] * workers, np.empty(len(keys), dtype=np.int64)
    for at, (one, two) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        to = one if loads[one] <= loads[two] else two
        loads[to] += 1
        chosen[at] = to
    return chosen
