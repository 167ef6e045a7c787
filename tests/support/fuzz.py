"""Rounds of the fuzzer: draw, let both engines answer, shrink what differs."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from tests.support.differential import Difference, Duel, compare_query
from tests.support.function_calls import CallGrammar
from tests.support.sql_grammar import Expr, Grammar
from tests.support.sql_queries import Query, QueryGrammar
from tests.support.sql_values import rows

from evenflow.errors import InputError


@dataclass
class Round:
    """What a round did; refused ones are not compared."""

    generated: int = 0
    compared: int = 0
    differences: list[Difference] = field(default_factory=list)


def expressions(spark: SparkSession, seed: int, count: int, *, failing_rows: int = 1) -> Round:
    """Compare random expressions on adversarial rows."""
    grammar = Grammar(seed)
    drawn = [grammar.expression() for _ in range(count)]
    return _compare(spark, seed, drawn, failing_rows)


def calls(spark: SparkSession, seed: int, count: int, *, failing_rows: int = 1) -> Round:
    """Compare calls of every function on operands of random kinds; most are refused."""
    grammar = CallGrammar(seed)
    return _compare(spark, seed, [grammar.call() for _ in range(count)], failing_rows)


def _compare(spark: SparkSession, seed: int, drawn: list[Expr], failing_rows: int) -> Round:
    duel, count = Duel(spark, rows(seed), failing_rows=failing_rows), len(drawn)
    found = duel.differences(drawn)
    result = Round(count, count - duel.refused)
    for e, _row, difference in found:
        result.differences.append(duel.explain(e) or difference)
    duel.close()
    return result


def queries(
    spark: SparkSession, seed: int, count: int, *, is_known: Callable[[Difference], bool]
) -> Round:
    """Compare random queries; those that differ in no known way are shrunk."""
    grammar, result = QueryGrammar(seed), Round(count)
    data = {
        "t": rows(seed, 40, tame=True),
        "u": rows(seed, 30, tame=True),
        "r": rows(seed + 1, 8, tame=True),
    }
    for _ in range(count):
        query = grammar.query()
        options = {"batches": grammar.rng.choice((1, 3)), "workers": grammar.rng.choice((1, 2))}
        try:
            difference = compare_query(spark, query.sql, data, **options)
        except InputError:
            continue
        result.compared += 1
        if difference is not None:
            if not is_known(difference):
                shrunk = shrink(spark, query, data, **options)
                difference = replace(shrunk, shape=shrunk.sql)
            result.differences.append(difference)
    return result


def shrink(spark: SparkSession, query: Query, data: Mapping[str, pa.Table],
           **options: Any) -> Difference:  # fmt: skip
    """Leave out parts of a query, then rows, as long as the engines differ in the same way."""

    def differs(q: Query, tables: Mapping[str, pa.Table]) -> Difference | None:
        try:
            return compare_query(spark, q.sql, tables, **options)
        except InputError:
            return None

    found = differs(query, data)
    assert found is not None, query.sql
    smaller = True
    while smaller:
        smaller = False
        for candidate in query.smaller():
            other = differs(candidate, data)
            if other is not None and other.category == found.category:
                query, found, smaller = candidate, other, True
                break
    for name in data:
        size = len(data[name]) // 2
        while size:
            at = 0
            while at < len(data[name]):
                rest = pa.concat_tables([data[name].slice(0, at), data[name].slice(at + size)])
                other = differs(query, {**data, name: rest})
                if other is not None and other.category == found.category:
                    data, found = {**data, name: rest}, other
                else:
                    at += size
            size //= 2
    return replace(found, shape=query.shape)


def describe(difference: Difference) -> str:
    """Write a difference as (sql, rows, ours, spark)."""
    lines = [f"{difference.category}: {difference.shape}", f"  sql:   {difference.sql}"]
    for name, table in difference.data.items():
        rows = table.slice(0, 5).to_pydict()
        words = set(re.findall(r"\w+", difference.sql))
        lines += [f"  {name}.{column}: {values}" for column, values in rows.items()
                  if column in words]  # fmt: skip
    lines += [f"  ours:  {difference.ours[:500]}", f"  spark: {difference.spark[:500]}"]
    return "\n".join(lines)
