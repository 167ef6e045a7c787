"""Compiled queries and templates: what they read and return, their key, and their tasks."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from evenflow.errors import InputError, shorten
from evenflow.model.codes import QueryKind
from evenflow.sql.catalog import Catalog
from evenflow.sql.compile.hints import late_rows_only, read_hints
from evenflow.sql.compile.keys import QueryKeys, normalize_key
from evenflow.sql.compile.order_by import order_sql
from evenflow.sql.compile.parse import parse_query
from evenflow.sql.compile.problems import describe
from evenflow.sql.compile.select import Compiler
from evenflow.sql.compile.update_mode import as_updates
from evenflow.sql.engine import Engine
from evenflow.sql.query_plan import (
    SUBSCRIPTIONS_STORE,
    AggregateNode,
    AnalyticNode,
    PlanNode,
    QueryPlan,
    SelectNode,
    nodes_bottom_up,
    source_streams,
    written_characters,
)
from evenflow.sql.split_plan import divided_streams
from evenflow.sql.tasks.query_task import QueryTask
from evenflow.sql.translate.translator import ParameterTypes
from evenflow.sql.translate.typed_expr import Ast
from evenflow.sql.types import STRING, check_column_names, is_timestamp

MAX_CHARACTERS_WRITTEN = 500_000  # of all statements that a query runs in a batch
KeyArgument = str | tuple[str, ...] | list[str] | Mapping[str, object]


@dataclass(frozen=True)
class Program:
    """A compiled query or template, ready to run on any worker.

    `kind` is stateless, aggregate, join, join_aggregate or template. `time` is the event-time
    column of the result, if it has one; results still to come have `time >= watermark - lag_us`.
    `key` is the given or inferred key, None if the query cannot be split. `reads` are the columns
    that a task needs of each stream: those the query uses, the time and the key. `divided` maps
    each stream by which a hot key can be split to the streams whose rows are then divided.
    """

    name: str
    sql: str
    kind: str
    streams: tuple[str, ...]
    tables: tuple[str, ...]
    time: str | None
    lag_us: int
    key: Mapping[str, tuple[str, ...]] | None
    reads: Mapping[str, tuple[str, ...]]
    plan: QueryPlan
    divided: Mapping[str, tuple[str, ...]]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return self.plan.root.relation.schema

    @property
    def parameters(self) -> pa.Schema | None:
        """The schema of a template's subscriptions."""
        return self.plan.parameters

    @property
    def upsert_key(self) -> tuple[str, ...] | None:
        """In update mode the columns that identify a result; None if results never change."""
        return self.plan.upsert_key

    @property
    def subscription_key(self) -> tuple[str, ...] | None:
        """The key's columns in a template's subscriptions."""
        return self.plan.store_keys.get(SUBSCRIPTIONS_STORE)

    @property
    def keyable(self) -> bool:
        """Whether the query can be split over workers by a key."""
        return self.key is not None

    def open(self, engine: Engine, tables: Mapping[str, pa.Table] | None = None) -> QueryTask:
        """Open a task with empty state on a worker."""
        tables = tables or {}
        missing = [name for name in self.tables if name not in tables]
        if missing:
            raise InputError(f"query {self.name!r} needs the table {missing[0]!r}; pass it")
        return QueryTask(self.plan, engine, {name: tables[name] for name in self.tables})


def compile_query(name: str, sql: str, catalog: Catalog, key: KeyArgument | None = None) -> Program:
    """Check and compile a query; a refusal says what to write instead.

    >>> from evenflow.sql.catalog import Stream
    >>> schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("price", pa.float64())])
    >>> catalog = Catalog({"trades": Stream(schema, "ts")})
    >>> str(compile_query("dear", "SELECT price FROM trades WHERE price > 10", catalog).kind)
    'stateless'
    """
    with _errors_of(f"query {name!r}", sql):
        compiler = Compiler(catalog)
        ast = parse_query(sql)
        root = compiler.compile(ast, {}, drop_late=False)
        return _build_program(name, sql, ast, compiler, root, key)


