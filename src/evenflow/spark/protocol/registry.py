"""What is hosted: streams, reference tables and queries, as one versioned value.

Every change creates a new version; the ledger says which version is in force in which batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.model.codes import QueryForm
from evenflow.model.facts import facts_html, facts_line
from evenflow.model.user_function import UserFunction
from evenflow.names import join_names
from evenflow.storage.bundle import PartRef

KeyColumns = Mapping[str, tuple[str, ...]]
KeySpec = tuple[str, ...] | KeyColumns  # the same columns in all streams, or per stream


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """Columns of a stream, its event-time column and how late its rows may be.

    The watermark of a source is `delay_us` behind its latest row, that of a derived stream behind
    the watermark of the query that publishes it.
    """

    schema: pa.Schema
    time: str
    delay_us: int
    derived: bool = False


@dataclass(frozen=True, slots=True)
class TableSpec:
    """Columns of a reference table and where its rows are stored."""

    schema: pa.Schema
    rows: PartRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosted:
    """A submitted query.

    uid          unique per submission; a name can be reused after cancel
    form         how it was declared: query, template or operator
    text         SQL, or the import path of the operator's class
    kind         what it compiled to: stateless, aggregate, join, ...
    key          the key as declared
    key_columns  columns of each stream by which rows are split over the workers; None for a whole
                 query, which runs on one worker
    inferred     the key columns it could have
    pin          worker that a whole query must run on
    columns_read columns of each stream that it needs
    tenant       who owns it; None: nobody in particular, without limits
    divided      stream by which a key can be split -> streams whose rows then each go to one owner;
                 rows of the others go to all owners
    isolate      whether an operator runs in a process of its own
    inherits     uids of earlier definitions of this query whose state it goes on with
    continues    uids of earlier definitions whose results, of the same columns, come before its own
    replaces     the query whose place it takes once it has seen enough rows; until then it gives no
                 results
    retained_us  of such a query: how far behind the watermark rows lie that still count
    upsert_key   in update mode: columns that identify a result; None if results never change
    backfill     name of the rows that it takes before those of its streams
    """

    name: str
    uid: str
    form: str
    text: str
    kind: str
    streams: tuple[str, ...]
    schema: pa.Schema
    key: KeySpec | None = None
    key_columns: KeyColumns | None = None
    inferred: KeyColumns | None = None
    publish: bool = False
    pin: int | None = None
    parameters: pa.Schema | None = None
    subscription_key: tuple[str, ...] | None = None
    columns_read: KeyColumns = field(default_factory=dict)
    divided: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    isolate: bool = False
    tenant: str | None = None
    inherits: tuple[str, ...] = ()
    continues: tuple[str, ...] = ()
    replaces: str | None = None
    retained_us: int = 0
    upsert_key: tuple[str, ...] | None = None
    backfill: str | None = None

    def facts(self) -> dict[str, object]:
        """Return what people want to know of a query."""
        keyed = self.key_columns is not None
        found: dict[str, object] = {
            "kind": self.kind if self.form == QueryForm.QUERY else f"{self.form}, {self.kind}",
            "streams": ", ".join(self.streams),
            "key": _columns_text(self.key_columns) if keyed else "none: it runs on one worker",
        }
        if not keyed and self.inferred is not None:
            found["could be keyed by"] = _columns_text(self.inferred)
        if self.pin is not None:
            found["pinned to worker"] = self.pin
        if self.upsert_key is not None:
            found["updates results of the same"] = ", ".join(self.upsert_key)
        if self.isolate:
            found["runs in"] = "a process of its own"
        if self.tenant is not None:
            found["tenant"] = self.tenant
        if self.replaces is not None:
            found["takes the place of"] = self.replaces
        return found | {"columns": ", ".join(self.schema.names)}

    def __repr__(self) -> str:
        return facts_line(f"query {self.name}", self.facts())

    def _repr_html_(self) -> str:
        return facts_html(f"query {self.name}", {**self.facts(), "text": self.text})

    @property
    def pinned(self) -> bool:
        """Whether it must stay on its worker."""
        return self.pin is not None

    @property
    def split_streams(self) -> tuple[str, ...]:
        """The streams by which its keys can be split; none if they cannot."""
        return tuple(self.divided)

    @property
    def promotable(self) -> bool:
        """Whether a plan may turn it from a whole into a keyed query."""
        movable = self.key_columns is None and self.pin is None
        return movable and self.form == QueryForm.QUERY and self.inferred is not None


def _columns_text(columns: KeyColumns | None) -> str:
    """Format key columns; per stream if they differ."""
    found = {stream: ", ".join(names) for stream, names in (columns or {}).items()}
    if len(set(found.values())) == 1:
        return next(iter(found.values()))
    return "; ".join(f"{stream}: {names}" for stream, names in found.items())


@dataclass(frozen=True)  # without slots, for its cached properties
class Registry:
    """Everything hosted in a batch."""

    version: int = 0
    streams: Mapping[str, StreamSpec] = field(default_factory=dict)
    tables: Mapping[str, TableSpec] = field(default_factory=dict)
    queries: Mapping[str, Hosted] = field(default_factory=dict)
    functions: Mapping[str, UserFunction] = field(default_factory=dict)

    def query(self, name: str) -> Hosted:
        """Return a hosted query, or refuse the name."""
        if name not in self.queries:
            raise InputError(f"there is no query {name!r}; there are {join_names(self.queries)}")
        return self.queries[name]

    def with_query(self, query: Hosted, stream: StreamSpec | None = None) -> "Registry":
        """Return the next version with one more query, and the stream it publishes."""
        streams = {**self.streams, query.name: stream} if stream else self.streams
        queries = {**self.queries, query.name: query}
        return replace(self, version=self.version + 1, streams=streams, queries=queries)

    def without_query(self, name: str) -> "Registry":
        """Return the next version without a query; refuse if others read what it publishes."""
        self.query(name)
        readers = [q.name for q in self.queries.values() if name in q.streams and q.name != name]
        if readers:
            raise InputError(f"{name!r} is read by {join_names(readers)}; cancel that first")
        return replace(
            self,
            version=self.version + 1,
            streams={k: v for k, v in self.streams.items() if k != name or not v.derived},
            queries={k: v for k, v in self.queries.items() if k != name},
        )

    def without_stream(self, name: str) -> "Registry":
        """Return the same version without the stream that a query publishes."""
        streams = {k: v for k, v in self.streams.items() if k != name or not v.derived}
        return replace(self, streams=streams)

    def with_switched(self, name: str) -> "Registry":
        """Return the next version with a query in the place that it waits for."""
        query = self.query(name)
        queries = {k: v for k, v in self.queries.items() if k != name}
        queries[str(query.replaces)] = replace(query, name=str(query.replaces), replaces=None)
        return replace(self, version=self.version + 1, queries=queries)

    def sources_of(self, query: Hosted) -> set[str]:
        """Return the sources whose rows reach a query, also through other queries."""
        found: set[str] = set()
        for stream in query.streams:
            publisher = self.queries.get(stream) if self.streams[stream].derived else None
            found |= {stream} if publisher is None else self.sources_of(publisher)
        return found

    def with_pin(self, name: str, worker: int | None) -> "Registry":
        """Return the next version with a query pinned to a worker, or free to move."""
        queries = {**self.queries, name: replace(self.query(name), pin=worker)}
        return replace(self, version=self.version + 1, queries=queries)

    def with_tenant(self, name: str, tenant: str | None) -> "Registry":
        """Return the next version with a query given to a tenant."""
        queries = {**self.queries, name: replace(self.query(name), tenant=tenant)}
        return replace(self, version=self.version + 1, queries=queries)

    def with_backfill(self, name: str, backfill: str | None) -> "Registry":
        """Return the same version with rows that a new query takes first."""
        query = replace(self.query(name), backfill=backfill)
        return replace(self, queries={**self.queries, name: query})

    @cached_property
    def by_uid(self) -> Mapping[str, Hosted]:
        """The queries by their uid."""
        return {query.uid: query for query in self.queries.values()}

    @cached_property
    def _readers(self) -> Mapping[str, tuple[Hosted, ...]]:
        readers: dict[str, list[Hosted]] = {}
        for name in sorted(self.queries):
            for stream in self.queries[name].streams:
                readers.setdefault(stream, []).append(self.queries[name])
        return {stream: tuple(queries) for stream, queries in readers.items()}

    def readers(self, stream: str) -> tuple[Hosted, ...]:
        """Return the queries that read a stream, by name."""
        return self._readers.get(stream, ())

    def needed_columns(self, stream: str) -> tuple[str, ...]:
        """Return the columns of a stream that its queries need, and its time, in stream order."""
        spec = self.streams[stream]
        needed = {spec.time}.union(*(query.columns_read[stream] for query in self.readers(stream)))
        return tuple(column for column in spec.schema.names if column in needed)
