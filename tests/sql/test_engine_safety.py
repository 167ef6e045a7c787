"""Queries are untrusted: hostile text is refused, and the engine is shut should any get through."""

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.sql_oracle import CATALOG, TABLES

from evenflow.errors import InputError
from evenflow.sql import Engine, QueryFailed, compile_query
from evenflow.sql.deadline_watch import TICK_SECONDS
from evenflow.sql.engine import ROWS_TABLE
from evenflow.sql.spill import EngineMemory

HOSTILE = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM \"/etc/passwd\"",
    "SELECT * FROM `/etc/passwd`",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM parquet_scan('https://example.org/x.parquet')",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM range(1000000000)",
    "SELECT * FROM trades, range(100)",
    "COPY trades TO '/tmp/x'",
    "COPY (SELECT 1) TO '/tmp/x'",
    "EXPORT DATABASE '/tmp/x'",
    "ATTACH '/tmp/x.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET memory_limit = '10GB'",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "CREATE TABLE x AS SELECT 1",
    "DROP VIEW trades",
    "USE x",
    "SELECT query('SELECT 1') AS x FROM trades",
    "SELECT getenv('HOME') AS x FROM trades",
    "SELECT repeat('x', 4000000000) AS x FROM trades",
    "SELECT levenshtein(symbol, symbol) AS x FROM trades",
    "SELECT list_sum(range(300000000)) AS x FROM trades",
    "SELECT sleep_ms(10000) AS x FROM trades",
    "SELECT current_setting('memory_limit') AS x FROM trades",
    "SELECT java_method('java.lang.System', 'exit', 1) AS x FROM trades",
    "SELECT reflect('java.lang.System', 'exit', 1) AS x FROM trades",
    "SELECT error('x') AS x FROM trades",
    "SELECT raise_error('x') AS x FROM trades",
    "SELECT nextval('s') AS x FROM trades",
    "SELECT symbol::json AS x FROM trades",
    "SELECT (SELECT max(qty) FROM quotes) AS x FROM trades",
    "SELECT qty AS x FROM trades WHERE qty > ALL (SELECT v FROM quotes)",
    "SELECT [x for x in [1,2]] AS x FROM trades",
    "SELECT transform(range(9), x -> x + 1) AS x FROM trades",
    "WITH d AS (DELETE FROM trades RETURNING 1) SELECT * FROM d",
    "SELECT * FROM trades AT (VERSION => 1)",
    "SELECT * FROM (VALUES (1), (2)) AS v(x)",
    "TABLE trades",
    "EXPLAIN SELECT qty FROM trades",
    "DESCRIBE trades",
    "SELECT qty FROM trades FOR UPDATE",
]  # fmt: skip


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    made = Engine(memory=EngineMemory(64 << 20), statement_seconds=1.0)
    yield made
    made.close()


@pytest.mark.parametrize("sql", HOSTILE, ids=lambda sql: sql[:50])
def test_hostile_text_is_refused(sql: str) -> None:
    with pytest.raises(InputError):
        compile_query("q", sql, CATALOG)


def test_an_exponential_with_is_refused() -> None:
    steps = ["a0 AS (SELECT qty, ts FROM trades)"]
    steps += [
        f"a{i} AS (SELECT x.qty, x.ts FROM a{i - 1} x JOIN a{i - 1} y ON x.ts = y.ts)"
        for i in range(1, 12)
    ]
    with pytest.raises(InputError, match="more than 64 relations"):
        compile_query("q", f"WITH {', '.join(steps)} SELECT qty FROM a11", CATALOG)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_mangled_text_is_compiled_or_refused_but_never_crashes(data: st.DataObject) -> None:
    more = "window(ts,'1 second') GROUP BY JOIN ON = a.ts count(*) AS n UNION ALL CASE WHEN ( ) ,"
    words = [*" ".join(HOSTILE).split(), *more.split()]
    drawn = data.draw(st.lists(st.sampled_from(words), max_size=25))
    sql = "SELECT " + " ".join(drawn)
    try:
        compile_query("q", sql, CATALOG)
    except InputError as error:
        assert str(error)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM glob('/*')",
        "COPY (SELECT 1) TO '{path}'",
        "ATTACH '{path}'",
        "INSTALL httpfs",
        "SET threads = 8",
        "SET enable_external_access = true",
        "SELECT * FROM engine",  # a Python variable
    ],
)
def test_the_engine_itself_is_shut(engine: Engine, sql: str, tmp_path: Path) -> None:
    with pytest.raises(QueryFailed):
        engine.run(sql.format(path=tmp_path / "x"), {})
    assert list(tmp_path.iterdir()) == []