def compile_template(
    name: str, sql: str, catalog: Catalog, key: KeyArgument | None = None
) -> Program:
    """Compile a query with parameters such as :symbol, whose values each subscription gives.

    The result starts with the column `subscription`. A parameter has the type of the column that it
    is compared with; `program.parameters` is the schema of the subscriptions.
    """
    with _errors_of(f"template {name!r}", sql):
        ast = parse_query(sql)
        names = {str(node.this or "") for node in ast.find_all(exp.Placeholder)}
        parameters: ParameterTypes = dict.fromkeys(sorted(names))
        check_column_names(parameters)
        if not names or "" in names:
            raise InputError("a template needs parameters with names, such as :symbol")
        if len({name.lower() for name in names}) < len(names):
            raise InputError("two parameters differ only in case; rename one")
        if "subscription" in {name.lower() for name in names}:
            raise InputError(":subscription is the name of the subscription; rename the parameter")
        compiler = Compiler(catalog, parameters)
        root = compiler.compile(ast, {}, drop_late=False)
        untyped = [name for name, kind in parameters.items() if kind is None]
        if untyped:
            raise InputError(f"the type of :{untyped[0]} is not known; compare it with a column")
        program = _build_program(name, sql, ast, compiler, root, key)
    schema = pa.schema([("subscription", STRING), *parameters.items()])
    return replace(program, kind=QueryKind.TEMPLATE, plan=replace(program.plan, parameters=schema))


@contextmanager
def _errors_of(name: str, sql: str) -> Iterator[None]:
    """Prefix errors with the name of the query; tell their places in its text."""
    try:
        yield
    except InputError as error:
        raise InputError(shorten(f"{name}: {describe(error, sql)}")) from None
    except RecursionError:
        raise InputError(f"{name} is nested too deeply; use fewer levels") from None


def _build_program(
    name: str, sql: str, ast: Ast, compiler: Compiler, root: PlanNode, key: object | None
) -> Program:
    upsert_key: tuple[str, ...] | None = None
    hints, order = read_hints(ast), order_sql(ast, root.relation, compiler.parameters is not None)
    if hints.updates:
        root, upsert_key = as_updates(root)
    if hints.late_us is not None:
        root = late_rows_only(root, hints.late_us)
    catalog, reads, nodes = compiler.catalog, compiler.reads, nodes_bottom_up(root)
    if (written := sum(map(written_characters, nodes))) > MAX_CHARACTERS_WRITTEN:
        raise InputError(
            f"the query becomes {written:,} characters of SQL for the engine; the limit is "
            f"{MAX_CHARACTERS_WRITTEN:,}; split it"
        )
    streams = source_streams(root)
    selects = [node for node in nodes if isinstance(node, SelectNode)]
    references = [r.table for node in selects for r in node.references]
    references += [table for node in selects for table in node.subquery_tables]
    keys = QueryKeys(root, catalog, reads)
    split = keys.infer() if key is None else keys.check(normalize_key(key, streams))
    time, lag_us = None, 0
    for column in root.relation.fields:
        # Late rows come after the watermark, so they cannot be a stream of their own.
        if hints.late_us is None and column.time is not None and is_timestamp(column.type):
            time = column.name
            lag_us = root.relation.lags_us[column.time.clock] - column.time.offset_us
            break
    return Program(
        name=name,
        sql=sql,
        kind=_program_kind(nodes),
        streams=streams,
        tables=tuple(dict.fromkeys(table for table in references if table in catalog.tables)),
        time=time,
        lag_us=lag_us,
        key=split,
        reads=_columns_to_read(reads, catalog, split or {}),
        plan=QueryPlan(
            root=root,
            time_columns={stream: catalog.streams[stream].time for stream in streams},
            store_keys=keys.store_keys(split),
            functions=tuple(compiler.functions.calls.values()),
            order=order,
            upsert_key=upsert_key,
        ),
        divided={} if split is None or upsert_key is not None else divided_streams(root),
    )


def _columns_to_read(
    used: Mapping[str, set[str]], catalog: Catalog, key: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """List the columns to read of each stream, in the order of its schema."""
    reads = {}
    for name, columns in used.items():
        stream = catalog.streams[name]
        needed = {*columns, stream.time, *key.get(name, ())}
        reads[name] = tuple(column for column in stream.schema.names if column in needed)
    return reads


def _program_kind(nodes: list[PlanNode]) -> str:
    joins = any(isinstance(node, SelectNode) and len(node.inputs) > 1 for node in nodes)
    aggregates = any(isinstance(node, AggregateNode | AnalyticNode) for node in nodes)
    if aggregates:
        return QueryKind.JOIN_AGGREGATE if joins else QueryKind.AGGREGATE
    return QueryKind.JOIN if joins else QueryKind.STATELESS
