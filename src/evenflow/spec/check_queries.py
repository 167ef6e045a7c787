"""Check queries, templates and operators: sort them topologically and compile each."""

from collections.abc import Mapping
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from evenflow.datasets import Dataset
from evenflow.errors import InputError
from evenflow.model.codes import QueryForm
from evenflow.spec import files
from evenflow.spec.document import FieldPath, ProblemLog
from evenflow.spec.models import HostedSpec, OperatorSpec, QuerySpec, Spec, TemplateSpec
from evenflow.sql import Catalog, CompiledQuery, Stream, compile_definition
from evenflow.sql.compile.parse import parse_query

QUERY_SECTIONS = ("queries", "templates", "operators")


def check_queries(
    log: ProblemLog, spec: Spec, folder: Path, datasets: Mapping[str, Dataset], catalog: Catalog
) -> tuple[tuple[str, ...], dict[str, pa.Table]]:
    """Return the order of submission, and the subscription rows of each template."""
    hosted = {
        name: (section, query)
        for section in QUERY_SECTIONS
        for name, query in getattr(spec, section).items()
    }
    if not hosted:
        log.add(("queries",), "is empty; define at least one query")
    reads = {name: _tables_read(query) for name, (_, query) in hosted.items()}
    order = _submission_order(log, hosted, reads)
    broken = hosted.keys() - set(order)
    inputs = {*spec.sources, *spec.tables}
    subscriptions: dict[str, pa.Table] = {}
    for name in order:
        section, query = hosted[name]
        publishers = (reads[name] & hosted.keys()) - inputs - {name}
        unpublished = sorted(n for n in publishers if not hosted[n][1].publish)
        if unpublished:
            message = f"reads query {unpublished[0]!r}, which is not published; set publish: true"
            log.add((section, name), message)
        # The columns of a broken input are unknown: its own problem is enough.
        known = {*catalog.streams, *catalog.tables}
        program = None
        if not (unpublished or reads[name] & broken or (reads[name] & inputs) - known):
            program = _compile(log, (section, name), query, spec.workers, catalog)
        if program is None:
            broken.add(name)
            continue
        if query.publish:
            catalog = _add_published_stream(log, (section, name), program, catalog)
        if isinstance(query, TemplateSpec) and program.parameters is not None:
            with log.at(section, name, "subscriptions"):
                rows = _subscription_rows(query, program.parameters, folder, datasets)
                subscriptions[name] = rows
    return tuple(order), subscriptions


def _tables_read(query: HostedSpec) -> set[str]:
    """Return the names after FROM; none if the SQL cannot be parsed."""
    if isinstance(query, OperatorSpec):
        return set(query.streams)
    if not isinstance(query, QuerySpec | TemplateSpec):
        return set()
    try:
        return {table.name for table in parse_query(query.sql).find_all(exp.Table)}
    except InputError:
        return set()


def _submission_order(
    log: ProblemLog, hosted: Mapping[str, tuple[str, HostedSpec]], reads: Mapping[str, set[str]]
) -> list[str]:
    graph = {name: sorted(reads[name] & (hosted.keys() - {name})) for name in hosted}
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        cycle = list(dict.fromkeys(error.args[1]))
        message = f"queries read each other in a cycle: {' -> '.join(cycle)}; remove one reference"
        log.add((hosted[cycle[0]][0], cycle[0]), message)
        return [name for name in hosted if name not in cycle]


def _compile(
    log: ProblemLog, where: tuple[str, str], query: HostedSpec, workers: int, catalog: Catalog
) -> CompiledQuery | None:
    name, program = where[1], None
    if query.worker is not None and query.key is not None:
        log.add((*where, "worker"), "a keyed query runs on all workers; remove worker or key")
    elif query.worker is not None and query.worker >= workers:
        log.add((*where, "worker"), f"unknown worker {query.worker}; workers are 0..{workers - 1}")
    with log.at(*where, "class" if isinstance(query, OperatorSpec) else "sql"):
        form, text, over = _definition(query)
        program = compile_definition(form, name, text, catalog, key=query.key, over=over)
    return program


def _definition(query: HostedSpec) -> tuple[QueryForm, str, tuple[str, ...]]:
    """Return form, text and streams as `compile_definition` takes them."""
    if isinstance(query, OperatorSpec):
        return QueryForm.OPERATOR, query.path, tuple(query.streams)
    if isinstance(query, TemplateSpec):
        return QueryForm.TEMPLATE, query.sql, ()
    if isinstance(query, QuerySpec):
        return QueryForm.QUERY, query.text, ()
    raise TypeError(f"{type(query).__name__} is no query, template or operator")


def _add_published_stream(
    log: ProblemLog, where: FieldPath, program: CompiledQuery, catalog: Catalog
) -> Catalog:
    if program.upsert_key is not None:
        log.add((*where, "publish"), "results in update mode cannot be published")
        return catalog
    if program.time is None:
        message = "the result has no event-time column; select the time of a stream or a window"
        log.add((*where, "publish"), message)
        return catalog
    stream = Stream(program.schema, program.time, max(0, program.lag_us))
    return replace(catalog, streams={**catalog.streams, str(where[1]): stream})


def _subscription_rows(
    template: TemplateSpec, schema: pa.Schema, folder: Path, datasets: Mapping[str, Dataset]
) -> pa.Table:
    origin = template.subscriptions
    if origin is None:
        return schema.empty_table()
    if origin.rows is not None:
        rows = files.table_from_rows(origin.rows, schema)
    elif origin.path is not None:
        rows = files.read_table_file(origin.path, folder, schema)
    else:
        rows = _dataset_rows(str(origin.dataset), str(origin.part), schema, datasets)
    names = rows.column("subscription")
    if names.null_count:
        raise InputError("a row has no subscription name; every row needs one")
    if pc.count_distinct(names).as_py() != len(names):
        raise InputError("two rows have the same subscription name; rename one")
    return rows


def _dataset_rows(
    dataset: str, part: str, schema: pa.Schema, datasets: Mapping[str, Dataset]
) -> pa.Table:
    data = datasets.get(dataset)
    if data is None or part not in data.tables:
        tables = ", ".join(sorted(data.tables)) if data else "none"
        raise InputError(f"dataset {dataset!r} has no table {part!r}; tables: {tables}")
    return files.select_columns(data.table_rows(part), schema, f"{dataset}.{part}")
