"""Python operators: a class over Arrow tables, for what SQL cannot say.

An operator is a pure step from new rows and its state (an Arrow table) to results and the next
state. Since the state is a table, it is saved, moved and split by key like that of any query.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.errors import InputError
from evenflow.sql.catalog import Catalog
from evenflow.sql.compile import keys
from evenflow.sql.engine import Engine
from evenflow.sql.failure import QueryFailed
from evenflow.sql.rows import valid_time_mask
from evenflow.sql.tasks.segments import SegmentStore
from evenflow.sql.tasks.task import StepOutput, Task


class Operator(ABC):
    """Base of Python operators: `schema` of the results, `state` schema of what is kept.

    To be split by a key, `state` must hold the key's columns under their names in the first stream.
    The same rows and state must always give the same answer: a batch may be run again.
    """

    schema: ClassVar[pa.Schema]
    state: ClassVar[pa.Schema]
    time: ClassVar[str | None] = None

    @abstractmethod
    def step(
        self, rows: Mapping[str, pa.Table], state: pa.Table, watermark_us: int
    ) -> tuple[pa.Table, pa.Table]:
        """Return the results of a batch, and the state after it."""

    def next_due_us(self, state: pa.Table) -> int | None:
        """Return the watermark at which the state alone brings results, if it does."""
        return None


@dataclass(frozen=True)
class OperatorProgram:
    """An operator over streams, with the face of a compiled query."""

    name: str
    operator: type[Operator]
    streams: tuple[str, ...]
    key: Mapping[str, tuple[str, ...]] | None
    time_columns: Mapping[str, str]
    reads: Mapping[str, tuple[str, ...]]
    sql: str = ""
    kind: str = "python"
    tables: tuple[str, ...] = ()
    lag_us: int = 0
    parameters: pa.Schema | None = None
    subscription_key: tuple[str, ...] | None = None

    @property
    def schema(self) -> pa.Schema:
        """The result's columns."""
        return self.operator.schema

    @property
    def time(self) -> str | None:
        """The result's event-time column."""
        return self.operator.time

    @property
    def keyable(self) -> bool:
        """Whether it can be spread over workers by a key."""
        return self.key is not None

    def open(self, engine: Engine, tables: Mapping[str, pa.Table] | None = None) -> "OperatorTask":
        """Start on a worker, with no state yet."""
        return OperatorTask(self)


def compile_operator(
    name: str,
    operator: type[Operator],
    streams: Sequence[str],
    catalog: Catalog,
    key: object | None = None,
) -> OperatorProgram:
    """Check an operator: its streams exist, its key can split its state."""
    given = (streams,) if isinstance(streams, str) else tuple(streams)
    for stream in given:
        if stream not in catalog.streams:
            raise InputError(f"operator {name!r} reads {stream!r}, which is no stream")
    for attribute in ("schema", "state"):
        if not isinstance(getattr(operator, attribute, None), pa.Schema):
            raise InputError(f"operator {name!r} needs `{attribute}`, a pyarrow schema")
    split = None
    if key is not None:
        split = keys.normalize_key(key, given)
        for stream in given:
            for column in split.get(stream, ("",)):
                if column not in catalog.streams[stream].schema.names:
                    raise InputError(f"operator {name!r}: {stream!r} has no key column {column!r}")
        missing = [c for c in split[given[0]] if c not in operator.state.names]
        if missing:
            raise InputError(
                f"operator {name!r} cannot be split by {missing[0]!r}: its state has no such "
                "column; add it to `state`"
            )
    if operator.time is not None and operator.time not in operator.schema.names:
        raise InputError(f"operator {name!r}: its time {operator.time!r} is no result column")
    times = {stream: catalog.streams[stream].time for stream in given}
    reads = {stream: tuple(catalog.streams[stream].schema.names) for stream in given}
    return OperatorProgram(name, operator, given, split, times, reads)


class OperatorTask(Task):
    """An operator on one worker."""

    def __init__(self, program: OperatorProgram) -> None:
        self.program = program
        self._operator = program.operator()
        key = program.key[program.streams[0]] if program.key else None
        self._store = SegmentStore(key)

    def step(self, rows: Mapping[str, pa.Table], watermark_us: int) -> StepOutput:
        """Run the operator on a batch."""
        self.watermark_us = max(self.watermark_us, watermark_us)
        timely, late, poison = self._drop_late_and_poison(rows)
        before = self._state_table()
        try:
            result, after = self._operator.step(timely, before, self.watermark_us)
            result, after = (
                result.cast(self.program.schema),
                after.cast(self.program.operator.state),
            )
        except Exception as error:  # whatever the user's code throws ends this query only
            raise QueryFailed("error", f"{type(error).__name__}: {error}") from error
        if after is not before and not after.equals(before):
            self._store.runs = []
            self._store.append(
                after.append_column("_t", pa.nulls(len(after), pa.int64()).fill_null(0))
            )
        return StepOutput(result, late, poison)

    @property
    def next_due_us(self) -> int | None:
        """The watermark at which the operator wants to be called."""
        return self._operator.next_due_us(self._state_table())

    def stores(self) -> Mapping[str, SegmentStore]:
        """Name what is kept."""
        return {"state": self._store}

    def _state_table(self) -> pa.Table:
        empty = self.program.operator.state.empty_table()
        parts = [run.live_rows.drop_columns(["_t"]) for run in self._store.runs]
        return pa.concat_tables([empty, *parts]) if parts else empty

    def _drop_late_and_poison(
        self, rows: Mapping[str, pa.Table]
    ) -> tuple[dict[str, pa.Table], dict[str, int], dict[str, int]]:
        kept: dict[str, pa.Table] = {}
        late: dict[str, int] = {}
        poison: dict[str, int] = {}
        for stream in self.program.streams:
            if stream not in rows:
                continue
            table = rows[stream]
            times = table.column(self.program.time_columns[stream])
            good = valid_time_mask(times)
            moments = times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())
            timely = pc.fill_null(pc.greater_equal(moments, self.watermark_us), False)
            bad = len(table) - int(pc.sum(good).as_py() or 0)
            old = int(pc.sum(pc.and_(good, pc.invert(timely))).as_py() or 0)
            poison |= {stream: bad} if bad else {}
            late |= {stream: old} if old else {}
            kept[stream] = table.filter(pc.and_(good, timely)) if bad or old else table
        return kept, late, poison
