"""A chain of ten published queries, side by side and apart: `python -m benchmarks.runtime.chain`.

Five are windows, five select. Side `beside` has all on one worker of two, where each reads the one
before directly; side `apart` changes the worker with each query, so that each reads one batch
later. Sides take turns. Prints JSON, for each turn: batches until the last query has answered after
the row that completes all windows, seconds until then, and the median seconds of a batch with rows.
"""

import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.harness import print_row
from benchmarks.runtime.sides import session, stream_files
from benchmarks.workloads import BEGIN, SECOND, temporary_folder, trades
from evenflow import Flow
from evenflow.research.live_runner import write_batches

LENGTH, BATCHES, ROWS, SKIP = 10, 24, 20_000, 6
TURNS = ("beside", "apart", "apart", "beside", "beside", "apart")


def queries() -> dict[str, str]:
    """Return the chain: windows of 5, 10, ... seconds, and selections between them."""
    chain = {"q1": "SELECT ts AS t, symbol, qty FROM trades"}
    for at in range(2, LENGTH + 1):
        chain[f"q{at}"] = f"SELECT t, symbol, qty + 1 AS qty FROM q{at - 1} WHERE qty >= 0"
        if at % 2 == 0:
            chain[f"q{at}"] = (
                f"SELECT window.start AS t, symbol, sum(qty) AS qty FROM q{at - 1} "
                f"GROUP BY window(t, '{5 * (at // 2)} seconds'), symbol"
            )
    return chain


def measure(side: str, folder: Path) -> dict[str, Any]:
    """Run the chain once."""
    spark = session("2g")
    flow = Flow(spark, workers=2, checkpoint=str(folder / side))
    flow.source("trades", stream_files(spark, folder / "trades"), time="ts", watermark="0 seconds")
    for at, (name, sql) in enumerate(queries().items()):
        flow.query(name, sql, publish=True, worker=at % 2 if side == "apart" else 0)
    run = flow.start(available_now=True)
    run.await_termination()
    batches, last = list(run.batches), f"q{LENGTH}@{LENGTH}"
    answered = [b for b in batches if any(last in report.results for report in b.reports)][-1]
    completing, warm = batches[BATCHES], batches[SKIP:BATCHES]
    reports = [report for batch in batches for report in batch.reports]
    results = [report.results[last] for report in reports if last in report.results]
    cpu = [sum(report.cpu_seconds for report in batch.reports) for batch in warm]
    return {
        "side": side,
        "rows_out": sum(rows for _, rows in results),
        "answer_after_batches": answered.number - completing.number,
        "answer_seconds": answered.at - completing.at,
        "batch_seconds": statistics.median(batch.seconds for batch in warm),
        "worker_cpu_seconds": statistics.median(cpu),
    }


def main() -> None:
    """Measure both sides in turns."""
    rng, rows = np.random.default_rng(1), []
    with temporary_folder() as folder:
        batches = [
            trades(rng, BEGIN + at * 5 * SECOND, 5 * SECOND, rng.integers(0, 1000, ROWS))
            for at in range(BATCHES)
        ]
        end = pa.array([BEGIN + 3600 * SECOND]).cast(pa.timestamp("us", "UTC"))
        write_batches(
            folder / "trades", [*batches, batches[0].slice(0, 1).set_column(0, "ts", end)]
        )
        for turn, side in enumerate(TURNS):
            (folder / str(turn)).mkdir()
            (folder / str(turn) / "trades").symlink_to(folder / "trades")
            rows.append(measure(side, folder / str(turn)))
            print_row(rows[-1])
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
