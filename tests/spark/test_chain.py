"""A chain of published queries on Spark gives what batch SQL gives, read directly or later."""

from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession
from tests.support.spark_harness import (
    BEGIN_US,
    SECOND,
    Play,
    closing,
    cut,
    reports,
    rows_of,
    trades,
    write_batches,
)

from evenflow.model import Plan

END = BEGIN_US + 3600 * SECOND
CHAIN = {
    "q1": "SELECT ts AS t, symbol, qty FROM trades WHERE price > 10",
    "q2": "SELECT window.start AS t, symbol, sum(qty) AS qty FROM q1 "
    "GROUP BY window(t, '5 seconds'), symbol",
    "q3": "SELECT t, symbol, qty FROM q2 WHERE qty <> 3",
    "q4": "SELECT a.t, a.symbol, a.qty + b.qty AS qty FROM q3 a JOIN q3 b "
    "ON a.symbol = b.symbol AND b.t >= a.t AND b.t <= a.t + INTERVAL 10 SECONDS",
    "q5": "SELECT window.start AS t, symbol, max(qty) AS qty FROM q4 "
    "GROUP BY window(t, '10 seconds'), symbol",
}


def test_a_chain_gives_what_batch_gives(spark: SparkSession, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    rows = trades(rng, 300)
    batches = [*cut(rng, rows, 8), closing(rows, END)]
    write_batches(tmp_path / "trades", batches)
    play = Play(spark, tmp_path)
    for number in range(len(batches)):
        home = int(rng.integers(3))
        play.plans = {
            **play.plans,
            number: Plan(3, {q: home if rng.random() < 0.7 else (home + 1) % 3 for q in CHAIN}),
        }
    flow = play.flow()
    for name, sql in CHAIN.items():
        flow.query(name, sql, publish=True)
    run = play.run(flow)
    assert dict(run.quarantined) == {}
    assert dict(run.late) == {}
    for number, name in enumerate(CHAIN, 1):
        hosts = {r.worker for r in reports(run) if f"{name}@{number}" in r.query_stats}
        assert len(hosts) > 1, f"{name} has not moved"
    spark.createDataFrame(rows).createOrReplaceTempView("trades")
    for name, sql in CHAIN.items():
        expected = spark.sql(sql)
        expected.createOrReplaceTempView(name)
        found = run.results(name).where(f"t < timestamp_micros({END - 60 * SECOND})")
        assert rows_of(found) == rows_of(expected), name
        assert len(rows_of(expected)) > 10