ENDLESS = (
    "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE (a.range * b.range) % 7 = 8"
)


def test_an_endless_statement_is_stopped(engine: Engine) -> None:
    begin = time.monotonic()
    with pytest.raises(QueryFailed) as failed:
        engine.run(ENDLESS, {})
    assert failed.value.reason == "time"
    assert time.monotonic() - begin < 20
    assert engine.run("SELECT 1 AS x", {})["x"].to_pylist() == [1]


def test_a_batch_has_a_time_limit_of_its_own() -> None:
    engine = Engine(statement_seconds=60)
    begin = time.monotonic()
    with pytest.raises(QueryFailed) as failed, engine.time_limit(0.3):
        engine.run(ENDLESS, {})
    assert failed.value.reason == "time"
    assert time.monotonic() - begin < 20
    with engine.time_limit(30):
        assert engine.run("SELECT 1 AS x", {})["x"].to_pylist() == [1]


def test_a_time_limit_holds_after_a_while_without_work() -> None:
    engine = Engine(statement_seconds=60)
    for _ in range(2):
        with engine.time_limit(30):
            engine.run("SELECT 1 AS x", {})
        time.sleep(6 * TICK_SECONDS)  # the watch has gone to sleep
    begin = time.monotonic()
    with pytest.raises(QueryFailed) as failed, engine.time_limit(0.3):
        engine.run(ENDLESS, {})
    assert failed.value.reason == "time"
    assert time.monotonic() - begin < 20


def test_a_greedy_statement_fails_alone(engine: Engine) -> None:
    with pytest.raises(QueryFailed) as failed:
        engine.run("SELECT list(a.range || 'x' ORDER BY a.range) FROM range(20000000) a", {})
    assert failed.value.reason in ("memory", "time")
    assert engine.run("SELECT 1 AS x", {})["x"].to_pylist() == [1]


def test_a_reference_table_is_kept_once_for_all_its_readers(engine: Engine) -> None:
    sql = "SELECT t.qty, s.sector FROM trades t JOIN sectors s ON t.symbol = s.symbol"
    program = compile_query("q", sql, CATALOG)
    tasks = [program.open(engine, TABLES) for _ in range(3)]
    kept = "SELECT count(*) AS n FROM duckdb_tables() WHERE table_name LIKE 'kept%'"
    assert engine.run(kept, {})["n"].to_pylist() == [1]
    for task in tasks[1:]:
        task.close()
    assert (
        tasks[0].step({"trades": CATALOG.streams["trades"].schema.empty_table()}, 0).rows
        is not None
    )
    tasks[0].close()
    assert engine.run(kept, {})["n"].to_pylist() == [0]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("qty / (qty - qty)", "division by zero"),
        ("qty % (qty - qty)", "division by zero"),
        ("CAST(symbol AS INT)", "not a whole number"),
        ("CAST(9223372036854775807 AS BIGINT) + qty", "[Oo]verflow"),
        ("CAST(qty * 1000 AS TINYINT)", "cannot be converted to TINYINT"),
    ],
)
def test_what_spark_fails_on_fails_here(engine: Engine, expression: str, said: str) -> None:
    task = compile_query("q", f"SELECT {expression} AS x FROM trades", CATALOG).open(engine)
    schema = CATALOG.streams["trades"].schema
    row = dict.fromkeys(schema.names) | {"qty": 7, "symbol": "x"}
    with pytest.raises(QueryFailed, match=said) as failed:
        task.step({"trades": pa.Table.from_pylist([row], schema=schema)}, 0)
    assert failed.value.reason == "error"


def test_one_text_over_two_schemas_is_planned_twice_and_no_more() -> None:
    engine = Engine()
    tables = [pa.table({"a": [1, 2]}), pa.table({"a": ["x", "y"]})]
    for _ in range(3):
        for table in tables:
            assert engine.run_prepared(f'SELECT a FROM "{ROWS_TABLE}"', table).equals(table)
    assert len(engine._statements) == 2
