"""A compiled query: what it reads, what it gives, by which key it can be split; and its tasks."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql.catalog import Catalog
from evenflow.sql.compile import keys
from evenflow.sql.compile.parse import parse_query
from evenflow.sql.compile.select import Compiler
from evenflow.sql.engine import Engine
from evenflow.sql.query_plan import AggregateNode, PlanNode, SelectNode, nodes_bottom_up
from evenflow.sql.tasks.query_task import QueryTask
from evenflow.sql.translate.translator import ParameterTypes
from evenflow.sql.types import STRING, TIMESTAMP, TIMESTAMP_NTZ, check_column_names

KeyArgument = str | tuple[str, ...] | list[str] | Mapping[str, object]


@dataclass(frozen=True)
class Program:
    """A continuous query, ready to run on any worker.

    `time` is the event-time column of the result, if it has one; rows still to come have
    `time >= watermark - lag_us`, so as a derived stream its watermark is the query's minus that.
    `key` is the key that was given, or else the one inferred; None if the query cannot be split.
    `reads` are the columns that must be given of each stream: what is named, the time and the key.
    """

    name: str
    sql: str
    kind: str
    streams: tuple[str, ...]
    tables: tuple[str, ...]
    schema: pa.Schema
    time: str | None
    lag_us: int
    key: Mapping[str, tuple[str, ...]] | None
    reads: Mapping[str, tuple[str, ...]]
    root: PlanNode
    time_columns: Mapping[str, str]
    store_keys: Mapping[tuple[int, str], tuple[str, ...]]
    parameters: pa.Schema | None = None

    @property
    def subscription_key(self) -> tuple[str, ...] | None:
        """The columns of a template's subscriptions that go with the key."""
        return self.store_keys.get((-1, ""))

    @property
    def keyable(self) -> bool:
        """Whether the query can be spread over workers by a key."""
        return self.key is not None

    def open(self, engine: Engine, tables: Mapping[str, pa.Table] | None = None) -> QueryTask:
        """Start on a worker, with no state yet."""
        given = tables or {}
        missing = [name for name in self.tables if name not in given]
        if missing:
            raise InputError(f"query {self.name!r} reads {missing[0]!r}, which was not given")
        return QueryTask(self, engine, {name: given[name] for name in self.tables})


def compile_query(name: str, sql: str, catalog: Catalog, key: KeyArgument | None = None) -> Program:
    """Check a query and compile it, or refuse it with what to write instead.

    >>> from evenflow.sql.catalog import Stream
    >>> schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("price", pa.float64())])
    >>> catalog = Catalog({"trades": Stream(schema, "ts")})
    >>> compile_query("dear", "SELECT price FROM trades WHERE price > 10", catalog).kind
    'stateless'
    """
    try:
        compiler = Compiler(catalog)
        root = compiler.compile(parse_query(sql), {}, strict=False)
        return build_program(name, sql, catalog, root, key, compiler.reads)
    except InputError as error:
        raise InputError(f"query {name!r}: {error}") from None
    except RecursionError:
        raise InputError(f"query {name!r} is nested too deeply; write it flatter") from None


def compile_template(
    name: str, sql: str, catalog: Catalog, key: KeyArgument | None = None
) -> Program:
    """Compile a query with parameters such as :symbol; each subscription gives them values.

    The result begins with the column `subscription`. A parameter has the type of the column it
    is compared with; `program.parameters` is the schema of the subscriptions.
    """
    try:
        root_ast = parse_query(sql)
        found = [str(node.this or "") for node in root_ast.find_all(exp.Placeholder)]
        parameters: ParameterTypes = dict.fromkeys(sorted(found))
        check_column_names(parameters)
        if not found or "" in parameters:
            raise InputError("a template needs parameters with names, such as :symbol")
        if "subscription" in parameters:
            raise InputError(":subscription is the name of the subscription itself; rename it")
        compiler = Compiler(catalog, parameters)
        root = compiler.compile(root_ast, {}, strict=False)
        unused = [n for n, kind in parameters.items() if kind is None]
        if unused:
            raise InputError(f"the type of :{unused[0]} is not known; compare it with a column")
        made = build_program(name, sql, catalog, root, key, compiler.reads)
    except InputError as error:
        raise InputError(f"template {name!r}: {error}") from None
    except RecursionError:
        raise InputError(f"template {name!r} is nested too deeply; write it flatter") from None
    schema = pa.schema([("subscription", STRING), *parameters.items()])
    return replace(made, kind="template", parameters=schema)


def build_program(
    name: str,
    sql: str,
    catalog: Catalog,
    root: PlanNode,
    key: object | None,
    reads: Mapping[str, set[str]],
) -> Program:
    """Gather what others need to know of a compiled tree."""
    nodes = nodes_bottom_up(root)
    blocks = [node for node in nodes if isinstance(node, SelectNode)]
    feeds = [i.feed for b in blocks for i in b.inputs]
    streams = tuple(dict.fromkeys(f for f in feeds if isinstance(f, str)))
    tables = tuple(
        dict.fromkeys(r.table for b in blocks for r in b.references if r.table in catalog.tables)
    )
    split = keys.infer_key(root, catalog, reads)
    if key is not None:
        split = keys.check_key(root, catalog, keys.normalize_key(key, streams), reads)
    timed = [f for f in root.relation.fields if f.time and f.type in (TIMESTAMP, TIMESTAMP_NTZ)]
    lag = 0
    if timed and timed[0].time is not None:
        lag = root.relation.lags_us[timed[0].time.clock] - timed[0].time.offset_us
    return Program(
        name,
        sql,
        _program_kind(nodes, blocks),
        streams,
        tables,
        root.relation.schema,
        timed[0].name if timed else None,
        lag,
        split,
        _columns_to_read(reads, catalog, split or {}),
        root,
        {stream: catalog.streams[stream].time for stream in streams},
        keys.store_keys(root, catalog, split),
    )


def _columns_to_read(
    named: Mapping[str, set[str]], catalog: Catalog, split: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """List what must be given of each stream, in the stream's own order."""
    found = {}
    for stream, columns in named.items():
        wanted = {*columns, catalog.streams[stream].time, *split.get(stream, ())}
        schema = catalog.streams[stream].schema
        found[stream] = tuple(column for column in schema.names if column in wanted)
    return found


def _program_kind(nodes: list[PlanNode], blocks: list[SelectNode]) -> str:
    joins = any(len(block.inputs) > 1 for block in blocks)
    groups = any(isinstance(node, AggregateNode) for node in nodes)
    return {
        (False, False): "stateless",
        (False, True): "aggregate",
        (True, False): "join",
        (True, True): "join_aggregate",
    }[joins, groups]
