"""A sink: its fields, and which of them a format needs."""

from collections.abc import Collection, Iterator
from typing import Literal

from pydantic import Field

from evenflow.names import join_names
from evenflow.spec.base import NameList, SparkOptions, SpecModel
from evenflow.spec.files import FILE_FORMATS

SpecPath = tuple[str | int, ...]
_TABLE_FORMATS = ("iceberg", "jdbc")  # have no path
_NO_PLACE_FORMATS = ("console", "kafka")


class SinkSpec(SpecModel):
    """Destination of results, written batch by batch after the commit."""

    format: str = Field(
        description="Any Spark format: parquet, json, delta, iceberg, jdbc, kafka, console, ..."
    )
    path: str | None = Field(None, description="Output path; `{query}`: name of the query.")
    table: str | None = Field(
        None, description="Table of a catalog or database, instead of `path`; `{query}` as there."
    )
    queries: Literal["*"] | NameList = Field(
        "*",
        union_mode="left_to_right",
        description="Names of queries, templates and operators; default: all.",
    )
    options: SparkOptions = Field({}, description="Options of the format, as Spark names them.")
    select: tuple[str, ...] = Field(
        (),
        description="Spark SQL expressions over the results, for formats that need certain "
        "columns (Kafka: `to_json(struct(*)) AS value`).",
    )


def sink_problems(sink: SinkSpec, hosted: Collection[str]) -> Iterator[tuple[SpecPath, str]]:
    """Yield each problem of a sink for the queries `hosted`: its place and what is wrong.

    >>> list(sink_problems(SinkSpec(format="jdbc"), ["q"]))
    [(('table',), 'is required for the format jdbc, but missing')]
    """
    if sink.queries != "*":
        for index, query in enumerate(sink.queries):
            if query not in hosted:
                yield ("queries", index), f"unknown query {query!r}; queries: {join_names(hosted)}"
    if sink.path is not None and sink.table is not None:
        yield ("table",), "cannot be combined with `path`; remove one of them"
    for field, formats in (("table", _TABLE_FORMATS), ("path", (*FILE_FORMATS, "delta"))):
        if sink.format in formats and sink.path is None and sink.table is None:
            yield (field,), f"is required for the format {sink.format}, but missing"
    if sink.format in _TABLE_FORMATS and sink.path is not None:
        yield ("path",), f"is not valid for the format {sink.format}; use `table`"
    if sink.format in _NO_PLACE_FORMATS and sink.table is not None:
        yield ("table",), f"is not valid for the format {sink.format}; remove it"
    field, place = ("path", sink.path) if sink.path is not None else ("table", sink.table)
    count = len(hosted) if sink.queries == "*" else len(set(sink.queries))
    if place is not None and count > 1 and "{query}" not in place:
        yield (field,), f"{count} queries would write to the same {field}; add {{query}} to it"
