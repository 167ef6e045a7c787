"""Whatever the rules let through, DuckDB understands: random expressions over random rows."""

import re
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.sql_oracle import CATALOG, made

from evenflow.errors import InputError
from evenflow.sql import Engine, QueryFailed, compile_query

LEAVES = [
    "qty", "venue", "price", "fee", "symbol", "ts", "1", "-7", "2.5", "3e2", "'a'", "'12'", "NULL",
    "true", "9000000000", "DATE '2026-01-31'", "TIMESTAMP '2026-01-31 10:00:00'", "0", "0.001",
    "CAST(ts AS DATE)", "CAST(venue AS TINYINT)", "CAST(price AS FLOAT)",
    "CAST(fee AS DECIMAL(20,4))",
]  # fmt: skip
SHAPES = [
    "({} + {})", "({} - {})", "({} * {})", "({} / {})", "({} div {})", "({} % {})", "pmod({}, {})",
    "(-{})", "({} = {})", "({} <> {})", "({} < {})", "({} >= {})", "({} <=> {})", "({} AND {})",
    "({} OR {})", "(NOT {})", "({} IS NULL)", "({} IS TRUE)", "({} BETWEEN {} AND {})",
    "({} IN ({}, {}))", "coalesce({}, {})", "greatest({}, {})", "least({}, {})", "nullif({}, {})",
    "nvl2({}, {}, {})", "if({}, {}, {})", "CASE WHEN {} THEN {} ELSE {} END",
    "CASE {} WHEN {} THEN {} END", "abs({})", "ceil({})", "floor({})", "round({})",
    "round({}, 2)", "sqrt({})", "exp({})", "ln({})",
    "power({}, {})", "isnan({})", "try_divide({}, {})", "CAST({} AS INT)", "CAST({} AS BIGINT)",
    "CAST({} AS DOUBLE)", "CAST({} AS STRING)", "CAST({} AS DECIMAL(12,3))", "CAST({} AS DATE)",
    "TRY_CAST({} AS SMALLINT)", "TRY_CAST({} AS DECIMAL(5,1))", "upper({})", "length({})",
    "concat({}, {})", "({} || {})", "substring({}, 1, 2)", "({} LIKE '%a_')", "contains({}, {})",
    "md5({})", "year({})", "hour({})", "date_trunc('hour', {})", "({} + INTERVAL 5 SECONDS)",
    "({} - INTERVAL 1 HOUR)", "unix_micros({})", "unix_seconds({})", "to_date({})",
]  # fmt: skip


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> str:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(LEAVES))
    shape = draw(st.sampled_from(SHAPES))
    return shape.format(*(draw(expressions(depth - 1)) for _ in range(shape.count("{}"))))


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    shared = Engine()
    yield shared
    shared.close()


TRADES = made(np.random.default_rng(2), 30, 1, 40).batches[0]["trades"]
OURS = re.compile("Binder|Parser|Catalog|Internal|Not implemented|Cast Error|Assert")


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(expressions())
def test_what_is_let_through_is_understood(engine: Engine, text: str) -> None:
    try:
        program = compile_query("q", f"SELECT {text} AS x FROM trades", CATALOG)
    except InputError:
        return
    try:
        rows = program.open(engine).step({"trades": TRADES}, 0).rows
    except QueryFailed as failed:
        assert not OURS.search(str(failed)), f"{text}: {failed}"
    else:
        assert rows.schema == program.schema
        assert len(rows) == len(TRADES)
