"""Python operators as programs: checked against a catalog, with the interface of `Program`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.model.codes import QueryKind
from evenflow.sql.catalog import Catalog
from evenflow.sql.compile.keys import normalize_key
from evenflow.sql.engine import Engine
from evenflow.sql.python_operator import Operator
from evenflow.sql.tasks.operator import OperatorTask
from evenflow.sql.types import is_timestamp


@dataclass(frozen=True)
class OperatorProgram:
    """A Python operator over streams, with the same attributes as a `Program`."""

    name: str
    operator: type[Operator]
    streams: tuple[str, ...]
    key: Mapping[str, tuple[str, ...]] | None
    time_columns: Mapping[str, str]
    reads: Mapping[str, tuple[str, ...]]
    sql: str = ""
    kind: str = QueryKind.PYTHON
    tables: tuple[str, ...] = ()
    lag_us: int = 0
    parameters: pa.Schema | None = None
    subscription_key: tuple[str, ...] | None = None
    upsert_key: tuple[str, ...] | None = None
    divided: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return self.operator.schema

    @property
    def time(self) -> str | None:
        """The event-time column of the result."""
        return self.operator.time

    @property
    def keyable(self) -> bool:
        """Whether the operator can be split over workers by a key."""
        return self.key is not None

    def open(self, engine: Engine, tables: Mapping[str, pa.Table] | None = None) -> OperatorTask:
        """Open a task with empty state on a worker."""
        key = self.key[self.streams[0]] if self.key else None
        return OperatorTask(self.operator(), self.time_columns, key)


def compile_operator(
    name: str,
    operator: type[Operator],
    streams: Sequence[str],
    catalog: Catalog,
    key: object | None = None,
) -> OperatorProgram:
    """Check an operator: its streams exist, its key can split its state."""
    names = (streams,) if isinstance(streams, str) else tuple(streams)
    if not names:
        raise InputError(f"operator {name!r} reads no stream; give at least one")
    for stream in names:
        if stream not in catalog.streams:
            raise InputError(f"operator {name!r} reads {stream!r}, which is not a stream")
    for attribute in ("schema", "state"):
        if not isinstance(getattr(operator, attribute, None), pa.Schema):
            raise InputError(f"operator {name!r} needs `{attribute}`, a pyarrow schema")
    split = None
    if key is not None:
        split = normalize_key(key, names)
        for stream in names:
            for column in split.get(stream, ("",)):
                if column not in catalog.streams[stream].schema.names:
                    raise InputError(f"operator {name!r}: {stream!r} has no key column {column!r}")
        missing = [c for c in split[names[0]] if c not in operator.state.names]
        if missing:
            raise InputError(
                f"operator {name!r} cannot be split by {missing[0]!r}: its state has no such "
                "column; add it to `state`"
            )
    if operator.time is not None and operator.time not in operator.schema.names:
        raise InputError(f"operator {name!r}: its time {operator.time!r} is not in its schema")
    if operator.time is not None and not is_timestamp(operator.schema.field(operator.time).type):
        raise InputError(f"operator {name!r}: its time {operator.time!r} is not a TIMESTAMP")
    return OperatorProgram(
        name=name,
        operator=operator,
        streams=names,
        key=split,
        time_columns={stream: catalog.streams[stream].time for stream in names},
        reads={stream: tuple(catalog.streams[stream].schema.names) for stream in names},
        divided=dict.fromkeys(names, names) if split and operator.has_merge() else {},
    )
