"""Check a specification as a whole, without Spark: names, columns, SQL, files, references."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from evenflow.durations import duration_us
from evenflow.errors import InputError
from evenflow.names import check_name
from evenflow.planning.controller import Balancing
from evenflow.spec import check_queries, files
from evenflow.spec.datasets import BundledDataset, build_dataset
from evenflow.spec.document import Document, FieldPath, SpecProblem
from evenflow.spec.models import InputSpec, ReferenceTableSpec, SinkSpec, Spec
from evenflow.sql import Catalog, Stream, read_schema

# Their columns are given by Spark itself.
_BUILT_IN_SCHEMAS = {"rate": "timestamp TIMESTAMP, value BIGINT"}


@dataclass(frozen=True, slots=True)
class CheckedSpec:
    """A specification that holds together, and what was found out about it.

    folder         what relative paths start from
    schemas        columns of each source and each table
    order          queries, templates and operators: who publishes comes before who reads
    subscriptions  template -> rows
    """

    spec: Spec
    folder: Path
    datasets: Mapping[str, BundledDataset]
    schemas: Mapping[str, pa.Schema]
    order: tuple[str, ...]
    subscriptions: Mapping[str, pa.Table]
    balancing: Balancing | None

    def resolve(self, written: str) -> str:
        """Return a path as Spark should see it: relative ones start at the file's folder."""
        return files.resolve_path(written, self.folder)


