"""Thousands of queries that arrive and leave: bytes shipped against round robin."""

import statistics
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.harness import Rows, print_row
from benchmarks.live.flow_runs import WORKERS
from benchmarks.runtime.sides import session, stream_files
from benchmarks.workloads import BEGIN, SECOND, temporary_folder, trades
from evenflow import Balancing, Flow, Run
from evenflow.model import imbalance, round_robin_bytes
from evenflow.model.subscriptions import Subscriptions
from evenflow.model.traffic import total_shipped_bytes
from evenflow.planning import queries
from evenflow.planning.queries.metrics import total_traffic

SETTINGS = {
    "strict": Balancing(promote=False, repair="repair", max_imbalance=0.065, slack=0.04),
    "default": Balancing(repair="repair"),
}


def arrivals() -> Rows:
    """Queries over a few of 40 streams: a thousand arrive per batch, then some leave as well.

    First as in the paper: streams of Zipf popularity, two per query, also with default settings.
    Then harder: equally popular streams, and one to three per query, so that loads differ.
    """
    spark = session(master="local[2,4]")
    rows = []
    for popularity, least, most, settings in (
        ("zipf", 2, 2, "strict"),
        ("zipf", 2, 2, "default"),
        ("zipf", 1, 3, "strict"),
        ("even", 2, 2, "strict"),
        ("even", 1, 3, "strict"),
    ):
        with temporary_folder() as folder:
            measured = _run_arrivals(spark, folder, popularity, least, most, SETTINGS[settings])
        case = {"streams": popularity, "of_a_query": f"{least} to {most}", "settings": settings}
        rows.append({**case, **measured, **_goals(measured)})
        print_row(rows[-1])
    spark.stop()
    return rows


def _goals(measured: dict[str, Any]) -> dict[str, bool]:
    """Check for a third of the bytes, and for balance by number of queries or by load."""
    numbers = measured["queries_max_over_mean"] <= measured["load_bound"]
    loads = measured["load_max_over_mean"] <= measured["load_bound"]
    return {
        "goal_bytes": measured["shipped_over_round_robin"] <= 1 / 3,
        "goal_load": numbers or loads,
        "goal_load_by_number": numbers,
        "goal_load_by_load": loads,
    }


def _run_arrivals(
    spark: SparkSession,
    folder: Path,
    popularity: str,
    least: int,
    most: int,
    balancing: Balancing,
) -> dict[str, Any]:
    rng, streams, types, per_batch = np.random.default_rng(3), 40, 200, 1000
    weights = 1.0 / np.arange(1, streams + 1) if popularity == "zipf" else np.ones(streams)
    share = weights / weights.sum()
    streams_of_type = [
        sorted(rng.choice(streams, rng.integers(least, most + 1), replace=False, p=share).tolist())
        for _ in range(types)
    ]
    paths = [folder / f"s{at}" for at in range(streams)]
    live: dict[str, int] = {}  # query -> type
    numbers = iter(range(5000))

    def feed(batch: int) -> None:
        for path in paths:
            rows = trades(rng, BEGIN + batch * SECOND, SECOND, np.zeros(200, dtype=int))
            path.mkdir(exist_ok=True)
            partial = path / f".{batch}"
            pq.write_table(rows, partial)
            partial.rename(path / f"{batch:05d}.parquet")

    def submit(query: Callable[..., Any]) -> None:
        for at in islice(numbers, per_batch):
            live[f"q{at}"] = int(rng.integers(types))
            reads = streams_of_type[live[f"q{at}"]]
            query(
                f"q{at}",
                " UNION ALL ".join(f"SELECT ts, qty FROM s{s} WHERE qty > 98" for s in reads),
            )

    feed(0)
    flow = Flow(spark, workers=WORKERS, checkpoint=str(folder / "flow"))
    for path in paths:
        flow.source(path.name, stream_files(spark, path), time="ts", watermark="0 seconds")
    submit(flow.query)
    run = flow.start(trigger="0 seconds", balancing=balancing)
    try:
        for batch in range(1, 9):
            submit(run.submit)
            for name in rng.choice(sorted(live), 100, replace=False).tolist():
                del live[name]
                run.cancel(name)
            feed(batch)
            _wait_until_idle(run, batch)
    finally:
        run.stop()
    last = [s for s in run.snapshots if s.shipped_bytes][-3:]
    hosted = np.bincount(list(last[-1].plan.placement.values()), minlength=WORKERS)
    return {
        "queries": int(hosted.sum()),
        "submitted": 5000,
        "shipped_over_round_robin": sum(map(total_shipped_bytes, last))
        / sum(map(round_robin_bytes, last)),
        "best_known_over_round_robin": _best_known(
            [streams_of_type[kind] for kind in live.values()]
        ),
        "load_max_over_mean": imbalance(np.sum([s.worker_loads() for s in last], axis=0)),
        "load_bound": 1.05 + 10 * WORKERS / len(live),
        "queries_max_over_mean": float(hosted.max() / hosted.mean()),
        "moved": sum(len(decision.moves) for decision in run.decisions),
        "batch_seconds": statistics.median(s.interval_seconds for s in last),
    }


def _best_known(reads: Sequence[Sequence[int]]) -> float:
    """Return the least traffic of a hundred offline plans over that of round robin."""
    subscriptions = Subscriptions.from_source_sets(
        reads, loads=1.0 + np.array([len(read) for read in reads])
    )
    problem = queries.PlacementProblem.of(subscriptions, WORKERS)
    plans = [
        queries.plan_queries(problem, "partition", rng)
        for rng in np.random.default_rng(0).spawn(100)
    ]
    round_robin = np.arange(len(reads), dtype=np.int32) % WORKERS
    least = min(total_traffic(subscriptions, plan.workers, WORKERS) for plan in plans)
    return least / total_traffic(subscriptions, round_robin, WORKERS)


def _wait_until_idle(run: Run, batch: int) -> None:
    """Wait until the files of a batch were read and no work is pending."""
    while run.is_active:
        if sum(1 for s in run.snapshots if s.shipped_bytes) > batch and not run.has_pending_work:
            return
        time.sleep(0.5)
    raise RuntimeError("the run ended")
