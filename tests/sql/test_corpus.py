"""Everyday queries: nine of ten are accepted, and those answer as Spark's batch SQL does."""

from typing import Any

import pyarrow as pa
import pytest
from tests.sql.test_spark_semantics import spark  # noqa: F401 - a fixture
from tests.support.sql_corpus import QUERIES, SCHEMAS, TABLES, corpus_rows, need_of

from evenflow import run_local
from evenflow.errors import InputError
from evenflow.sql.types import canonical_type

ROWS = corpus_rows()
STREAMS = {name: ROWS[name] for name in SCHEMAS}
REFERENCES = {name: ROWS[name] for name in TABLES}


def answer(sql: str) -> pa.Table:
    return run_local(sql, STREAMS, time="ts", tables=REFERENCES, batches=3, workers=2)


def test_everyday_queries_are_accepted_unless_they_need_a_class_that_is_missing() -> None:
    refused = {}
    for sql in QUERIES:
        try:
            answer(sql)
        except InputError as problem:
            refused[sql] = str(problem)
    unexpected = {sql: text for sql, text in refused.items() if need_of(sql) is None}
    assert not unexpected
    assert {sql for sql in QUERIES if need_of(sql) is not None} == set(refused)
    assert len(QUERIES) >= 150
    assert len(refused) <= len(QUERIES) * 0.12


@pytest.mark.slow
def test_everyday_queries_answer_as_spark_does(spark: Any) -> None:  # noqa: F811
    for name, table in ROWS.items():
        spark.createDataFrame(table).createOrReplaceTempView(name)
    different: list[tuple[Any, ...]] = []
    for sql in QUERIES:
        if need_of(sql) is not None:
            continue
        wanted, got = spark.sql(sql).toArrow(), answer(sql)
        if "QUALIFY row_number() OVER (PARTITION BY window(" in sql:  # a documented difference
            assert wanted.column_names[0] == "window", "Spark no longer adds the window"
            wanted = wanted.drop_columns("window")
        columns = [(field.name, str(canonical_type(field.type))) for field in wanted.schema]
        if [(field.name, str(field.type)) for field in got.schema] != columns:
            different.append((sql, str(got.schema), columns))
        elif lines(got) != lines(wanted):
            pairs = zip(lines(got), lines(wanted), strict=False)
            different.append((sql, [pair for pair in pairs if pair[0] != pair[1]][:1], "rows"))
    assert not different, "\n".join(map(str, different))


def lines(table: pa.Table) -> list[str]:
    """Write rows in an order; sums of DOUBLEs to nine digits, since they depend on the order."""
    return sorted(repr([_plain(value) for value in row.values()]) for row in table.to_pylist())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return f"{value:.9e}" if isinstance(value, float) else value
