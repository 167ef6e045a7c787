"""Answers and types are Spark's own: the same text run by Spark's batch SQL on the same rows."""

import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.support import nexmark_batches as nexmark
from tests.support.sql_cases import CASES
from tests.support.sql_oracle import CATALOG, TABLES, Cluster, made, same

from evenflow.datasets.nexmark import QUERIES, SCHEMAS, SIDE_INPUT
from evenflow.sql import Engine, compile_query
from evenflow.sql.types import canonical_type

pytestmark = pytest.mark.slow

EXPRESSIONS = [
    "pmod(qty, -3)", "CAST(0.001 AS STRING)",
    "qty + 1", "qty + venue", "venue + 1", "venue * venue", "qty - 2L", "venue / 2", "qty / 4",
    "price / 2", "qty div 2", "qty % 3", "pmod(qty, 3)", "-qty", "-price", "price * 2",
    "fee + 1", "fee * 2", "fee - fee", "fee * fee", "fee + qty", "fee * 1.5", "fee + price",
    "1.5", "2e3", "007", "'it''s'", "NULL", "true", "CAST(1 AS TINYINT) + CAST(2 AS SMALLINT)",
    "CAST(price AS INT)", "CAST(fee AS INT)", "CAST(fee AS BIGINT)", "CAST(price AS FLOAT)",
    "CAST(qty AS DOUBLE)", "CAST(qty AS STRING)", "CAST('12' AS INT)", "CAST(' 12 ' AS BIGINT)",
    "CAST(fee AS DOUBLE)", "CAST(qty AS DECIMAL(20,3))", "CAST(fee AS DECIMAL(8,1))",
    "CAST(fee AS STRING)", "CAST(ts AS DATE)", "CAST(ts AS BIGINT)", "TRY_CAST('x' AS INT)",
    "try_divide(qty, 0)", "try_divide(price, 2)", "CAST(venue = 1 AS INT)",
    "round(price / 3, 2)", "round(price)", "round(fee, 1)", "round(qty)", "round(2.675D, 2)",
    "round(-2.5D)", "abs(qty)", "abs(fee)", "ceil(price)", "floor(price / 3)", "sqrt(price)",
    "exp(venue)", "ln(price)", "power(venue, 2)", "greatest(qty, venue)", "least(price, qty)",
    "coalesce(venue, -1)", "coalesce(price, qty)", "nullif(venue, 1)", "nvl(symbol, '?')",
    "if(qty > 2, 'many', 'few')", "CASE WHEN venue = 1 THEN qty WHEN venue = 2 THEN 0 END",
    "CASE venue WHEN 1 THEN 'one' ELSE symbol END", "CASE WHEN venue > 1 THEN 1 ELSE 2.5 END",
    "symbol || '!'", "concat(symbol, symbol)", "upper(symbol)", "length(symbol)",
    "substring(symbol, 1, 1)", "symbol LIKE '%a%'", "startswith(symbol, 'd')", "md5(symbol)",
    "symbol IN ('a', 'b')", "qty IN (1, 2, 3.0)", "qty BETWEEN 1 AND 3", "venue IS NULL",
    "venue IS NOT NULL", "(venue = 1) IS TRUE", "NOT (venue = 1)", "venue <=> NULL",
    "venue = 1 OR qty = 2", "venue = 1 AND qty = 2", "price > fee", "qty > 1.5", "isnan(price)",
    "year(ts)", "month(ts)", "day(ts)", "hour(ts)", "minute(ts)", "second(ts)",
    "date_trunc('minute', ts)", "date_trunc('week', ts)", "ts + INTERVAL 5 SECONDS",
    "ts - INTERVAL '1' MINUTE", "ts > '1970-01-01 00:01:50'", "to_date(ts)", "unix_micros(ts)",
    "unix_millis(ts)", "unix_seconds(ts)", "CAST('2026-01-31' AS DATE)",
    "TIMESTAMP '2026-01-31 12:00:00'", "DATE '2026-01-31'", "CAST(ts AS TIMESTAMP_NTZ)",
    "contains(symbol, 'a')", "endswith(symbol, \"'\")", "ifnull(venue, 7)", "nvl2(venue, 1, 2)",
    "float(price)", "int(price)", "CAST(price AS FLOAT) + venue", "CAST(price AS FLOAT) * fee",
]  # fmt: skip
AGGREGATES = [
    "count(*)", "count(venue)", "count(DISTINCT symbol)", "sum(venue)", "sum(qty)", "sum(price)",
    "sum(fee)", "sum(fee * 2)", "avg(qty)", "avg(price)", "min(symbol)", "max(ts)", "max(fee)",
    "min(venue = 1)", "stddev(price)", "stddev_pop(qty)", "variance(qty)", "var_pop(price)",
    "count_if(venue = 1)", "bool_and(qty > 0)", "every(qty > -9)", "some(qty > 5)",
    "sum(qty) FILTER (WHERE venue = 1)", "sum(qty) / count(*)", "max(qty) - min(qty)",
    "count(DISTINCT venue) FILTER (WHERE qty > 2)", "sum(CAST(price AS FLOAT))",
    "count(venue, qty)", "count(DISTINCT symbol, venue)", "sum(DISTINCT qty)", "avg(DISTINCT qty)",
    "avg(fee)", "avg(fee * 3)", "percentile(price, 0.3)", "percentile(qty, array(0.1, 0.9))",
    "median(qty)", "median(price)", "percentile_approx(qty, 0.5)", "approx_percentile(price, 0.9)",
    "percentile_cont(0.25) WITHIN GROUP (ORDER BY qty)", "percentile_approx(fee, array(0.5, 1.0))",
    "percentile_cont(0.25) WITHIN GROUP (ORDER BY qty DESC)", "approx_count_distinct(qty)",
    "approx_count_distinct(symbol)", "approx_count_distinct(price)",

    "bit_and(qty)", "bit_or(qty)", "bit_xor(venue)", "any(qty > 3)", "sort_array(collect_set(qty))",
    "sort_array(collect_list(venue))", "size(collect_list(price))", "std(qty)", "var_samp(qty)",
    "sum(fee) / count(*)", "median(qty) FILTER (WHERE venue = 1)", "mean(price)",
    "max(DISTINCT qty)", "percentile_disc(0.4) WITHIN GROUP (ORDER BY qty)",
    "percentile_disc(0.25) WITHIN GROUP (ORDER BY price DESC)", "regr_count(price, qty)",
    "regr_avgx(price, qty)", "regr_avgy(price, qty)", "regr_sxx(price, qty)",
    "regr_syy(price, qty)",
    "sort_array(collect_list(symbol) FILTER (WHERE qty > 2))", "stddev_samp(venue)",
]  # fmt: skip


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    made_session = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    made_session.conf.set("spark.sql.session.timeZone", "UTC")
    yield made_session
    if running is None:
        made_session.stop()


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    made_engine = Engine()
    yield made_engine
    made_engine.close()


