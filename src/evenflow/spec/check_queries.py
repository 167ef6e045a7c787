"""Check queries, templates and operators: order them by who reads whom, compile each."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from evenflow.errors import InputError
from evenflow.spec import files
from evenflow.spec.document import FieldPath
from evenflow.spec.models import HostedSpec, OperatorSpec, QuerySpec, TemplateSpec
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
from evenflow.sql.compile.parse import parse_query

if TYPE_CHECKING:
    from evenflow.spec.check import SpecChecker

QUERY_SECTIONS = ("queries", "templates", "operators")


def check_queries(
    checker: "SpecChecker", catalog: Catalog
) -> tuple[tuple[str, ...], dict[str, pa.Table]]:
    """Return the order to submit in, and the rows of the templates' subscriptions."""
    spec = checker.spec
    hosted = {name: (part, q) for part in QUERY_SECTIONS for name, q in getattr(spec, part).items()}
    if not hosted:
        checker.add_problem(("queries",), "there are none; write at least one query")
    reads = {name: _read_names(query) for name, (_, query) in hosted.items()}
    broken: set[str] = set()
    subscriptions: dict[str, pa.Table] = {}
    order = _publish_order(checker, hosted, reads)
    broken |= hosted.keys() - set(order)
    named = {*spec.sources, *spec.tables}
    for name in order:
        part, query = hosted[name]
        before = (reads[name] & hosted.keys()) - named - {name}
        unpublished = sorted(n for n in before if not hosted[n][1].publish)
        if unpublished:
            message = f"reads the query {unpublished[0]!r}, which is not published; set its publish"
            checker.add_problem((part, name), message)
        # What a broken source or query would have given is not known: one message is enough.
        known = {*catalog.streams, *catalog.tables}
        if unpublished or reads[name] & broken or (reads[name] & named) - known:
            broken.add(name)
            continue
        program = _compile(checker, part, name, query, catalog)
        if program is None:
            broken.add(name)
            continue
        if query.publish:
            catalog = _add_published_stream(checker, (part, name), program, catalog)
        if isinstance(query, TemplateSpec) and program.parameters is not None:
            with checker.problems_at(part, name, "subscriptions"):
                subscriptions[name] = _subscription_rows(checker, query, program.parameters)
    return tuple(order), subscriptions


def _read_names(query: HostedSpec) -> set[str]:
    """Return the names after FROM; a text that cannot be read has none."""
    if isinstance(query, OperatorSpec):
        return set(query.streams)
    if not isinstance(query, QuerySpec | TemplateSpec):
        return set()
    try:
        return {table.name for table in parse_query(query.sql).find_all(exp.Table)}
    except InputError:
        return set()


def _publish_order(
    checker: "SpecChecker",
    hosted: Mapping[str, tuple[str, HostedSpec]],
    reads: Mapping[str, set[str]],
) -> list[str]:
    graph: dict[str, Iterable[str]] = {
        name: sorted(reads[name] & (hosted.keys() - {name})) for name in hosted
    }
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        ring = list(dict.fromkeys(error.args[1]))
        where = (hosted[ring[0]][0], ring[0])
        checker.add_problem(
            where, f"queries read each other in a ring: {' -> '.join(ring)}; break it"
        )
        return [name for name in hosted if name not in ring]


def _compile(
    checker: "SpecChecker", part: str, name: str, query: HostedSpec, catalog: Catalog
) -> Program | OperatorProgram | None:
    if query.worker is not None and query.key is not None:
        checker.add_problem(
            (part, name, "worker"), "a keyed query runs on all workers; leave worker out"
        )
    elif query.worker is not None and query.worker >= checker.spec.workers:
        found = f"got {query.worker}; the workers are 0..{checker.spec.workers - 1}"
        checker.add_problem((part, name, "worker"), found)
    with checker.problems_at(part, name, "class" if isinstance(query, OperatorSpec) else "sql"):
        if isinstance(query, OperatorSpec):
            operator = import_operator(query.path)
            return compile_operator(name, operator, query.streams, catalog, key=query.key)
        if isinstance(query, TemplateSpec):
            return compile_template(name, query.sql, catalog, key=query.key)
        if isinstance(query, QuerySpec):
            return compile_query(name, query.sql, catalog, key=query.key)
    return None


def _add_published_stream(
    checker: "SpecChecker", where: FieldPath, program: Program | OperatorProgram, catalog: Catalog
) -> Catalog:
    if program.time is None:
        message = "its result has no event-time column; select the time of a stream or a window"
        checker.add_problem((*where, "publish"), message)
        return catalog
    stream = Stream(program.schema, program.time, max(0, program.lag_us))
    return replace(catalog, streams={**catalog.streams, str(where[1]): stream})


def _subscription_rows(
    checker: "SpecChecker", template: TemplateSpec, schema: pa.Schema
) -> pa.Table:
    asked = template.subscriptions
    if asked is None:
        return schema.empty_table()
    if asked.rows is not None:
        rows = files.table_from_rows(asked.rows, schema)
    elif asked.path is not None:
        rows = files.read_table_file(asked.path, checker.folder, schema)
    else:
        rows = _dataset_rows(checker, str(asked.dataset), str(asked.part), schema)
    names = rows.column("subscription")
    if names.null_count:
        raise InputError("a subscription has no name; give each one")
    if pc.count_distinct(names).as_py() != len(names):
        raise InputError("two subscriptions have one name; rename one")
    return rows


def _dataset_rows(checker: "SpecChecker", dataset: str, part: str, schema: pa.Schema) -> pa.Table:
    data = checker.datasets.get(dataset)
    if data is None or part not in data.tables:
        tables = ", ".join(sorted(data.tables)) if data else "none"
        raise InputError(f"got {dataset}.{part}; its tables are {tables}")
    rows = data.table_rows(part)
    missing = [name for name in schema.names if name not in rows.column_names]
    if missing:
        found = ", ".join(rows.column_names)
        raise InputError(f"{dataset}.{part} has no column {missing[0]!r}; it has {found}")
    return rows.select(schema.names).cast(schema)
