"""Speed of SQL tasks without Spark: `python -m benchmarks.runtime.sql_tasks [part ...]`.

One task in this process, DuckDB with one thread. Prints JSON. Seconds are CPU seconds; compare
ratios within one run.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.datasets.zipf import draw_zipf
from evenflow.sql import Catalog, Engine, Stream, compile_query, compile_template
from evenflow.sql.spill import EngineMemory
from evenflow.sql.tasks.task import Task

SECOND = 1_000_000
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("symbol", pa.string()),
        ("price", pa.float64()),
        ("qty", pa.int64()),
    ]
)
CATALOG = Catalog({"trades": Stream(SCHEMA, "ts")})


def trades(rng: np.random.Generator, times: np.ndarray, symbols: np.ndarray) -> pa.Table:
    count = len(times)
    names = pa.array([f"s{i}" for i in range(int(symbols.max(initial=0)) + 1)])
    return pa.Table.from_arrays(
        [
            pa.array(times).cast(SCHEMA.field("ts").type),
            names.take(pa.array(symbols)),
            pa.array(rng.random(count)),
            pa.array(rng.integers(0, 100, count)),
        ],
        schema=SCHEMA,
    )


def step_batches(
    task: Task, batches: list[tuple[pa.Table, int]], skip: int
) -> tuple[list[float], int]:
    """Return the seconds of each batch after the first `skip`, and the number of result rows."""
    seconds, rows = [], 0
    for at, (batch, watermark) in enumerate(batches):
        begin = time.process_time()
        out = task.step({"trades": batch}, watermark)
        task.save()
        if at >= skip:
            seconds.append(time.process_time() - begin)
            rows += len(out.rows)
    return seconds, rows


def self_join(engine: Engine, batches: int) -> dict[str, Any]:
    """A self-join within 20 s, Zipf 0.85 over 10,000 keys, 20,000 rows a batch of 10 s."""
    return _self_join(engine, batches, "")


def self_join_narrow(engine: Engine, batches: int) -> dict[str, Any]:
    """The same with a second equality: fewer results, so finding matches dominates."""
    return _self_join(engine, batches, "AND b.qty = a.qty ")


def _self_join(engine: Engine, batches: int, condition: str) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    program = compile_query(
        "pairs",
        "SELECT a.ts, b.ts AS other, a.symbol, a.price, b.price AS price2 FROM trades a "
        f"JOIN trades b ON a.symbol = b.symbol {condition}"
        "AND b.ts BETWEEN a.ts - INTERVAL 20 SECONDS AND a.ts",
        CATALOG,
    )
    inputs = []
    for at in range(batches):
        times = np.sort(rng.integers(at * 10 * SECOND, (at + 1) * 10 * SECOND, 20_000))
        inputs.append((trades(rng, times, draw_zipf(rng, 0.85, 10_000, 20_000)), at * 10 * SECOND))
    seconds, rows = step_batches(program.open(engine), inputs, 4)
    return report(seconds, 20_000, matches=rows // len(seconds))


def tumbling(engine: Engine, batches: int) -> dict[str, Any]:
    """Count and sum per window, 1,000,000 rows a batch, 10,000 keys."""
    rng = np.random.default_rng(2)
    program = compile_query(
        "sums",
        "SELECT window.start, symbol, count(*) AS n, sum(qty) AS q FROM trades "
        "GROUP BY window(ts, '10 seconds'), symbol",
        CATALOG,
    )
    inputs = []
    for at in range(batches):
        times = np.sort(rng.integers(at * 10 * SECOND, (at + 1) * 10 * SECOND, 1_000_000))
        batch = trades(rng, times, rng.integers(0, 10_000, 1_000_000))
        inputs.append((batch, at * 10 * SECOND))
    seconds, rows = step_batches(program.open(engine), inputs, 1)
    return report(seconds, 1_000_000, answers=rows // len(seconds))


def subscriptions(engine: Engine, batches: int) -> dict[str, Any]:
    """100,000 subscriptions of 20 templates, 100,000 events a batch."""
    rng = np.random.default_rng(3)
    tasks = []
    for at in range(20):
        template = compile_template(
            f"t{at}",
            "SELECT ts, price FROM trades "
            f"WHERE symbol = :symbol AND price > :limit AND qty > {at}",
            CATALOG,
        )
        task = template.open(engine)
        task.subscribe(
            pa.table(
                {
                    "subscription": [f"{at}-{i}" for i in range(5_000)],
                    "symbol": [f"s{i}" for i in rng.integers(0, 10_000, 5_000)],
                    "limit": rng.random(5_000) * 0.1 + 0.9,
                }
            )
        )
        tasks.append(task)
    seconds, rows = [], 0
    for at in range(batches):
        times = np.sort(rng.integers(at * SECOND, (at + 1) * SECOND, 100_000))
        batch = trades(rng, times, rng.integers(0, 10_000, 100_000))
        begin = time.process_time()
        matched = sum(len(task.step({"trades": batch}, 0).rows) for task in tasks)
        if at:
            seconds.append(time.process_time() - begin)
            rows += matched
    return report(seconds, 100_000, matches=rows // len(seconds))


def buffered(engine: Engine, batches: int) -> dict[str, Any]:
    """Ten times the buffered rows, the same new rows and matches: the cost of a batch."""
    sql = (
        "SELECT a.ts, b.ts AS other, a.symbol FROM trades a JOIN trades b ON a.symbol = b.symbol "
        "AND b.ts BETWEEN a.ts - INTERVAL {bound} SECONDS AND a.ts"
    )
    tasks = {
        bound: compile_query("pairs", sql.format(bound=bound), CATALOG).open(engine)
        for bound in (100, 1_000)
    }
    rng = np.random.default_rng(4)
    seconds: dict[int, list[float]] = {bound: [] for bound in tasks}
    for at in range(1_000 // 10 + batches):
        times = np.sort(rng.integers(at * 10 * SECOND, (at + 1) * 10 * SECOND, 10_000))
        symbols = np.arange(10_000) + at * 10_000  # a key occurs in one batch only
        symbols[:5_000] = symbols[5_000:]
        batch = _with_numbered_symbols(rng, times, symbols)
        for bound, task in tasks.items():  # alternately, so that other load affects both
            begin = time.process_time()
            task.step({"trades": batch}, at * 10 * SECOND)
            task.save()
            seconds[bound].append(time.process_time() - begin)
    results: dict[str, Any] = {}
    for name, bound in (("less", 100), ("more", 1_000)):
        buffered_rows = sum(len(store) for store in tasks[bound].stores().values())
        results[name] = report(seconds[bound][-batches:], 10_000, kept_rows=buffered_rows)
    ratio = results["more"]["mean_seconds"] / results["less"]["mean_seconds"]
    return {**results, "ratio": round(ratio, 2), "goal": "at most 1.3"}


def _with_numbered_symbols(
    rng: np.random.Generator, times: np.ndarray, symbols: np.ndarray
) -> pa.Table:
    table = trades(rng, times, np.zeros(len(times), dtype=np.int64))
    return table.set_column(1, "symbol", pa.array(symbols).cast(pa.string()))


def report(seconds: list[float], rows: int, **more: int) -> dict[str, Any]:
    return {
        "batches": len(seconds),
        "mean_seconds": round(statistics.fmean(seconds), 4),
        "median_seconds": round(statistics.median(seconds), 4),
        "rows_per_second": round(rows / statistics.fmean(seconds)),
        **more,
    }


PARTS: dict[str, tuple[Callable[[Engine, int], dict[str, Any]], int]] = {
    "self_join": (self_join, 16),
    "self_join_narrow": (self_join_narrow, 16),
    "tumbling": (tumbling, 5),
    "subscriptions": (subscriptions, 5),
    "buffered": (buffered, 64),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", nargs="*", default=list(PARTS), help=f"of {', '.join(PARTS)}")
    chosen = parser.parse_args().work
    engine = Engine(memory=EngineMemory(1 << 30))
    results = {}
    for name in chosen:
        function, batches = PARTS[name]
        results[name] = {"what": function.__doc__, **function(engine, batches)}
    json.dump(results, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
