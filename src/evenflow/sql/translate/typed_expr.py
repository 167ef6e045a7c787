"""Values the compiler passes around: typed expressions, event times, relations."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa

from evenflow.sql import types

# A node of sqlglot's tree. Its classes mix in ways a type checker cannot follow.
Ast: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class EventTime:
    """A value that moves with event time: `base + offset_us`, or a window that begins there.

    A base names a clock of one relation. What the watermark says about the base it says about
    every value derived from it by adding a constant.
    """

    clock: str
    offset_us: int = 0
    width_us: int | None = None

    def shifted(self, by_us: int) -> "EventTime":
        """Return the time later by a constant."""
        return replace(self, offset_us=self.offset_us + by_us)

    def qualified(self, alias: str) -> "EventTime":
        """Return the same time as seen through an input of that alias."""
        return replace(self, clock=f"{alias}\0{self.clock}")

    def window_field(self, name: str) -> "EventTime | None":
        """Return the time of a window's start or end."""
        if self.width_us is None or name not in ("start", "end"):
            return None
        return EventTime(self.clock, self.offset_us + (self.width_us if name == "end" else 0))


@dataclass(frozen=True, slots=True)
class TypedExpr:
    """A DuckDB expression with the Spark type of its value.

    `columns` are the input columns it reads, `column` is set if it is nothing but one of them.
    """

    sql: str
    type: pa.DataType
    columns: frozenset[tuple[str, str]] = frozenset()
    column: tuple[str, str] | None = None
    time: EventTime | None = None
    literal: str | int | None = None

    @property
    def inputs(self) -> frozenset[str]:
        """The aliases it reads."""
        return frozenset(alias for alias, _ in self.columns)

    def cast(self, kind: pa.DataType) -> "TypedExpr":
        """Return the same value in another type, for widening casts only."""
        if kind == self.type or types.duckdb_name(kind) == types.duckdb_name(self.type):
            return replace(self, type=kind)
        sql = f"CAST({self.sql} AS {types.duckdb_name(kind)})"
        return TypedExpr(sql, kind, self.columns)


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a relation."""

    name: str
    type: pa.DataType
    time: EventTime | None = None


@dataclass(frozen=True, slots=True)
class Relation:
    """What stands after FROM: its columns, and how far each clock lags behind the watermark.

    `lags[base]` is L if every row still to come has `base >= watermark - L`. A reference table
    has no clock.
    """

    fields: tuple[Field, ...]
    lags_us: Mapping[str, int] = field(default_factory=dict)
    is_table: bool = False

    def find(self, name: str) -> Field | None:
        """Find a column; like Spark, without regard to case."""
        wanted = name.lower()
        return next((f for f in self.fields if f.name.lower() == wanted), None)

    @property
    def schema(self) -> pa.Schema:
        """The columns as Spark's types."""
        return pa.schema([(f.name, f.type) for f in self.fields])
