"""A program that tests start and kill: it runs queries over files and moves their state.

Usage: python -m tests.support.crash_program FOLDER MASTER [decided]

Moves follow a script, or with `decided` the controller.
"""

import json
import os
import sys
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from tests.support.spark_harness import SCHEMAS, Play, rows_of, session

import evenflow
from evenflow.model import KeySplit, Plan, RoutingTable, hash_keys
from evenflow.planning.controller import Balancing

WORKERS = 3
MOVING = int(os.environ.get("EVENFLOW_MOVING", "8"))  # the last batch with moves
SYMBOLS = hash_keys(pa.array(["a", "b", "c", "d", "e'", None], pa.string()))
Queries = dict[str, tuple[str, str | None, bool]]  # SQL, key, whether it is published
QUERIES: Queries = {
    "dear": ("SELECT ts, symbol, price FROM trades WHERE price > 50", None, True),
    "sums": (
        """SELECT window.start AS s, symbol, count(*) AS n, sum(qty) AS q
        FROM trades GROUP BY window(ts, '10 seconds'), symbol""",
        "symbol",
        False,
    ),
    "pairs": (
        """SELECT a.symbol, a.ts AS t1, b.ts AS t2, a.qty FROM trades a JOIN trades b
        ON a.symbol = b.symbol AND b.ts >= a.ts AND b.ts <= a.ts + INTERVAL 8 SECONDS""",
        "symbol",
        False,
    ),
    "derived": (
        """SELECT window.start AS s, max(price) AS top FROM dear
        GROUP BY window(ts, '10 seconds')""",
        None,
        False,
    ),
}
DECIDED: Queries = {  # hot symbols have many rows, so pairs only of a short time
    "sums": QUERIES["sums"],
    "pairs": (QUERIES["pairs"][0].replace("8 SECONDS", "100 MILLISECONDS"), "symbol", False),
}


def plan_after(batch: int) -> Plan | None:
    """Move everything after every second batch, until batch MOVING; split some keys on the way.

    The first key is split over two and three workers in turn and now and then joined again, the
    second is split over two other workers each time.
    """
    if batch % 2 or batch > MOVING:
        return None
    turn = batch // 2
    owners = [(turn + at) % WORKERS for at in range(len(SYMBOLS))]
    shares = [tuple((turn + at) % WORKERS for at in range(1 + turn % 3))]
    shares.append(tuple((turn + at) % WORKERS for at in range(2)))
    table = RoutingTable.from_entries(SYMBOLS, owners).with_splits(
        KeySplit(int(key), among, "trades")
        for key, among in zip(SYMBOLS[:2], shares, strict=True)
        if len(among) > 1
    )
    placement = {"dear": batch // 2 % WORKERS, "derived": (batch // 2 + 1) % WORKERS}
    return Plan(WORKERS, placement, {"sums": table, "pairs": table})


def main(folder: Path, master: str, *, decided: bool) -> None:
    queries = DECIDED if decided else QUERIES
    play = Play(session(master), folder, WORKERS, watermark="0 seconds" if decided else "5 seconds")
    play.checkpoint = os.environ.get("EVENFLOW_CHECKPOINT", "")
    play.storage = json.loads(os.environ.get("EVENFLOW_STORAGE", "null"))
    flow = play.flow()
    for name, (sql, key, publish) in queries.items():
        flow.query(name, sql, key=key, publish=publish)
    run = start(flow, decided=decided)
    if os.environ.get("EVENFLOW_CRASH", "").startswith(("run.widened", "driver.command")):
        run.submit("submitted", "SELECT ts, venue FROM trades")  # a column that no query has needed
    run.await_termination()
    report = {
        "results": {name: texts(run.results(name)) for name in queries},
        "expected": expected(play.spark, folder, queries),
        "quarantined": sorted(run.quarantined),
        "hosted": sorted(run.queries),
        "decided": [decision.reason for decision in run.decisions if decision.plan is not None],
    }
    (folder / "report.json").write_text(json.dumps(report))


def start(flow: evenflow.Flow, *, decided: bool) -> evenflow.Run:
    if decided:
        return flow.start(
            available_now=True, balancing=Balancing(min_excess=0.0), emulated_cost=2e-4
        )
    return flow.start(available_now=True, controller=lambda batch: plan_after(batch.number))


def texts(frame: DataFrame) -> list[str]:
    return sorted(map(str, rows_of(frame).elements()))


def expected(spark: SparkSession, folder: Path, queries: Queries) -> dict[str, list[str]]:
    """Return Spark's batch results over all rows, without windows that are still open."""
    trades = spark.read.schema(SCHEMAS["trades"]).parquet(str(folder / "trades"))
    trades.createOrReplaceTempView("trades")
    results = {}
    for name, (sql, _, publish) in queries.items():
        answer = spark.sql(sql)
        if publish:
            answer.createOrReplaceTempView(name)
        if "window.start" in sql:  # the last row's windows stay open
            last = answer.agg({"s": "max"}).collect()[0][0]
            answer = answer.where(answer["s"] < last)
        results[name] = texts(answer)
    return results


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], decided="decided" in sys.argv[3:])
