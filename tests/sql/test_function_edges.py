"""Every function that is registered answers as Spark does on edge values, with Spark's type."""

import re
from typing import Any

import pyarrow as pa
import pytest
from tests.sql.test_spark_semantics import engine, spark  # noqa: F401 - fixtures
from tests.support.function_cases import CASES, INEXACT
from tests.support.function_edges import SCHEMA, edge_rows

from evenflow.sql import Catalog, Engine, Stream, compile_query
from evenflow.sql.translate.registry import FUNCTIONS
from evenflow.sql.types import canonical_type

CATALOG = Catalog({"edges": Stream(SCHEMA, "ts")})
ELSEWHERE = {"window_time", "aggregates", "window functions"}  # of queries with windows


def test_every_function_has_a_case() -> None:
    called = set(
        re.findall(
            r"\b([a-z_0-9]+)\(",
            " ".join(text for texts in CASES.values() for text in texts).lower(),
        )
    )
    missing = [f.name for f in FUNCTIONS.values() if not {f.name, f.topic} & (called | ELSEWHERE)]
    assert not missing
    assert len(FUNCTIONS) >= 300


@pytest.mark.slow
def test_functions_have_sparks_answers_and_types(spark: Any, engine: Engine) -> None:  # noqa: F811
    rows = edge_rows()
    spark.createDataFrame(rows).createOrReplaceTempView("edges")
    differences: list[str] = []
    for topic, texts in CASES.items():
        names = ", ".join(f"{text} AS c{at}" for at, text in enumerate(texts))
        sql = f"SELECT id, {names} FROM edges"
        wanted = spark.sql(sql).toArrow().sort_by("id")
        task = compile_query(topic, sql, CATALOG).open(engine)
        got = task.step({"edges": rows}, -(1 << 62)).rows.sort_by("id")
        task.close()
        for at, text in enumerate(texts):
            mine, theirs = got.column(f"c{at}"), wanted.column(f"c{at}")
            if str(mine.type) != str(canonical_type(theirs.type)):
                differences.append(f"{text}: {mine.type}, not {theirs.type}")
                continue
            is_close = any(name in text for name in INEXACT)
            pairs = zip(plain(mine), plain(theirs), strict=True)
            wrong = [(a, b) for a, b in pairs if a != b and not (is_close and close(a, b))]
            differences += [f"{text}: {wrong[:3]}"] if wrong else []
    assert not differences, "\n".join(differences)


def plain(column: pa.ChunkedArray) -> list[Any]:
    return [_plain(value) for value in column.to_pylist()]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((name, _plain(item)) for name, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return repr(value) if isinstance(value, float) else value


def close(mine: Any, theirs: Any) -> bool:
    """Compare to two units in the last place of a DOUBLE."""
    if mine is None or theirs is None:
        return False
    return abs(float(mine) - float(theirs)) <= 5e-16 * 2 * abs(float(theirs))
