"""Relations: the columns of an item after FROM, and which of them are event times."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from evenflow.sql.types import check_levels

ColumnRef = tuple[str, str]  # alias in FROM, column
_FLOOR = "\x1f"  # between the parts of the name of a floored clock


@dataclass(frozen=True, slots=True)
class EventTime:
    """A value that moves with event time: `clock + offset_us`, or a window that starts there.

    `clock` names an event-time column of one relation. A bound on the clock is a bound on every
    value derived from it by adding a constant.
    """

    clock: str
    offset_us: int = 0
    width_us: int | None = None

    def shifted(self, by_us: int) -> "EventTime":
        """Return the time plus a constant."""
        return replace(self, offset_us=self.offset_us + by_us)

    def qualified(self, alias: str) -> "EventTime":
        """Return the time as a column of the input with this alias."""
        return replace(self, clock=f"{alias}\0{self.clock}")

    def floored(self, spans: str, span_us: int, width_us: int | None = None) -> "EventTime":
        """Return the start of the span that the time is in, as a clock of its own.

        `spans` names the way in which time is cut into spans of at most `span_us`.
        """
        clock = _FLOOR.join((self.clock, str(self.offset_us), str(span_us), spans))
        return EventTime(clock, width_us=width_us)

    def lag_us(self, lags_us: Mapping[str, int]) -> int | None:
        """Return how far behind the watermark the clock can be, given that of other clocks."""
        if self.clock in lags_us or _FLOOR not in self.clock:
            return lags_us.get(self.clock)
        clock, offset_us, span_us, _ = self.clock.rsplit(_FLOOR, 3)
        below = EventTime(clock).lag_us(lags_us)
        return None if below is None else below - int(offset_us) + int(span_us) - 1

    def floored_from(self) -> "EventTime | None":
        """Return the time whose span this is the start of."""
        if _FLOOR not in self.clock:
            return None
        clock, offset_us, _, _ = self.clock.rsplit(_FLOOR, 3)
        return EventTime(clock, int(offset_us))

    def window_field(self, name: str) -> "EventTime | None":
        """Return the time of a window's start or end."""
        if self.width_us is None or name not in ("start", "end"):
            return None
        return EventTime(self.clock, self.offset_us + (self.width_us if name == "end" else 0))


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a relation."""

    name: str
    type: pa.DataType
    time: EventTime | None = None


@dataclass(frozen=True, slots=True)
class Relation:
    """Columns, and how far each clock can lag behind the watermark.

    Every row still to come has `clock >= watermark - lags_us[clock]`. A reference table has no
    clock.
    """

    fields: tuple[Field, ...]
    lags_us: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse types that could not be stored."""
        for column in self.fields:
            check_levels(column.name, column.type)

    def find(self, name: str) -> Field | None:
        """Return the column with this name; like Spark, ignore case."""
        return next((f for f in self.fields if f.name.lower() == name.lower()), None)

    @property
    def schema(self) -> pa.Schema:
        """The columns with Spark's types."""
        return pa.schema([(f.name, f.type) for f in self.fields])