GIVEN = made(np.random.default_rng(11), 120, 4, 40)


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    for stream in ("trades", "quotes"):
        spark.createDataFrame(GIVEN.all(stream)).createOrReplaceTempView(stream)
    spark.createDataFrame(TABLES["sectors"]).createOrReplaceTempView("sectors")
    return spark


def plain_schema(schema: pa.Schema) -> list[tuple[str, str]]:
    return [(f.name, str(f.type)) for f in schema]


def test_expressions_have_sparks_values_and_types(session: Any, engine: Engine) -> None:
    sql = ", ".join(f"{text} AS c{at}" for at, text in enumerate(EXPRESSIONS))
    check(session, engine, f"SELECT {sql} FROM trades", EXPRESSIONS)


def test_aggregates_have_sparks_values_and_types(session: Any, engine: Engine) -> None:
    sql = ", ".join(f"{text} AS c{at}" for at, text in enumerate(AGGREGATES))
    group = "FROM trades GROUP BY window(ts, '10 seconds', '5 seconds'), symbol"
    check(session, engine, f"SELECT {sql}, window.start, window {group}", AGGREGATES)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_class_of_query_answers_as_spark_does(
    session: Any, engine: Engine, case: str
) -> None:
    check(session, engine, CASES[case][0], [])


@pytest.mark.parametrize("name", QUERIES)
def test_nexmark_answers_as_spark_does(session: Any, engine: Engine, name: str) -> None:
    given = nexmark.cut(1, events=8_000, per_second=200, batches=5)
    for stream in SCHEMAS:
        session.createDataFrame(given.all(stream)).createOrReplaceTempView(stream)
    session.createDataFrame(SIDE_INPUT).createOrReplaceTempView("side_input")
    wanted = session.sql(QUERIES[name]).toArrow()
    program = compile_query(name, QUERIES[name], nexmark.CATALOG)
    assert plain_schema(program.schema) == plain_schema(wanted.schema)
    tables = {"side_input": SIDE_INPUT}
    got = Cluster(program, engine, np.random.default_rng(7), tables).run(given)
    assert len(got) > 0
    same(got, wanted)


def check(session: Any, engine: Engine, sql: str, texts: list[str]) -> None:
    wanted = session.sql(sql).toArrow()
    assert wanted.num_rows > 0
    program = compile_query("q", sql, CATALOG)
    for at, (mine, theirs) in enumerate(zip(program.schema, wanted.schema, strict=True)):
        text = texts[at] if at < len(texts) else mine.name
        assert (text, mine.name, mine.type) == (text, theirs.name, canonical_type(theirs.type))
    got = Cluster(program, engine, np.random.default_rng(7)).run(GIVEN)
    for at, text in enumerate(texts):
        column = (got.select([at]), wanted.select([at]))
        try:
            same(*column)
        except AssertionError as error:
            raise AssertionError(f"{text}: {error}") from None
    same(got, wanted)
