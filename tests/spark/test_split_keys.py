"""Split keys on Spark: while splits grow, shrink and move, results are those of batch SQL."""

from pathlib import Path

import numpy as np
import pyarrow as pa
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

from evenflow.model import KeySplit, Plan, RoutingTable, hash_keys

PAIRS = """trades a JOIN trades b ON a.symbol = b.symbol
    AND b.ts >= a.ts AND b.ts <= a.ts + INTERVAL 8 SECONDS"""
MATCHES = """trades t JOIN quotes q ON t.symbol = q.sym
    AND q.qt >= t.ts - INTERVAL 4 SECONDS AND q.qt <= t.ts + INTERVAL 4 SECONDS"""
QUERIES = {
    "pairs": f"SELECT a.symbol, a.ts AS t1, b.ts AS t2, a.price, b.qty FROM {PAIRS}",
    "matches": f"SELECT t.ts, q.qt, t.symbol, t.price, q.bid FROM {MATCHES}",
    "counts": """SELECT window.start AS s, symbol, count(*) AS n, avg(price) AS p
        FROM trades GROUP BY window(ts, '10 seconds', '5 seconds'), symbol""",
    "joined": f"""SELECT window.start AS s, symbol, count(*) AS n, sum(bid) AS b
        FROM (SELECT t.ts, t.symbol, q.bid FROM {MATCHES})
        GROUP BY window(ts, '10 seconds'), symbol""",
}
KEYS: dict[str, str | dict[str, str]] = {
    "pairs": "symbol",
    "counts": "symbol",
    "matches": {"trades": "symbol", "quotes": "sym"},
    "joined": {"trades": "symbol", "quotes": "sym"},
}
STREAMS = {"pairs": "trades", "matches": "trades", "counts": "trades", "joined": "quotes"}
ALARMS = "SELECT ts, symbol, price FROM trades WHERE symbol = :symbol AND price > :limit"
END = BEGIN_US + 3600 * SECOND
HOT, NONE = (int(key) for key in hash_keys(pa.array(["a", None], pa.string())))


def with_hot_key(rows: pa.Table, column: str, share: float, rng: np.random.Generator) -> pa.Table:
    """Give a share of the rows the key 'a', and some none."""
    drawn = rng.random(len(rows))
    symbols = rows[column].to_pylist()
    keys = [
        "a" if at < share else None if at > 0.95 else s
        for at, s in zip(drawn, symbols, strict=True)
    ]
    return rows.set_column(rows.schema.get_field_index(column), column, pa.array(keys))


def split_over(*owners: int) -> Plan:
    """Split the hot and the NULL key of every query over some workers; one owner is a move."""
    tables = {}
    for name, stream in {**STREAMS, "alarms": "trades"}.items():
        if len(owners) == 1:
            tables[name] = RoutingTable.from_entries(np.array([HOT], np.uint64), [owners[0]])
        else:
            tables[name] = RoutingTable().with_splits(
                KeySplit(key, owners, stream) for key in (HOT, NONE)
            )
    return Plan(3, {}, tables)


def test_results_of_split_keys_are_those_of_batch_sql(spark: SparkSession, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    rows = {
        "trades": with_hot_key(trades(rng, 300), "symbol", 0.6, rng),
        "quotes": with_hot_key(quotes(rng, 150), "sym", 0.1, rng),
    }
    for name, whole in rows.items():
        write_batches(tmp_path / name, [*cut(rng, whole, 8), closing(whole, END)])
    play = Play(spark, tmp_path, 3, streams=("trades", "quotes"))
    play.plans = {
        0: split_over(0, 1, 2), 2: split_over(1, 2), 3: split_over(2), 5: split_over(2, 0),
        6: split_over(1, 0, 2),
    }  # fmt: skip
    flow = play.flow()
    for name, sql in QUERIES.items():
        flow.query(name, sql, key=KEYS[name])
    flow.template("alarms", ALARMS, key="symbol")
    flow.subscribe(
        "alarms", [{"subscription": s, "symbol": s, "limit": 20.0} for s in ("a", "b", "c")]
    )
    run = play.run(flow)
    assert dict(run.quarantined) == {}
    assert not run.refused
    split = [m for d in run.decisions for m in d.moves if len(m.owners_after) > 1]
    assert {move.query for move in split} == {*QUERIES, "alarms"}
    tables = {name: pa.concat_tables([whole, closing(whole, END)]) for name, whole in rows.items()}
    for name, sql in QUERIES.items():
        expected = batch_rows(spark, sql, tables)
        if name in ("counts", "joined"):  # the closing row's own windows stay open
            expected = type(expected)({r: n for r, n in expected.items() if r[0].hour < 23})
        assert expected
        assert rows_of(run.results(name)) == expected, name
    alarms = "SELECT symbol AS subscription, ts, symbol, price FROM trades WHERE price > 20"
    expected = batch_rows(spark, f"{alarms} AND symbol IN ('a', 'b', 'c')", tables)
    assert rows_of(run.results("alarms")) == expected
