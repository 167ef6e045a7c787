"""Streaming results are Spark's batch results, for any cut into batches, placement and plan."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.support.spark_harness import (
    BEGIN_US,
    SECOND,
    Play,
    batch_rows,
    closing,
    cut,
    quotes,
    rows_of,
    trades,
    write_batches,
)

from evenflow.model import Plan, RoutingTable, hash_keys

SECTORS = pa.table({"symbol": ["a", "b", "b", "x"], "sector": ["it", "oil", "gas", "none"]})
QUERIES = {
    "dear": "SELECT ts, symbol, price * 2 AS twice FROM trades WHERE price > 50",
    "sums": """SELECT window.start AS s, symbol, count(*) AS n, sum(qty) AS q, avg(price) AS p
               FROM trades GROUP BY window(ts, '10 seconds'), symbol""",
    "slide": """SELECT window.end AS e, venue, max(price) AS top
                FROM trades GROUP BY window(ts, '20 seconds', '5 seconds'), venue""",
    "pairs": """SELECT a.symbol, a.ts AS t1, b.ts AS t2, a.price, b.price AS other
                FROM trades a JOIN trades b ON a.symbol = b.symbol
                AND b.ts >= a.ts AND b.ts <= a.ts + INTERVAL 8 SECONDS""",
    "match": """SELECT t.ts, q.qt, t.symbol, t.price, q.bid FROM trades t JOIN quotes q
                ON t.symbol = q.sym AND q.qt >= t.ts - INTERVAL 4 SECONDS
                AND q.qt <= t.ts + INTERVAL 4 SECONDS""",
    "sector": """SELECT t.ts, s.sector, t.qty FROM trades t
                 JOIN sectors s ON t.symbol = s.symbol""",
    "both": "SELECT symbol AS k FROM trades WHERE qty > 5 UNION ALL SELECT sym FROM quotes",
}
KEYED = {"sums": "symbol", "pairs": "symbol"}
# A window answers when the watermark has passed it, so a last row closes all windows of the test.
END = BEGIN_US + 3600 * SECOND


def random_plans(rng: np.random.Generator, workers: int, batches: int) -> dict[int, Plan]:
    """Queries and keys thrown around at random borders."""
    symbols = hash_keys(pa.array(["a", "b", "c", "d", "e'", None]))
    whole = [name for name in QUERIES if name not in KEYED]
    plans = {}
    for batch in range(batches):
        if rng.random() < 0.5:
            placement = {name: int(rng.integers(workers)) for name in whole if rng.random() < 0.7}
            tables = {
                name: RoutingTable.from_entries(
                    symbols, rng.integers(0, workers, len(symbols)).tolist()
                )
                for name in KEYED
                if rng.random() < 0.7
            }
            plans[batch] = Plan(workers, placement, tables)
    return plans


@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**32 - 1), batches=st.integers(1, 6), workers=st.integers(1, 4))
def test_streaming_gives_what_batch_gives(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    batches: int,
    workers: int,
) -> None:
    folder: Path = tmp_path_factory.mktemp("play")
    rng = np.random.default_rng(seed)
    rows = {"trades": trades(rng, 120), "quotes": quotes(rng, 80)}
    for name, whole in rows.items():
        write_batches(folder / name, [*cut(rng, whole, batches), closing(whole, END)])
    place = str(folder / "a check point")  # Spark and we must mean the same place
    play = Play(spark, folder, workers, streams=("trades", "quotes"), checkpoint=place)
    play.plans = random_plans(rng, workers, batches + 1)
    flow = play.flow()
    flow.table("sectors", spark.createDataFrame(SECTORS))
    for name, sql in QUERIES.items():
        flow.query(name, sql, key=KEYED.get(name))
    run = play.run(flow)
    assert dict(run.quarantined) == {}
    assert dict(run.late) == {}
    tables = {name: pa.concat_tables([whole, closing(whole, END)]) for name, whole in rows.items()}
    for name, sql in QUERIES.items():
        expected = batch_rows(spark, sql, {**tables, "sectors": SECTORS})
        if name in ("sums", "slide"):  # the closing row's own windows stay open
            expected = type(expected)(
                {r: n for r, n in expected.items() if r[0].hour < 23 or r[0].minute < 13}
            )
        assert rows_of(run.results(name)) == expected, name
