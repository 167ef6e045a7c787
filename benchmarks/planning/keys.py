"""Speed and quality of the key planners. Prints one JSON object; progress goes to stderr.

Usage: python -m benchmarks.planning.keys [speed] [memory] [gap] [loop]   (default: all)

speed   planning time against one numpy.argsort of the same costs, and how it grows with the keys
memory  peak memory of the whole command for a million integer keys
gap     state moved against the proven optimum (up to 5,000 keys) and the relaxed lower bound
loop    state moved per adjustment in a closed loop whose load shifts by f = 1 every interval
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from benchmarks.harness import least_seconds, print_row, run_parts
from evenflow.model import KeyLoads, hash_keys, imbalance, jump_hash
from evenflow.model.arrays import Floats
from evenflow.planning.keys import ALGORITHMS, KeyConfig, feasible, warm_up
from evenflow.planning.keys.choices import all_divisible
from evenflow.planning.keys.exact import least_moved_state
from evenflow.planning.keys.metrics import moved_state, windowed_state
from evenflow.research.key_workload import fluctuate_costs, zipf_costs

SIZES = (10_000, 100_000, 1_000_000)


def problem(count: int, workers: int, seed: int, states: str = "varied") -> KeyLoads:
    """Return keys with Zipf 0.85 costs, placed by the hash; `states` relates state to cost."""
    rng = np.random.default_rng(seed)
    cost = zipf_costs(count, 0.85, rng)
    state = {
        "as cost": lambda: cost,
        "varied": lambda: cost * rng.uniform(0.5, 1.5, count),
        "half": lambda: 0.5 * cost + 0.5 * zipf_costs(count, 0.85, rng),
        "independent": lambda: rng.random(count),
    }[states]()
    home = jump_hash(hash_keys(np.arange(count) + seed * 1_000_003), workers)
    return KeyLoads(cost, state, home, home, workers)


def speed() -> list[dict[str, Any]]:
    names = ("mixed", "compact", "cover", "minmig", "mintable", "llfd", "simple", "readj", "pkg")
    rng, config, rows = np.random.default_rng(0), KeyConfig(), []
    for name in names:
        planner = ALGORITHMS[name]
        warm_up(name)
        for states in ("as cost", "varied", "half", "independent"):
            earlier: float | None = None
            for count in SIZES:
                keys = problem(count, 20, 1, states)
                keys = all_divisible(keys) if name == "pkg" else keys
                plan = planner(keys, config, rng)
                sort = least_seconds(partial(np.argsort, keys.cost))
                seconds = least_seconds(partial(planner, keys, config, rng))
                rows.append(
                    {
                        "algorithm": name,
                        "keys": count,
                        "states": states,
                        "milliseconds": 1000 * seconds,
                        "times_argsort": seconds / sort,
                        "growth_for_10x": None if earlier is None else seconds / earlier,
                        "feasible": feasible(keys, config, plan),
                        "max_over_mean": imbalance(plan.loads),
                        "table_size": plan.table_size(keys),
                        "moved_state_fraction": moved_state(keys, plan.owner) / keys.state.sum(),
                    }
                )
                earlier = seconds
                print_row(rows[-1])
    return rows


def memory() -> list[dict[str, Any]]:
    """Plan a million integer keys with the command, in one process per planner."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        stats = Path(folder) / "stats.parquet"
        keys = problem(1_000_000, 20, 1)
        columns = {"key": np.arange(len(keys)), "cost": keys.cost, "state": keys.state}
        pa.parquet.write_table(pa.table(columns), stats)
        for name in ("hash", "mixed", "compact", "cover"):
            program = "from evenflow.cli.app import main; main()"
            command = ["plan", "keys", str(stats), "--workers", "20", "--algorithm", name, "--json"]
            child = subprocess.Popen(
                [sys.executable, "-c", program, *command], stdout=subprocess.DEVNULL
            )
            _, _, used = os.wait4(child.pid, 0)
            rows.append({"algorithm": name, "keys": len(keys), "peak_mb": used.ru_maxrss / 1024})
            print_row(rows[-1])
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows.append({"algorithm": "(this benchmark process)", "peak_mb": own})
    return rows


def gap() -> list[dict[str, Any]]:
    rng, rows = np.random.default_rng(0), []
    sizes = [(60, 4, 60), (60, 4, 4), (200, 8, 200), (200, 8, 15), (5000, 10, 3000)]
    families = ("varied", "half", "independent")
    cases = [(*size, states, seed) for size in sizes for states in families for seed in range(3)]
    for count, workers, max_table, states, seed in cases:
        config = KeyConfig(max_table=max_table)
        keys = problem(count, workers, seed, states)
        optimum = ALGORITHMS["exact"](keys, config, rng)
        least = moved_state(keys, optimum.owner)
        row: dict[str, Any] = {
            "keys": count,
            "workers": workers,
            "max_table": max_table,
            "states": states,
            "seed": seed,
            "exact_verdicts": [verdict.code for verdict in optimum.verdicts],
            "optimum_fraction": least / keys.state.sum(),
        }
        if least > 0:
            row["lower_bound"] = least_moved_state(keys, config) / least
            for name in ("cover", "mixed", "mixedbf", "compact", "readj", "mintable"):
                plan = ALGORITHMS[name](keys, config, rng)
                broken = {v.code for v in plan.verdicts} & {"unbalanced", "table_exceeded"}
                row[name] = None if broken else moved_state(keys, plan.owner) / least
        rows.append(row)
        print_row(row)
    return rows


def loop() -> list[dict[str, Any]]:
    rows = []
    for count in (10_000, 100_000):
        for window in (1, 5):
            for name in ("cover", "mixed", "compact", "readj", "mintable"):
                runs = [_closed_loop(name, count, window, seed) for seed in range(3)]
                mean = {field: float(np.mean([run[field] for run in runs])) for field in runs[0]}
                rows.append({"algorithm": name, "keys": count, "window": window, **mean})
                print_row(rows[-1])
    return rows


def _closed_loop(
    name: str, count: int, window: int, seed: int, workers: int = 10
) -> dict[str, float]:
    rng, config = np.random.default_rng(seed), KeyConfig()
    home = jump_hash(hash_keys(np.arange(count)), workers)
    owner, cost = home, zipf_costs(count, 0.85, rng)
    sizes: list[Floats] = []
    moved, fullest, milliseconds = [], [], []
    for interval in range(25):
        if interval:
            cost = fluctuate_costs(cost, owner, workers, 1.0, rng)
        sizes = [*sizes, cost][-window:]
        keys = KeyLoads(cost, windowed_state(sizes, window), home, owner, workers)
        start = time.perf_counter()
        plan = ALGORITHMS[name](keys, config, rng)
        if interval >= window:
            milliseconds.append(1000 * (time.perf_counter() - start))
            moved.append(moved_state(keys, plan.owner) / keys.state.sum())
            fullest.append(imbalance(plan.loads))
        owner = plan.owner
    return {
        "moved_state_percent": 100 * float(np.mean(moved)),
        "worst_max_over_mean": max(fullest),
        "table_size": float(np.count_nonzero(owner != home)),
        "median_milliseconds": float(np.median(milliseconds)),
    }


PARTS = {
    "speed": speed,
    "memory": memory,
    "gap": gap,
    "loop": loop,
}

if __name__ == "__main__":
    run_parts(PARTS)
