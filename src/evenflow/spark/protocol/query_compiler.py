"""Compiles definitions of queries: the driver to check a submission, a worker process to run it."""

from evenflow.model.codes import QueryForm
from evenflow.spark.protocol.registry import KeySpec, Registry
from evenflow.sql import (
    Catalog,
    OperatorProgram,
    Program,
    Stream,
    compile_operator,
    compile_query,
    compile_template,
    import_operator,
)

CompiledQuery = Program | OperatorProgram


def sql_catalog(registry: Registry) -> Catalog:
    """Return the streams and tables that queries may read."""
    streams = {n: Stream(s.schema, s.time, max(0, s.delay_us)) for n, s in registry.streams.items()}
    return Catalog(streams, {name: spec.schema for name, spec in registry.tables.items()})


def compile_definition(
    form: str,
    name: str,
    text: str,
    catalog: Catalog,
    *,
    key: KeySpec | None,
    over: tuple[str, ...],
) -> CompiledQuery:
    """Compile a query, a template or an operator over some streams; InputError if it is invalid."""
    if form == QueryForm.QUERY:
        return compile_query(name, text, catalog, key=key)
    if form == QueryForm.TEMPLATE:
        return compile_template(name, text, catalog, key=key)
    return compile_operator(name, import_operator(text), over, catalog, key=key)
