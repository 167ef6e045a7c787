"""What a query may read: streams that flow, reference tables that stand still."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.sql.types import check_column_names


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows of one schema with an event-time column; `delay_us` is how late a row may come."""

    schema: pa.Schema
    time: str
    delay_us: int = 0

    def __post_init__(self) -> None:
        check_column_names(self.schema.names)
        index = self.schema.get_field_index(self.time)
        if index < 0:
            raise InputError(
                f"the event-time column {self.time!r} is not in the stream, "
                f"which has {', '.join(self.schema.names)}"
            )
        kind = self.schema.field(index).type
        if not pa.types.is_timestamp(kind):
            raise InputError(
                f"the event-time column {self.time!r} is {kind}; cast it to TIMESTAMP first"
            )
        if self.delay_us < 0:
            raise InputError(f"a watermark delay cannot be negative, got {self.delay_us} us")


@dataclass(frozen=True, slots=True)
class Catalog:
    """The names a query may use after FROM."""

    streams: Mapping[str, Stream] = field(default_factory=dict)
    tables: Mapping[str, pa.Schema] = field(default_factory=dict)

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for name in (*self.streams, *self.tables):
            if name.lower() in seen:
                raise InputError(f"{name!r} is named twice among streams and tables; rename one")
            seen.add(name.lower())
