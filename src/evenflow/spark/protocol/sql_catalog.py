"""What queries may read, for the compiler."""

from evenflow.spark.protocol.registry import Registry
from evenflow.sql import Catalog, Stream


def sql_catalog(registry: Registry) -> Catalog:
    """Return the streams, tables and functions of a registry."""
    streams = {n: Stream(s.schema, s.time, max(0, s.delay_us)) for n, s in registry.streams.items()}
    tables = {name: spec.schema for name, spec in registry.tables.items()}
    return Catalog(streams, tables, registry.functions)
