"""Spark SQL expressions to DuckDB expressions with Spark's types and results (ANSI mode, UTC).

Importing this package imports every module of rules, and each registers its rules with
`translator`. Only registered syntax is translated; the rest is refused. Where DuckDB's result
differs from Spark's, a rule writes the difference out: division by zero fails, `/` never divides
integers, casts to integers truncate, `round` rounds the decimal digits that are printed. Functions
whose result depends on when or where they run (`rand`, `current_timestamp`) are refused, because a
batch that runs again must repeat its results.
"""

from evenflow.sql.translate import (
    aggregates,
    arithmetic,
    arrays,
    casts,
    choices,
    conditions,
    date_formats,
    dates,
    functions,
    hashes,
    json_functions,
    lambdas,
    literals,
    maps,
    mathematics,
    patterns,
    statistics,
    strings,
    subqueries,
    value_aggregates,
    window_functions,
)

__all__ = [
    "aggregates",
    "arithmetic",
    "arrays",
    "casts",
    "choices",
    "conditions",
    "date_formats",
    "dates",
    "functions",
    "hashes",
    "json_functions",
    "lambdas",
    "literals",
    "maps",
    "mathematics",
    "patterns",
    "statistics",
    "strings",
    "subqueries",
    "value_aggregates",
    "window_functions",
]
