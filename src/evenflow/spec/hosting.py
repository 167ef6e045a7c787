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
from evenflow.spec.document import Where
from evenflow.spec.models import Hosting, PythonOperator, Query, Template
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
    from evenflow.spec.check import Checker

PARTS = ("queries", "templates", "operators")


def check(checker: "Checker", catalog: Catalog) -> tuple[tuple[str, ...], dict[str, pa.Table]]:
    """Return the order to submit in, and the rows of the templates' subscriptions."""
    spec = checker.spec
    hosted = {name: (part, q) for part in PARTS for name, q in getattr(spec, part).items()}
    if not hosted:
        checker.say(("queries",), "there are none; write at least one query")
    reads = {name: _reads(query) for name, (_, query) in hosted.items()}
    broken: set[str] = set()
    subscriptions: dict[str, pa.Table] = {}
    order = _order(checker, hosted, reads)
    broken |= hosted.keys() - set(order)
    named = {*spec.sources, *spec.tables}
    for name in order:
        part, query = hosted[name]
        before = (reads[name] & hosted.keys()) - named - {name}
        unpublished = sorted(n for n in before if not hosted[n][1].publish)
        if unpublished:
            message = f"reads the query {unpublished[0]!r}, which is not published; set its publish"
            checker.say((part, name), message)
        # What a broken source or query would have given is not known: one message is enough.
        known = {*catalog.streams, *catalog.tables}
        if unpublished or reads[name] & broken or (reads[name] & named) - known:
            broken.add(name)
            continue
        program = _compiled(checker, part, name, query, catalog)
        if program is None:
            broken.add(name)
            continue
        if query.publish:
            catalog = _published(checker, (part, name), program, catalog)
        if isinstance(query, Template) and program.parameters is not None:
            with checker.at(part, name, "subscriptions"):
                subscriptions[name] = _subscriptions(checker, query, program.parameters)
    return tuple(order), subscriptions


def _reads(query: Hosting) -> set[str]:
    """Return the names after FROM; a text that cannot be read has none."""
    if isinstance(query, PythonOperator):
        return set(query.streams)
    if not isinstance(query, Query | Template):
        return set()
    try:
        return {table.name for table in parse_query(query.sql).find_all(exp.Table)}
    except InputError:
        return set()


def _order(
    checker: "Checker", hosted: Mapping[str, tuple[str, Hosting]], reads: Mapping[str, set[str]]
) -> list[str]:
    graph: dict[str, Iterable[str]] = {
        name: sorted(reads[name] & (hosted.keys() - {name})) for name in hosted
    }
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        ring = list(dict.fromkeys(error.args[1]))
        where = (hosted[ring[0]][0], ring[0])
        checker.say(where, f"queries read each other in a ring: {' -> '.join(ring)}; break it")
        return [name for name in hosted if name not in ring]


def _compiled(
    checker: "Checker", part: str, name: str, query: Hosting, catalog: Catalog
) -> Program | OperatorProgram | None:
    if query.worker is not None and query.key is not None:
        checker.say((part, name, "worker"), "a keyed query runs on all workers; leave worker out")
    elif query.worker is not None and query.worker >= checker.spec.workers:
        found = f"got {query.worker}; the workers are 0..{checker.spec.workers - 1}"
        checker.say((part, name, "worker"), found)
    with checker.at(part, name, "class" if isinstance(query, PythonOperator) else "sql"):
        if isinstance(query, PythonOperator):
            operator = import_operator(query.path)
            return compile_operator(name, operator, query.streams, catalog, key=query.key)
        if isinstance(query, Template):
            return compile_template(name, query.sql, catalog, key=query.key)
        if isinstance(query, Query):
            return compile_query(name, query.sql, catalog, key=query.key)
    return None


def _published(
    checker: "Checker", where: Where, program: Program | OperatorProgram, catalog: Catalog
) -> Catalog:
    if program.time is None:
        message = "its result has no event-time column; select the time of a stream or a window"
        checker.say((*where, "publish"), message)
        return catalog
    stream = Stream(program.schema, program.time, max(0, program.lag_us))
    return replace(catalog, streams={**catalog.streams, str(where[1]): stream})


def _subscriptions(checker: "Checker", template: Template, schema: pa.Schema) -> pa.Table:
    asked = template.subscriptions
    if asked is None:
        return schema.empty_table()
    if asked.rows is not None:
        rows = files.table_of(asked.rows, schema)
    elif asked.path is not None:
        rows = files.read_rows(asked.path, checker.folder, schema)
    else:
        rows = _of_dataset(checker, str(asked.dataset), str(asked.part), schema)
    names = rows.column("subscription")
    if names.null_count:
        raise InputError("a subscription has no name; give each one")
    if pc.count_distinct(names).as_py() != len(names):
        raise InputError("two subscriptions have one name; rename one")
    return rows


def _of_dataset(checker: "Checker", dataset: str, part: str, schema: pa.Schema) -> pa.Table:
    data = checker.data.get(dataset)
    if data is None or part not in data.tables:
        tables = ", ".join(sorted(data.tables)) if data else "none"
        raise InputError(f"got {dataset}.{part}; its tables are {tables}")
    rows = data.rows_of(part)
    missing = [name for name in schema.names if name not in rows.column_names]
    if missing:
        found = ", ".join(rows.column_names)
        raise InputError(f"{dataset}.{part} has no column {missing[0]!r}; it has {found}")
    return rows.select(schema.names).cast(schema)
