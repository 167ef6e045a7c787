"""Sources that get more columns between two starts of a run. Pure functions."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.names import join_names
from evenflow.spark.protocol.registry import Hosted, Registry, StreamSpec
from evenflow.spark.protocol.sql_catalog import sql_catalog
from evenflow.sql import compile_definition


@dataclass(frozen=True, slots=True)
class WidenSource:
    """Give a source more columns."""

    name: str
    schema: pa.Schema

    def apply(self, registry: Registry) -> Registry:
        """Return the next version with the columns; refuse if a hosted query would change."""
        spec = replace(registry.streams[self.name], schema=self.schema)
        streams = {**registry.streams, self.name: spec}
        widened = replace(registry, version=registry.version + 1, streams=streams)
        readers = [query for query in registry.queries.values() if self.name in query.streams]
        changed = [query.name for query in readers if not _is_unchanged(query, widened)]
        if changed:
            raise InputError(
                f"source {self.name!r} has more columns than in the checkpoint, and "
                f"{join_names(changed)} would change by them, as with SELECT *; start with the old "
                "columns and replace it by one that lists its columns, or cancel it"
            )
        return widened


def _is_unchanged(query: Hosted, registry: Registry) -> bool:
    """Tell whether a query reads and returns the same over other streams."""
    catalog = sql_catalog(registry)
    program = compile_definition(
        query.form, query.name, query.text, catalog, key=query.key, over=query.streams
    )
    return program.schema == query.schema and program.reads == query.columns_read


def is_widened(before: StreamSpec, after: StreamSpec | None) -> bool:
    """Tell whether a source is the same, but for columns that were added."""
    if after is None or replace(before, schema=after.schema) != after:
        return False
    columns = {field.name: field.type for field in after.schema}
    return all(columns.get(field.name) == field.type for field in before.schema)


def widened_sources(hosted: Registry, declared: Registry) -> Iterator[WidenSource]:
    """Yield a command for each source that is declared with more columns than it has."""
    for name, spec in hosted.streams.items():
        after = declared.streams.get(name)
        if not spec.derived and after is not None and after != spec and is_widened(spec, after):
            yield WidenSource(name, after.schema)
