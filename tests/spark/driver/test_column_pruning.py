"""Only the columns that some query needs are brought to Python; nothing shows it but the time."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.support.poll import until
from tests.support.spark_harness import SECOND, Play, rows_of, stream, trades, write_batches

from evenflow.model import Plan
from evenflow.spark.driver.column_pruning import (
    covers_columns,
    needed_columns,
    prune_columns,
)
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.envelope import POISON_REST_COLUMN
from evenflow.spark.protocol.registry import Registry, StreamSpec
from evenflow.spark.worker.router import restore_poison_rows, select_needed
from evenflow.storage.records import decode, encode

SCHEMA = trades(np.random.default_rng(0), 1).schema
SOURCES = Registry(0, {"trades": StreamSpec(SCHEMA, "ts", 5 * SECOND)})
NEEDS = {
    "SELECT price AS p FROM trades": ("ts", "price"),
    "SELECT * FROM trades": ("ts", "symbol", "venue", "price", "qty"),
    "SELECT count(*) AS n FROM trades GROUP BY window(ts, '10 seconds')": ("ts",),
    """SELECT a.ts FROM trades a JOIN (SELECT ts, symbol FROM trades WHERE qty > 1) b
       ON a.symbol = b.symbol AND a.ts = b.ts""": ("ts", "symbol", "qty"),
    "SELECT symbol FROM trades UNION ALL SELECT symbol FROM trades WHERE venue = 1": (
        "ts", "symbol", "venue",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("sql", "columns"), NEEDS.items())
def test_a_query_needs_what_it_names_and_the_time(sql: str, columns: tuple[str, ...]) -> None:
    registry, _ = Submission("query", "q", sql).apply(SOURCES, _plan())
    assert registry.needed_columns("trades") == columns
    again = decode(encode(registry), Registry)
    assert again.needed_columns("trades") == columns


def test_a_key_a_parameter_and_an_operator_count() -> None:
    keyed = Submission("query", "q", "SELECT price FROM trades", ("venue",))
    template = Submission("template", "t", "SELECT ts FROM trades WHERE symbol = :s")
    operator = Submission("operator", "o", "tests.support.operators:Counter", streams=("trades",))
    found = [one.apply(SOURCES, _plan())[0] for one in (keyed, template, operator)]
    assert [registry.needed_columns("trades") for registry in found] == [
        ("ts", "venue", "price"),
        ("ts", "symbol"),
        tuple(SCHEMA.names),
    ]
    both = needed_columns(found[:2], ["trades"])
    assert both == {"trades": ("ts", "symbol", "venue", "price")}
    assert covers_columns(both, needed_columns(found[:1], ["trades"]))
    assert not covers_columns(both, needed_columns(found, ["trades"]))
    with pytest.raises(RuntimeError, match="'qty'"):
        select_needed(pa.table({"ts": [1]}), SCHEMA, ["ts", "qty"])


def test_rows_set_aside_stay_whole_and_a_later_query_gets_more_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = trades(np.random.default_rng(1), 20)
    times = pa.array([None, *rows["ts"].to_pylist()[1:]], rows.schema.field("ts").type)
    rows = rows.set_column(0, "ts", times)
    write_batches(tmp_path / "trades", [rows])
    source = prune_columns(stream(spark, tmp_path, "trades"), ("ts", "price"), "ts", None)
    assert source.columns == ["ts", "price", POISON_REST_COLUMN]
    flow = Play(spark, tmp_path, workers=2).flow()
    flow.query("dear", "SELECT ts, price FROM trades WHERE price > 50")
    run = flow.start(trigger="100 milliseconds")
    try:
        until(lambda: run.watermarks.get("trades") is not None, run)
        assert rows_of(run.poison("trades")) == {tuple(rows.slice(0, 1).to_pylist()[0].values()): 1}
        run.submit("all", "SELECT * FROM trades")
        until(lambda: "all" in run.queries, run)
        more = trades(np.random.default_rng(2), 30)
        write_batches(tmp_path / "trades", [more], first=1)
        until(lambda: run.results("all").count() > 0, run)
    finally:
        run.stop()
    assert dict(run.quarantined) == {}
    assert run.results("all").toArrow().cast(SCHEMA).sort_by("ts") == more.sort_by("ts")
    dear = [row["price"] for row in (*rows.slice(1).to_pylist(), *more.to_pylist())]
    assert run.results("dear").count() == sum(price > 50 for price in dear)


def test_whole_rows_need_no_rest_where_nothing_was_left_out() -> None:
    rows = trades(np.random.default_rng(1), 3)
    assert restore_poison_rows(rows, SCHEMA) == rows


def _plan() -> Plan:
    return Plan(2)
