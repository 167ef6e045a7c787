"""What is hosted: streams, reference tables and queries, as one versioned value.

Every change makes a new version; the ledger says which version holds in which batch.
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.storage.bundle import PartRef

MAX_NAMES_IN_MESSAGE = 20  # names in a message

ColumnsByStream = Mapping[str, tuple[str, ...]]
KeySpec = tuple[str, ...] | ColumnsByStream  # the same columns in all streams, or those of each


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """A stream's columns, its event-time column and how late a row may come.

    A source's watermark is `delay_us` behind the latest row seen, a derived stream's behind the
    watermark of the query that publishes it.
    """

    schema: pa.Schema
    time: str
    delay_us: int
    derived: bool = False


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A reference table and where its rows stand."""

    schema: pa.Schema
    rows: PartRef


@dataclass(frozen=True, slots=True)
class Hosted:
    """A query as it was submitted; `uid` tells its lives under one name apart.

    `form` is query, template or operator, `text` is SQL or where the operator's class is, `kind`
    is what the compiler made of it.

    `key_columns` says by which columns the rows of each stream are split over the workers;
    None is a whole query, which lives on one worker. `inferred` is the key it could have.
    `columns_read` are the columns that it needs of each stream.
    `pin` is the worker that a whole query must run on, if there is one.
    """

    name: str
    uid: str
    form: str
    text: str
    kind: str
    streams: tuple[str, ...]
    schema: pa.Schema
    key: KeySpec | None = None
    key_columns: ColumnsByStream | None = None
    inferred: ColumnsByStream | None = None
    publish: bool = False
    pin: int | None = None
    parameters: pa.Schema | None = None
    subscription_key: tuple[str, ...] | None = None
    columns_read: ColumnsByStream = field(default_factory=dict)

    @property
    def pinned(self) -> bool:
        """Whether it must stay on its worker."""
        return self.pin is not None


