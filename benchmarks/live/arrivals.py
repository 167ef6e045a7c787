"""Thousands of queries that come and go: bytes shipped against dealing them out in turn."""

import statistics
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.harness import Rows, tell
from benchmarks.live.flow_runs import WORKERS, reading
from benchmarks.runtime.sides import session
from benchmarks.workloads import BEGIN, SECOND, folder, trades
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
    """Queries over few of 40 streams; a thousand come at a time, then they come and go.

    First as in the paper: streams by Zipf's law, each query over two. Then harder: streams that
    are all as popular, queries over one to three, which differ in load. The paper's case also with
    default settings.
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
        with folder() as where:
            found = _arriving(spark, where, popularity, least, most, SETTINGS[settings])
        case = {"streams": popularity, "of_a_query": f"{least} to {most}", "settings": settings}
        rows.append({**case, **found, **_goals(found)})
        tell(rows[-1])
    spark.stop()
    return rows


def _goals(found: dict[str, Any]) -> dict[str, bool]:
    """A third of the bytes; the fullest worker in its bound by number of queries or by load."""
    numbers = found["queries_max_over_mean"] <= found["load_bound"]
    loads = found["load_max_over_mean"] <= found["load_bound"]
    return {
        "goal_bytes": found["shipped_over_round_robin"] <= 1 / 3,
        "goal_load": numbers or loads,
        "goal_load_by_number": numbers,
        "goal_load_by_load": loads,
    }


def _arriving(
    spark: SparkSession,
    where: Path,
    popularity: str,
    least: int,
    most: int,
    balancing: Balancing,
) -> dict[str, Any]:
    rng, streams, types, per_border = np.random.default_rng(3), 40, 200, 1000
    weights = 1.0 / np.arange(1, streams + 1) if popularity == "zipf" else np.ones(streams)
    share = weights / weights.sum()
    kinds = [
        sorted(rng.choice(streams, rng.integers(least, most + 1), replace=False, p=share).tolist())
        for _ in range(types)
    ]
    paths = [where / f"s{at}" for at in range(streams)]
    live: dict[str, int] = {}  # query -> type
    born = iter(range(5000))

    def feed(batch: int) -> None:
        for path in paths:
            rows = trades(rng, BEGIN + batch * SECOND, SECOND, np.zeros(200, dtype=int))
            path.mkdir(exist_ok=True)
            whole = path / f".{batch}"
            pq.write_table(rows, whole)
            whole.rename(path / f"{batch:05d}.parquet")

    def submit(to: Callable[..., Any]) -> None:
        for at in islice(born, per_border):
            live[f"q{at}"] = int(rng.integers(types))
            reads = kinds[live[f"q{at}"]]
            to(
                f"q{at}",
                " UNION ALL ".join(f"SELECT ts, qty FROM s{s} WHERE qty > 98" for s in reads),
            )

    feed(0)
    flow = Flow(spark, workers=WORKERS, checkpoint=str(where / "flow"))
    for path in paths:
        flow.source(path.name, reading(spark, path), time="ts", watermark="0 seconds")
    submit(flow.query)
    run = flow.start(trigger="0 seconds", balancing=balancing)
    try:
        for batch in range(1, 9):
            submit(run.submit)
            for name in rng.choice(sorted(live), 100, replace=False).tolist():
                del live[name]
                run.cancel(name)
            feed(batch)
            _settled(run, batch)
    finally:
        run.stop()
    last = [s for s in run.snapshots if s.shipped_bytes][-3:]
    hosted = np.bincount(list(last[-1].plan.placement.values()), minlength=WORKERS)
    return {
        "queries": int(hosted.sum()),
        "submitted": 5000,
        "shipped_over_round_robin": sum(map(total_shipped_bytes, last))
        / sum(map(round_robin_bytes, last)),
        "best_known_over_round_robin": _best_known([kinds[kind] for kind in live.values()]),
        "load_max_over_mean": imbalance(np.sum([s.worker_loads() for s in last], axis=0)),
        "load_bound": 1.05 + 10 * WORKERS / len(live),
        "queries_max_over_mean": float(hosted.max() / hosted.mean()),
        "moved": sum(len(decision.moves) for decision in run.decisions),
        "batch_seconds": statistics.median(s.interval_seconds for s in last),
    }


def _best_known(reads: Sequence[Sequence[int]]) -> float:
    """Return the least traffic of a hundred offline plans, over that of dealing out in turn."""
    asked = Subscriptions.from_source_sets(
        reads, loads=1.0 + np.array([len(read) for read in reads])
    )
    problem = queries.PlacementProblem.of(asked, WORKERS)
    plans = [
        queries.plan_queries(problem, "partition", rng)
        for rng in np.random.default_rng(0).spawn(100)
    ]
    dealt = np.arange(len(reads), dtype=np.int32) % WORKERS
    least = min(total_traffic(asked, plan.workers, WORKERS) for plan in plans)
    return least / total_traffic(asked, dealt, WORKERS)


def _settled(run: Run, batch: int) -> None:
    """Wait until the files of a round have been read and nothing more is due."""
    while run.is_active:
        if sum(1 for s in run.snapshots if s.shipped_bytes) > batch and not run.has_pending_work:
            return
        time.sleep(0.5)
    raise RuntimeError("the run has ended")
