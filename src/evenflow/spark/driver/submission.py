"""Submissions: queries as users declare them, checked and compiled into the registry."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.model.codes import QueryForm
from evenflow.names import check_name, join_names
from evenflow.spark.driver.plan_changes import plan_with_query
from evenflow.spark.protocol.registry import Hosted, KeySpec, Registry, StreamSpec
from evenflow.spark.protocol.sql_catalog import sql_catalog
from evenflow.sql import Catalog, CompiledQuery, compile_definition
from evenflow.sql.compile_process import COMPILE_PROCESS
from evenflow.sql.compile_server import CompileRequest
from evenflow.storage import records

MAX_TRIED = 1_000  # subscriptions of one call that are tried
ColumnNames = str | list[str] | tuple[str, ...]
KeyArgument = ColumnNames | Mapping[str, ColumnNames]


@dataclass(frozen=True, slots=True)
class Submission:
    """A query as the user declares it; `apply` adds it to a registry and a plan.

    `form` is query, template or operator; `text` is SQL or the import path of the operator's class,
    which `isolate` runs in a process of its own. `backfill` names stored rows that it takes first.
    """

    form: str
    name: str
    text: str
    key: KeySpec | None = None
    publish: bool = False
    worker: int | None = None
    streams: tuple[str, ...] = ()
    isolate: bool = False
    tenant: str | None = None
    backfill: str | None = None

    def check(self, registry: Registry, plan: Plan) -> None:
        """Refuse a name or a worker that cannot be used."""
        check_name_free(self.name, self.form, registry)
        if self.tenant is not None:
            check_name(self.tenant, "tenant")
        if self.worker is not None and self.key is not None:
            raise InputError(f"{self.name!r} is keyed and runs on all workers; remove `worker`")
        if self.worker is not None and not 0 <= self.worker < plan.workers:
            raise InputError(
                f"{self.name!r} has worker={self.worker}; workers are 0..{plan.workers - 1}"
            )

    def compile(self, registry: Registry) -> CompiledQuery:
        """Compile the query in this process, or refuse it."""
        catalog = sql_catalog(registry)
        return compile_definition(
            self.form, self.name, self.text, catalog, key=self.key, over=self.streams
        )

    def compile_apart(self, registry: Registry) -> "CheckedProgram":
        """Compile SQL in a process with limits; call it without a lock that batches need."""
        catalog = sql_catalog(registry)
        if self.form == QueryForm.OPERATOR:
            return CheckedProgram(self.compile(registry), catalog)
        request = CompileRequest(self.form, self.name, self.text, catalog, self.key)
        return CheckedProgram(COMPILE_PROCESS.compile(request), catalog)

    def apply(
        self, registry: Registry, plan: Plan, checked: "CheckedProgram | None" = None
    ) -> tuple[Registry, Plan]:
        """Add the query, or refuse it; `checked` is its program, if it is compiled already."""
        self.check(registry, plan)
        if checked is not None and checked.is_current(registry):
            program = checked.program
        else:
            program = self.compile(registry)
        query = self.hosted_query(program, registry)
        check_readable(query)
        stream = self.published_stream(program) if self.publish else None
        return registry.with_query(query, stream), plan_with_query(plan, query, self.worker)

    def is_same_definition(self, query: Hosted) -> bool:
        """Tell whether a hosted query has this definition."""
        streams = self.streams or query.streams
        mine = (self.form, self.text, self.key, self.publish, streams, self.isolate)
        theirs = (query.form, query.text, query.key, query.publish, query.streams, query.isolate)
        return mine == theirs

    def hosted_query(self, program: CompiledQuery, registry: Registry) -> Hosted:
        """Return what the registry has of the query."""
        return Hosted(
            name=self.name,
            uid=f"{self.name}@{registry.version + 1}",
            form=self.form,
            text=self.text,
            kind=program.kind,
            streams=program.streams,
            schema=program.schema,
            key=self.key,
            key_columns=program.key if self.key is not None else None,
            inferred=program.key,
            publish=self.publish,
            pin=self.worker,
            parameters=program.parameters,
            subscription_key=program.subscription_key if self.key is not None else None,
            columns_read=program.reads,
            divided=program.divided,
            isolate=self.isolate,
            tenant=self.tenant,
            upsert_key=program.upsert_key,
            backfill=self.backfill,
        )

    def published_stream(self, program: CompiledQuery) -> StreamSpec:
        """Return the stream of the results, or refuse if they have no time."""
        if program.upsert_key is not None:
            raise InputError(
                f"{self.name!r} cannot be published: readers would count each result once per "
                "update; leave UPDATE_MODE out"
            )
        if program.time is None:
            raise InputError(
                f"{self.name!r} cannot be published: its result has no event-time column; "
                "select the time of a stream, or the window's start or end"
            )
        return StreamSpec(program.schema, program.time, program.lag_us, derived=True)


@dataclass(frozen=True, slots=True)
class CheckedProgram:
    """A program, and the streams and tables that it was compiled over."""

    program: CompiledQuery
    catalog: Catalog

    def is_current(self, registry: Registry) -> bool:
        """Tell whether what the program reads is still the same."""
        now, then, program = sql_catalog(registry), self.catalog, self.program
        return all(now.streams.get(n) == then.streams[n] for n in program.streams) and all(
            now.tables.get(n) == then.tables[n] for n in program.tables
        )


def check_readable(query: Hosted) -> None:
    """Refuse a query whose record could be written and not be read: no batch would run again."""
    try:
        records.decode(records.encode(query), Hosted)
    except Exception as error:
        raise InputError(f"{query.name!r} cannot be stored: {type(error).__name__}") from None


def key_spec(key: KeyArgument | None) -> KeySpec | None:
    """Return a key argument as tuples of columns, for all streams or per stream."""
    if key is None:
        return None
    if isinstance(key, Mapping):
        return {stream: _column_tuple(names) for stream, names in sorted(key.items())}
    return _column_tuple(key)


def _column_tuple(names: ColumnNames) -> tuple[str, ...]:
    found = (names,) if isinstance(names, str) else tuple(names)
    if not found:
        raise InputError("a key needs at least one column, got none")
    return found


def check_name_free(name: str, what: str, registry: Registry) -> None:
    """Refuse a name that is not valid or already used."""
    check_name(name, what)
    taken = {known.lower() for known in (*registry.streams, *registry.tables, *registry.queries)}
    if name.lower() in taken:
        raise InputError(f"{name!r} is already used; names in use: {join_names(taken)}")


def subscription_rows(query: Hosted, rows: Any) -> pa.Table:
    """Convert a mapping, a list of mappings, an Arrow table or a DataFrame to subscription rows.

    Each row has the column `subscription` and one for each parameter.
    """
    schema = _parameter_schema(query)
    if isinstance(rows, Mapping):
        rows = [rows]
    if isinstance(rows, list):
        table = _table_from_list(rows, schema)
    else:
        table = rows if isinstance(rows, pa.Table) else rows.toArrow()
    missing = [name for name in schema.names if name not in table.column_names]
    if missing:
        raise InputError(
            f"a subscription of {query.name!r} needs {join_names(schema.names)}; "
            f"{join_names(missing)} is missing"
        )
    try:
        table = table.select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"a subscription of {query.name!r} has a wrong type: {error}") from None
    names = table.column("subscription")
    if names.null_count:
        raise InputError(f"a subscription of {query.name!r} has no name; give each one")
    if len(names.unique()) != len(names):
        raise InputError(f"two subscriptions of {query.name!r} have one name; rename one")
    return table.combine_chunks()


def try_subscriptions(query: Hosted, registry: Registry, rows: pa.Table) -> None:
    """Try a template with new subscriptions, in a process with limits, or refuse them."""
    some = rows.slice(0, MAX_TRIED)
    request = CompileRequest(
        query.form, query.name, query.text, sql_catalog(registry), query.key, some
    )
    COMPILE_PROCESS.compile(request)


def _parameter_schema(query: Hosted) -> pa.Schema:
    if query.parameters is None:
        raise InputError(f"{query.name!r} is not a template, so it has no subscriptions")
    return query.parameters


def _table_from_list(rows: list[Any], schema: pa.Schema) -> pa.Table:
    for row in rows:
        missing = [name for name in schema.names if name not in row]
        if missing:
            raise InputError(
                f"the subscription {dict(row)} lacks {join_names(missing)}; "
                f"give {join_names(schema.names)}"
            )
    try:
        return pa.Table.from_pylist(rows, schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(f"a subscription has a wrong type: {error}") from None