@dataclass
class SpecChecker:
    """Collects what is wrong, so that all of it can be said at once."""

    document: Document
    spec: Spec
    folder: Path
    problems: list[SpecProblem] = field(default_factory=list)
    datasets: dict[str, BundledDataset] = field(default_factory=dict)
    schemas: dict[str, pa.Schema] = field(default_factory=dict)
    streams: dict[str, Stream] = field(default_factory=dict)

    @contextmanager
    def problems_at(self, *where: str | int) -> Iterator[None]:
        """Note a refusal of what is done inside as a problem of this field."""
        try:
            yield
        except InputError as error:
            self.add_problem(where, str(error))

    def add_problem(self, where: FieldPath, message: str) -> None:
        """Note a problem."""
        self.problems.append(self.document.problem_at(where, message))

    def check(self) -> CheckedSpec:
        """Check everything."""
        spec = self.spec
        self._check_names()
        with self.problems_at("trigger"):
            duration_us(spec.trigger, "trigger")
        for name, model in spec.datasets.items():
            with self.problems_at("datasets", name):
                self.datasets[name] = build_dataset(model)
        for name, source in spec.sources.items():
            self._check_source(name, source)
        for name, table in spec.tables.items():
            self._check_table(name, table)
        catalog = Catalog(self.streams, {n: s for n, s in self.schemas.items() if n in spec.tables})
        order, subscriptions = check_queries.check_queries(self, catalog)
        for name, sink in spec.sinks.items():
            self._check_sink(name, sink)
        self._check_compare()
        return CheckedSpec(
            spec,
            self.folder,
            self.datasets,
            self.schemas,
            order,
            subscriptions,
            self._build_balancing(),
        )

    def _build_balancing(self) -> Balancing | None:
        if self.spec.balancing is None:
            return None
        said = self.spec.balancing.model_dump()
        try:
            return Balancing(**said)
        except InputError as error:
            # The message begins with the setting it is about.
            name = str(error).split(" ", 1)[0]
            self.add_problem(("balancing", name) if name in said else ("balancing",), str(error))
            return None

    def _check_names(self) -> None:
        taken: dict[str, str] = {}
        for part in ("sources", "tables", "queries", "templates", "operators"):
            for name in getattr(self.spec, part):
                with self.problems_at(part, name):
                    check_name(name, part.removesuffix("s").replace("querie", "query"))
                    if name.lower() in taken:
                        raise InputError(f"the name is taken in {taken[name.lower()]}; rename one")
                taken.setdefault(name.lower(), part)

    def _check_source(self, name: str, source: Any) -> None:
        with self.problems_at("sources", name, "watermark"):
            delay = duration_us(source.watermark, "watermark")
        schema = self._resolve_schema("sources", name, source)
        if schema is None or any(p.field == f"sources.{name}.watermark" for p in self.problems):
            return
        self._check_path("sources", name, source)
        with self.problems_at("sources", name, "time"):
            self.streams[name] = Stream(schema, source.time, delay)

    def _check_table(self, name: str, table: ReferenceTableSpec) -> None:
        schema = self._resolve_schema("tables", name, table)
        if schema is None:
            return
        if table.rows is None:
            self._check_path("tables", name, table)
            return
        with self.problems_at("tables", name, "rows"):
            files.table_from_rows(table.rows, schema)

    def _resolve_schema(self, part: str, name: str, read: InputSpec) -> pa.Schema | None:
        before = len(self.problems)
        if read.dataset is not None:
            self._resolve_dataset_part(part, name, read)
        elif read.columns is not None:
            with self.problems_at(part, name, "schema"):
                self.schemas[name] = read_schema(read.columns)
        elif read.format in _BUILT_IN_SCHEMAS and not read.select:
            self.schemas[name] = read_schema(_BUILT_IN_SCHEMAS[str(read.format)])
        else:
            self.add_problem(
                (part, name, "schema"), "is missing; write 'ts TIMESTAMP, price DOUBLE'"
            )
        return None if len(self.problems) > before else self.schemas.get(name)

    def _resolve_dataset_part(self, part: str, name: str, read: InputSpec) -> None:
        if read.dataset not in self.spec.datasets:
            known = ", ".join(sorted(self.spec.datasets)) or "none"
            self.add_problem((part, name, "dataset"), f"got {read.dataset!r}; datasets are {known}")
            return
        data = self.datasets.get(str(read.dataset))
        if data is None:
            return  # it is wrong itself
        parts = data.streams if part == "sources" else data.tables
        wanted = read.part or name
        if wanted not in parts:
            known = ", ".join(sorted(parts)) or "none"
            where = (part, name, "part" if read.part else "dataset")
            self.add_problem(where, f"got {wanted!r}; {read.dataset} has the {part} {known}")
            return
        self.schemas[name] = parts[wanted]

    def _check_path(self, part: str, name: str, read: InputSpec) -> None:
        if read.format in files.FILE_FORMATS:
            if read.path is None and "path" not in read.options:
                self.add_problem(
                    (part, name, "path"), f"is missing; {read.format} is read from a path"
                )
            elif read.path is not None:
                with self.problems_at(part, name, "path"):
                    files.check_exists(read.path, self.folder)

    def _check_sink(self, name: str, sink: SinkSpec) -> None:
        hosted = {*self.spec.queries, *self.spec.templates, *self.spec.operators}
        wanted = hosted if sink.queries == "*" else set(sink.queries)
        for at, query in enumerate(() if sink.queries == "*" else sink.queries):
            if query not in hosted:
                known = ", ".join(sorted(hosted)) or "none"
                self.add_problem(
                    ("sinks", name, "queries", at), f"got {query!r}; there are {known}"
                )
        if sink.format in files.FILE_FORMATS and sink.path is None:
            self.add_problem(
                ("sinks", name, "path"), f"is missing; {sink.format} is written to a path"
            )
        if sink.path is not None and len(wanted) > 1 and "{query}" not in sink.path:
            message = f"{len(wanted)} queries would write to one path; put {{query}} into it"
            self.add_problem(("sinks", name, "path"), message)

    def _check_compare(self) -> None:
        endless = [
            n for n, s in self.spec.sources.items() if s.format in ("rate", "kafka", "socket")
        ]
        if self.spec.compare is not None and endless:
            message = f"a run can be repeated only over bounded sources, got {', '.join(endless)}"
            self.add_problem(("compare",), message)
