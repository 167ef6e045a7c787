"""The streams with hot keys of `benchmarks.runtime.hot_streams` on Spark, in real processes.

python -m benchmarks.live hot_streams, or python -m benchmarks.live.hot_streams CLASS ...

8 workers, 40 batches, fewer rows than there. Rows of counts and templates cost 0.2 ms each
(emulated); joins cost what they cost, and get plans however small the excess is. `median`, `worst`,
`within` and `detected` as there, by the loads that the cost model measures; nothing is emulated in
the results, which must equal those of Spark's batch SQL.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks.harness import Rows, print_row, run_parts
from benchmarks.live.flow_runs import run_flow
from benchmarks.runtime.hot_streams import (
    BATCHES,
    BEGIN_US,
    CLASSES,
    SCHEMA,
    SECOND,
    STREAMS,
    WANTED,
    QueryClass,
    batches,
    settled_batches,
)
from benchmarks.runtime.sides import session
from benchmarks.workloads import temporary_folder
from evenflow import Balancing, Flow
from evenflow.research.live_runner import write_batches

END_US = BEGIN_US + 3600 * SECOND
ROWS = {
    "self_join": {"left": 1_000},
    "two_streams": {"left": 1_500, "right": 500},
    "template": {"left": 4_000},
    "aggregate": {"left": 4_000},
    "join_aggregate": {"left": 1_500, "right": 500},
}
EMULATED = {"template": 2e-4, "aggregate": 2e-4}
ALARMS = "SELECT s.subscription, l.ts, l.k FROM left l JOIN wanted s ON l.k = s.k AND l.x > s.least"


def hot_streams() -> Rows:
    """Play all streams against all classes of queries."""
    return [row for name in ROWS for row in play_class(name)]


def play_class(name: str) -> Rows:
    """Play all streams against one class of queries."""
    spark = session(master="local[8,4]")
    query_class = replace(CLASSES[name], rows=ROWS[name])
    streams = [s for s in STREAMS if s != "one_input" or len(query_class.rows) > 1]
    rows = [_play(spark, name, query_class, stream) for stream in streams]
    spark.stop()
    return rows


def _play(spark: SparkSession, name: str, query_class: QueryClass, stream: str) -> dict[str, Any]:
    with temporary_folder() as folder:
        _write(folder, query_class, stream)
        cost = EMULATED.get(name, 0.0)
        made = run_flow(
            spark,
            folder / "run",
            [folder / source for source in query_class.rows],
            lambda flow: _declare(flow, query_class),
            balancing=Balancing(combine=False) if cost else Balancing(min_excess=0.0),
            emulated_cost=cost,
        )
        for source in query_class.rows:
            spark.read.parquet(str(folder / source)).createOrReplaceTempView(source)
        expected = _expected(spark, query_class)
        found = made.run.results("q")
        counts = expected.count(), found.count()
        wrong = found.exceptAll(expected).count() + abs(counts[0] - counts[1])
    loads = [s.queries["q"].load for s in made.snapshots[:BATCHES]]
    uneven = [float(load.max() / load.mean()) for load in loads]
    plans = [d.batch for d in made.run.decisions if d.plan is not None and d.batch < BATCHES]
    detected, settled = settled_batches(uneven, plans, STREAMS[stream][1])
    splits = [
        max((len(k.owners) for table in s.plan.tables.values() for k in table.splits), default=1)
        for s in made.snapshots[:BATCHES]
    ]
    row = {
        "class": name,
        "stream": stream,
        "detected": detected,
        "median": float(np.median(settled)),
        "worst": max(settled),
        "within": float(np.mean(np.array(settled) <= query_class.goal)),
        "plans": len(plans),
        "owners": [max(splits), splits[-1]],
        "results": counts[0],
        "equal": wrong == 0 and counts[0] > 0,
    }
    print_row(row)
    return row


def _write(folder: Path, query_class: QueryClass, stream: str) -> None:
    made = list(batches(query_class, stream, 10_000, 0.85, seed=1))
    last = pa.table(
        {"ts": pa.array([END_US]).cast(pa.timestamp("us", "UTC")), "k": [0], "x": [0]},
        schema=SCHEMA,
    )
    for source in query_class.rows:
        write_batches(folder / source, [*(rows[source] for rows in made), last])


def _declare(flow: Flow, query_class: QueryClass) -> None:
    (query,) = query_class.queries
    if query.form == "template":
        flow.template(query.name, query.text, key="k")
        flow.subscribe(query.name, WANTED)
    else:
        flow.query(query.name, query.text, key="k")


def _expected(spark: SparkSession, query_class: QueryClass) -> DataFrame:
    (query,) = query_class.queries
    if query.form == "template":
        spark.createDataFrame(WANTED).createOrReplaceTempView("wanted")
        return spark.sql(ALARMS)
    rows = spark.sql(query.text)  # the last row's windows stay open
    closed = f"s < timestamp_micros({END_US - 100 * SECOND})"
    return rows.where(closed) if "s" in rows.columns else rows


if __name__ == "__main__":
    run_parts({name: (lambda name=name: play_class(name)) for name in ROWS})  # type: ignore[misc]
