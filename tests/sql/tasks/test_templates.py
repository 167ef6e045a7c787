"""Templates: one text, many subscriptions, evaluated together."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.support.sql_oracle import CATALOG, SECOND, made

from evenflow.errors import InputError
from evenflow.model import hash_keys
from evenflow.sql import Engine, compile_template

LIMIT = "SELECT ts, price FROM trades WHERE symbol = :symbol AND qty > :limit"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    made_engine = Engine()
    yield made_engine
    made_engine.close()


def subscriptions(*rows: tuple[str, str, int]) -> pa.Table:
    names, symbols, limits = zip(*rows, strict=True)
    return pa.table({"subscription": names, "symbol": symbols, "limit": limits})


def test_parameters_take_the_types_of_their_columns() -> None:
    template = compile_template("t", LIMIT, CATALOG)
    assert template.kind == "template"
    assert template.parameters == pa.schema(
        [("subscription", pa.string()), ("limit", pa.int64()), ("symbol", pa.string())]
    )
    assert template.schema.names == ["subscription", "ts", "price"]
    assert template.key == {"trades": ("symbol",)}
    assert template.subscription_key == ("symbol",)


def test_each_subscription_gets_what_its_own_query_would(engine: Engine) -> None:
    given = made(np.random.default_rng(3), 200, 2, 40)
    template = compile_template("t", LIMIT, CATALOG)
    task = template.open(engine)
    task.subscribe(subscriptions(("s1", "a", 3), ("s2", "b", 0), ("s3", "zz", 0), ("s4", "a", 3)))
    first = task.step({"trades": given.batches[0]["trades"]}, 0).rows
    task.unsubscribe(pa.array(["s1"]))
    task.subscribe(subscriptions(("s2", "c", 5)))  # changed
    saved = task.save()
    task = template.open(engine)
    task.load(saved.manifest, saved.segments.__getitem__)
    second = task.step({"trades": given.batches[1]["trades"]}, 0).rows
    assert rows_of(first) == wanted(
        given.batches[0]["trades"], s1=("a", 3), s2=("b", 0), s4=("a", 3)
    )
    assert rows_of(second) == wanted(given.batches[1]["trades"], s2=("c", 5), s4=("a", 3))
    assert rows_of(second)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("price > :limit", lambda price, limit: price > limit),
        (":limit <= price", lambda price, limit: limit <= price),
        ("price < :limit", lambda price, limit: price < limit),
        ("price BETWEEN :limit AND 50", lambda price, limit: limit <= price <= (0, 50.0)),
    ],
)
def test_rows_beyond_all_subscriptions_are_left_out_unseen(
    engine: Engine, condition: str, holds: Callable[[Any, Any], bool]
) -> None:
    """NaN is above all numbers, as in Spark; NULL is beyond everything."""
    values = [None, float("-inf"), -1.0, -0.0, 7.25, 50.0, float("inf"), float("nan")]
    times = pa.array(range(len(values)), pa.timestamp("us", "UTC"))
    trades = CATALOG.streams["trades"].schema.empty_table()
    given = pa.table({"ts": times, "price": values, "symbol": ["a"] * len(values)})
    filled = [
        given[n] if n in given.column_names else pa.nulls(len(values), trades[n].type)
        for n in trades.column_names
    ]
    given = pa.table(filled, schema=trades.schema)
    task = compile_template("t", f"SELECT ts FROM trades WHERE {condition}", CATALOG).open(engine)
    for number in range(1, len(values) + 1):
        chosen = {f"s{at}": value for at, value in enumerate(values[:number])}
        task.subscribe(pa.table({"subscription": list(chosen), "limit": list(chosen.values())}))
        found = task.step({"trades": given}, 0).rows
        assert sorted(found["subscription"].to_pylist()) == sorted(
            name
            for name, limit in chosen.items()
            for price in values
            if price is not None and limit is not None and holds(_rank(price), _rank(limit))
        )


def _rank(value: float) -> tuple[int, float]:
    return (1, 0.0) if math.isnan(value) else (0, value)


def rows_of(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def wanted(trades: pa.Table, **subscribed: tuple[str, int]) -> list[str]:
    return sorted(
        repr({"subscription": name, "ts": row["ts"], "price": row["price"]})
        for name, (symbol, limit) in subscribed.items()
        for row in trades.to_pylist()
        if row["symbol"] == symbol and row["qty"] > limit
    )


def test_a_windowed_template_groups_per_subscription(engine: Engine) -> None:
    sql = """SELECT window.start AS s, count(*) AS n FROM trades WHERE symbol = :symbol
    GROUP BY window(ts, '10 seconds')"""
    template = compile_template("t", sql, CATALOG)
    assert template.key is None  # the subscription is grouped by, the symbol is not
    task = template.open(engine)
    task.subscribe(pa.table({"subscription": ["x", "y"], "symbol": ["a", "b"]}))
    given = made(np.random.default_rng(5), 100, 1, 5)
    trades = given.batches[0]["trades"]
    task.step({"trades": trades}, 0)
    rows = task.step({}, 1000 * SECOND).rows.to_pylist()
    for name, symbol in (("x", "a"), ("y", "b")):
        counted = sum(row["n"] for row in rows if row["subscription"] == name)
        assert counted == trades["symbol"].to_pylist().count(symbol) > 0


def test_subscriptions_move_with_their_key(engine: Engine) -> None:
    template = compile_template("t", LIMIT, CATALOG)
    task, other = template.open(engine), template.open(engine)
    task.subscribe(subscriptions(("s1", "a", -9), ("s2", "b", -9)))
    moving = hash_keys(pa.array(["b"]))[0]
    blob = task.release(lambda hashes: hashes == moving)
    assert blob is not None
    other.accept(blob)
    trades = made(np.random.default_rng(3), 50, 1, 40).batches[0]["trades"]
    assert set(task.step({"trades": trades}, 0).rows["subscription"].to_pylist()) == {"s1"}
    assert set(other.step({"trades": trades}, 0).rows["subscription"].to_pylist()) == {"s2"}


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT ts FROM trades WHERE qty > 3", "needs parameters with names"),
        ("SELECT ts FROM trades WHERE qty > :subscription", "rename the parameter"),
        ("SELECT ts FROM trades WHERE :a = :b", "type of parameter :b is not known"),
        ("SELECT ts FROM (SELECT ts FROM trades WHERE qty > :a)", "parameters belong in WHERE"),
    ],
)
def test_refused_templates(sql: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        compile_template("t", sql, CATALOG)


def test_subscriptions_of_another_shape_are_refused(engine: Engine) -> None:
    task = compile_template("t", LIMIT, CATALOG).open(engine)
    with pytest.raises(InputError, match="'limit' is missing"):
        task.subscribe(pa.table({"subscription": ["x"], "symbol": ["a"]}))
    with pytest.raises(InputError, match="have the same name"):
        task.subscribe(subscriptions(("x", "a", 1), ("x", "b", 1)))
