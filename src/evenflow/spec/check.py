"""Check a specification as a whole, without Spark: names, columns, SQL, files, references."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from evenflow.datasets import Dataset
from evenflow.durations import duration_us
from evenflow.errors import InputError
from evenflow.model.codes import OnBadFile
from evenflow.model.user_function import UserFunction
from evenflow.names import check_name
from evenflow.planning.controller import Balancing
from evenflow.spec import files
from evenflow.spec.check_queries import check_queries
from evenflow.spec.datasets import build_dataset
from evenflow.spec.document import ProblemLog
from evenflow.spec.models import InputSpec, ReferenceTableSpec, Spec
from evenflow.spec.sink_model import SinkSpec, sink_problems
from evenflow.sql import Catalog, Stream, declare_function, read_schema
from evenflow.storage.location import normalize_uri
from evenflow.storage.options import StorageOptions, storage_options

# Formats whose columns Spark defines.
_BUILT_IN_SCHEMAS = {"rate": "timestamp TIMESTAMP, value BIGINT"}
_UNBOUNDED_FORMATS = ("rate", "kafka", "socket")
_NAMED_SECTIONS = {
    "sources": "source",
    "tables": "table",
    "queries": "query",
    "templates": "template",
    "operators": "operator",
}
# They name folders too, but SQL does not see them: each has names of its own.
_OTHER_SECTIONS = {"sinks": "sink", "datasets": "dataset", "tenants": "tenant"}
_TOKEN_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class CheckedSpec:
    """A valid specification, and what the checks derived from it.

    folder         base of relative paths
    schemas        columns of each source and table
    order          queries, templates and operators; a publisher comes before its readers
    subscriptions  template -> rows
    """

    spec: Spec
    folder: Path
    datasets: Mapping[str, Dataset]
    schemas: Mapping[str, pa.Schema]
    order: tuple[str, ...]
    subscriptions: Mapping[str, pa.Table]
    balancing: Balancing | None

    @property
    def storage(self) -> StorageOptions:
        """The options of the storage of the checkpoint."""
        return storage_options(self.spec.storage.model_dump(exclude_none=True))

    def resolve(self, path_or_uri: str) -> str:
        """Return a path for Spark: relative paths start at the folder of the specification."""
        return files.resolve_path(path_or_uri, self.folder)


@dataclass
class SpecChecker:
    """Checks one specification and adds every problem to the log."""

    log: ProblemLog
    spec: Spec
    folder: Path
    datasets: dict[str, Dataset] = field(default_factory=dict)
    schemas: dict[str, pa.Schema] = field(default_factory=dict)
    streams: dict[str, Stream] = field(default_factory=dict)

    def check(self) -> CheckedSpec:
        """Check everything; the result is valid only if the log is empty."""
        spec = self.spec
        self._check_names()
        with self.log.at("trigger"):
            duration_us(spec.trigger, "trigger")
        with self.log.at("checkpoint"):
            normalize_uri(files.resolve_path(spec.checkpoint, self.folder))
        with self.log.at("storage"):
            storage_options(spec.storage.model_dump(exclude_none=True))
        for name, model in spec.datasets.items():
            with self.log.at("datasets", name):
                self.datasets[name] = build_dataset(model)
        for name, source in spec.sources.items():
            self._check_source(name, source)
        for name, table in spec.tables.items():
            self._check_table(name, table)
        functions: dict[str, UserFunction] = {}
        for name, given in spec.functions.items():
            with self.log.at("functions", name):
                functions[name] = declare_function(name, given.path, given.returns, functions)
        tables = {n: s for n, s in self.schemas.items() if n in spec.tables}
        catalog = Catalog(self.streams, tables, functions)
        order, subscriptions = check_queries(self.log, spec, self.folder, self.datasets, catalog)
        self._check_backfills()
        for name, sink in spec.sinks.items():
            self._check_sink(name, sink)
        self._check_compare()
        self._check_tokens()
        self._check_tenants()
        return CheckedSpec(
            spec=spec,
            folder=self.folder,
            datasets=self.datasets,
            schemas=self.schemas,
            order=order,
            subscriptions=subscriptions,
            balancing=self._build_balancing(),
        )

    def _build_balancing(self) -> Balancing | None:
        if self.spec.balancing is None:
            return None
        fields = type(self.spec.balancing).model_fields
        settings = {name: getattr(self.spec.balancing, name) for name in fields}
        try:
            return Balancing(**settings)
        except InputError as error:
            # The message starts with the name of the setting.
            name = str(error).split(" ", 1)[0]
            self.log.add(("balancing", name) if name in settings else ("balancing",), str(error))
            return None

    def _check_names(self) -> None:
        taken: dict[str, str] = {}
        for section, kind in _NAMED_SECTIONS.items():
            self._check_section_names(section, kind, taken)
        for section, kind in _OTHER_SECTIONS.items():
            self._check_section_names(section, kind, {})

    def _check_section_names(self, section: str, kind: str, taken: dict[str, str]) -> None:
        """Check the names of a section; `taken` has those of earlier sections, in lower case."""
        for name in getattr(self.spec, section):
            with self.log.at(section, name):
                check_name(name, kind)
                if name.lower() in taken:
                    other = taken[name.lower()]
                    raise InputError(f"the name is already used in {other}; rename one")
            taken.setdefault(name.lower(), section)

    def _check_source(self, name: str, source: Any) -> None:
        delay = 0  # if it is wrong, the rest is checked all the same
        with self.log.at("sources", name, "watermark"):
            delay = duration_us(source.watermark, "watermark")
        if source.max_ahead is not None:
            with self.log.at("sources", name, "max_ahead"):
                duration_us(source.max_ahead, "max_ahead")
        if source.on_bad_file == OnBadFile.SKIP and source.path is None:
            with self.log.at("sources", name, "on_bad_file"):
                raise InputError("`skip` is for sources that read files from a `path`; remove it")
        schema = self._resolve_schema("sources", name, source)
        if schema is None:
            return
        self._check_path("sources", name, source)
        with self.log.at("sources", name, "time"):
            self.streams[name] = Stream(schema, source.time, delay)

    def _check_table(self, name: str, table: ReferenceTableSpec) -> None:
        schema = self._resolve_schema("tables", name, table)
        if schema is None:
            return
        if table.rows is None:
            self._check_path("tables", name, table)
            return
        with self.log.at("tables", name, "rows"):
            files.table_from_rows(table.rows, schema)

    def _resolve_schema(self, section: str, name: str, read: InputSpec) -> pa.Schema | None:
        before = len(self.log.problems)
        if read.dataset is not None:
            self._resolve_dataset_part(section, name, read)
        elif read.columns is not None:
            with self.log.at(section, name, "schema"):
                self.schemas[name] = read_schema(read.columns)
        elif read.format in _BUILT_IN_SCHEMAS and not read.select:
            self.schemas[name] = read_schema(_BUILT_IN_SCHEMAS[str(read.format)])
        else:
            message = "is required but missing; write for example 'ts TIMESTAMP, price DOUBLE'"
            self.log.add((section, name, "schema"), message)
        return None if len(self.log.problems) > before else self.schemas.get(name)

    def _resolve_dataset_part(self, section: str, name: str, read: InputSpec) -> None:
        if read.dataset not in self.spec.datasets:
            message = f"unknown dataset {read.dataset!r}; datasets: {_names(self.spec.datasets)}"
            self.log.add((section, name, "dataset"), message)
            return
        data = self.datasets.get(str(read.dataset))
        if data is None:
            return  # its own problem is in the log
        parts = data.streams if section == "sources" else data.tables
        part = read.part or name
        if part not in parts:
            kind = "stream" if section == "sources" else "table"
            message = f"dataset {read.dataset!r} has no {kind} {part!r}; {kind}s: {_names(parts)}"
            self.log.add((section, name, "part" if read.part else "dataset"), message)
            return
        self.schemas[name] = parts[part]

    def _check_backfills(self) -> None:
        for name, query in self.spec.queries.items():
            for source, read in query.backfill.items():
                with self.log.at("queries", name, "backfill", source):
                    if source not in self.spec.sources:
                        raise InputError(f"is not a source; sources: {_names(self.spec.sources)}")
                    if read.path is not None and read.format in files.FILE_FORMATS:
                        files.check_exists(read.path, self.folder)

    def _check_path(self, section: str, name: str, read: InputSpec) -> None:
        if read.format not in files.FILE_FORMATS:
            return
        if read.path is not None:
            with self.log.at(section, name, "path"):
                files.check_exists(read.path, self.folder)
        elif "path" not in read.options:
            message = f"is required for the format {read.format}, but missing"
            self.log.add((section, name, "path"), message)

    def _check_sink(self, name: str, sink: SinkSpec) -> None:
        hosted = {*self.spec.queries, *self.spec.templates, *self.spec.operators}
        for place, problem in sink_problems(sink, hosted):
            self.log.add(("sinks", name, *place), problem)

    def _check_tokens(self) -> None:
        for name, token in self.spec.service.tokens.items():
            with self.log.at("service", "tokens", name):
                check_name(name, "token")
                if token.tenant is not None:
                    check_name(token.tenant, "tenant")
                if token.variable is not None and not _TOKEN_VARIABLE.fullmatch(token.variable):
                    # It may be the token itself.
                    raise InputError("`variable` must be the name of an environment variable")

    def _check_tenants(self) -> None:
        for section in ("queries", "templates", "operators"):
            for name, query in getattr(self.spec, section).items():
                if query.tenant is not None:
                    with self.log.at(section, name, "tenant"):
                        check_name(query.tenant, "tenant")

    def _check_compare(self) -> None:
        unbounded = [n for n, s in self.spec.sources.items() if s.format in _UNBOUNDED_FORMATS]
        if self.spec.compare is not None and unbounded:
            message = f"needs bounded sources, but {', '.join(unbounded)} never ends"
            self.log.add(("compare",), message)


def _names(known: Iterable[str]) -> str:
    return ", ".join(sorted(known)) or "none"