@dataclass(frozen=True, slots=True)
class Registry:
    """Everything hosted in a batch."""

    version: int = 0
    streams: Mapping[str, StreamSpec] = field(default_factory=dict)
    tables: Mapping[str, TableSpec] = field(default_factory=dict)
    queries: Mapping[str, Hosted] = field(default_factory=dict)
    _readers: dict[str, tuple[Hosted, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def with_query(self, query: Hosted, stream: StreamSpec | None = None) -> "Registry":
        """Return the next version with one more query, and the stream it publishes."""
        streams = {**self.streams, query.name: stream} if stream else self.streams
        queries = {**self.queries, query.name: query}
        return replace(self, version=self.version + 1, streams=streams, queries=queries)

    def without_query(self, name: str) -> "Registry":
        """Return the next version without a query; refuse if others read what it publishes."""
        if name not in self.queries:
            raise InputError(f"there is no query {name!r}; there are {join_names(self.queries)}")
        readers = [q.name for q in self.queries.values() if name in q.streams and q.name != name]
        if readers:
            raise InputError(f"{name!r} is read by {join_names(readers)}; cancel that first")
        return replace(
            self,
            version=self.version + 1,
            streams={k: v for k, v in self.streams.items() if k != name or not v.derived},
            queries={k: v for k, v in self.queries.items() if k != name},
        )

    def with_pin(self, name: str, worker: int | None) -> "Registry":
        """Return the next version with a query pinned to a worker, or free to move."""
        if name not in self.queries:
            raise InputError(f"there is no query {name!r}; there are {join_names(self.queries)}")
        changed = replace(self.queries[name], pin=worker)
        queries = {**self.queries, name: changed}
        return replace(self, version=self.version + 1, queries=queries)

    def readers(self, stream: str) -> tuple[Hosted, ...]:
        """Return the queries that read a stream, by name."""
        if not self._readers:  # found for all streams at once: both may be many
            found: dict[str, list[Hosted]] = {}
            for name in sorted(self.queries):
                for read in self.queries[name].streams:
                    found.setdefault(read, []).append(self.queries[name])
            self._readers.update({read: tuple(queries) for read, queries in found.items()})
        return self._readers.get(stream, ())

    def needed_columns(self, stream: str) -> tuple[str, ...]:
        """Return the columns of a stream that its queries need, and its time, in its own order."""
        spec = self.streams[stream]
        wanted = {spec.time}.union(*(query.columns_read[stream] for query in self.readers(stream)))
        return tuple(column for column in spec.schema.names if column in wanted)

    def to_record(self) -> dict[str, Any]:
        """Return a JSON value."""
        return {
            "version": self.version,
            "streams": {
                name: [_encode_schema(s.schema), s.time, s.delay_us, s.derived]
                for name, s in self.streams.items()
            },
            "tables": {
                name: [_encode_schema(t.schema), list(t.rows)] for name, t in self.tables.items()
            },
            "queries": {name: query_record(query) for name, query in self.queries.items()},
        }

    @classmethod
    def from_record(cls, record: Any) -> "Registry":
        """Read back what `to_record` gave."""
        streams = {
            name: StreamSpec(_decode_schema(text), time, delay_us, derived)
            for name, (text, time, delay_us, derived) in record["streams"].items()
        }
        tables = {
            name: TableSpec(_decode_schema(text), PartRef(*ref))
            for name, (text, ref) in record["tables"].items()
        }
        queries = {name: query_from_record(value) for name, value in record["queries"].items()}
        return cls(record["version"], streams, tables, queries)


def join_names(names: Iterable[str]) -> str:
    """Name some things in a message.

    >>> join_names(["b", "a"]), join_names([])
    ('a, b', 'none')
    >>> join_names(map(str, range(100, 200)))[-22:]
    '118, 119 and 80 others'
    """
    found = sorted(names)
    if len(found) > MAX_NAMES_IN_MESSAGE:
        return f"{', '.join(found[:MAX_NAMES_IN_MESSAGE])} and {len(found) - MAX_NAMES_IN_MESSAGE:,} others"
    return ", ".join(found) or "none"


def query_record(query: Hosted) -> dict[str, Any]:
    """Return a query as a JSON value."""
    return {
        "name": query.name,
        "uid": query.uid,
        "form": query.form,
        "text": query.text,
        "kind": query.kind,
        "streams": list(query.streams),
        "schema": _encode_schema(query.schema),
        "key": key_record(query.key),
        "keys": _with_lists(query.key_columns),
        "inferred": _with_lists(query.inferred),
        "publish": query.publish,
        "pin": query.pin,
        "parameters": None if query.parameters is None else _encode_schema(query.parameters),
        "subscription_key": query.subscription_key,
        "reads": _with_lists(query.columns_read),
    }


def query_from_record(record: Any) -> Hosted:
    """Read back what `query_record` gave."""
    parameters, by = record["parameters"], record["subscription_key"]
    return Hosted(
        name=record["name"],
        uid=record["uid"],
        form=record["form"],
        text=record["text"],
        kind=record["kind"],
        streams=tuple(record["streams"]),
        schema=_decode_schema(record["schema"]),
        key=key_from_record(record["key"]),
        key_columns=_with_tuples(record["keys"]),
        inferred=_with_tuples(record["inferred"]),
        publish=record["publish"],
        pin=record["pin"],
        parameters=None if parameters is None else _decode_schema(parameters),
        subscription_key=None if by is None else tuple(by),
        columns_read=_with_tuples(record["reads"]) or {},
    )


def key_record(key: KeySpec | None) -> Any:
    """Return a key as a JSON value."""
    return _with_lists(key) if isinstance(key, Mapping) or key is None else list(key)


def key_from_record(record: Any) -> KeySpec | None:
    """Read back what `key_record` gave."""
    return _with_tuples(record) if isinstance(record, dict) or record is None else tuple(record)


def _with_lists(keys: ColumnsByStream | None) -> dict[str, list[str]] | None:
    return None if keys is None else {name: list(columns) for name, columns in keys.items()}


def _with_tuples(keys: Any) -> ColumnsByStream | None:
    return None if keys is None else {name: tuple(columns) for name, columns in keys.items()}


def _encode_schema(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize()).decode()


@lru_cache(maxsize=1024)
def _decode_schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
