"""Backfills: rows that a query takes before those of its streams, part by part in their order."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from evenflow.model.time import NO_WATERMARK_US
from evenflow.storage.bundle import PartRef

BACKFILL_FOLDER = "backfill"
PART_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class BackfillPart:
    """Rows of one stream, the first and last of their event times, and where they are stored."""

    stream: str
    rows: PartRef
    count: int
    first_us: int
    last_us: int


@dataclass(frozen=True, slots=True)
class BackfillParts:
    """All parts of a query's backfill, in the order in which it takes them.

    `held_us` has the query's watermark for each: no row of this or a later part is late by it.
    """

    parts: tuple[BackfillPart, ...]
    held_us: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Backfill:
    """How far a query is: in this batch it takes `parts`, after the first `done` of `total`.

    `name` is that of its list of parts, `rows` how many these are, `held_us` its watermark.
    """

    name: str
    done: int
    total: int
    parts: tuple[BackfillPart, ...]
    held_us: int

    @property
    def rows(self) -> int:
        """How many rows it takes in this batch."""
        return sum(part.count for part in self.parts)


def in_order(parts: Iterable[BackfillPart], delays_us: Mapping[str, int]) -> BackfillParts:
    """Put the parts of some streams in order; their rows are in the order of their times.

    As in a stream, the watermark is `delays_us` behind the latest row, the lowest of all streams.

    >>> ref = PartRef("f", 0, 1, "")
    >>> early, late = BackfillPart("s", ref, 1, 0, 9), BackfillPart("s", ref, 1, 9, 20)
    >>> in_order([late, early], {"s": 5}).held_us[1]
    4
    """
    ordered = sorted(parts, key=lambda part: (part.first_us, part.last_us, part.stream, part.rows))
    latest_us, held_us = dict.fromkeys(delays_us, NO_WATERMARK_US), []
    for part in ordered:
        lowest_us = min(
            us - delays_us[stream] if us > NO_WATERMARK_US else us
            for stream, us in latest_us.items()
        )
        held_us.append(max(lowest_us, NO_WATERMARK_US))
        latest_us[part.stream] = max(latest_us[part.stream], part.last_us)
    return BackfillParts(tuple(ordered), tuple(held_us))


def list_file(name: str) -> str:
    """Return the file that lists the parts of a backfill."""
    return f"{BACKFILL_FOLDER}/{name}"


def is_file_of(file_name: str, names: Collection[str]) -> bool:
    """Tell whether a file of the folder is the list or a part of one of some backfills.

    >>> is_file_of("abc-000001-trades", ["abc"]), is_file_of("abcd", ["abc"])
    (True, False)
    """
    return file_name.partition("-")[0] in names
