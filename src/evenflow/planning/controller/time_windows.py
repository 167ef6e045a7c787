"""Maintenance windows: times of day, in UTC, in which plans may be followed."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from evenflow.errors import InputError

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_FORMAT = re.compile(r"(?:([a-z,-]+) )?(\d\d):(\d\d)-(\d\d):(\d\d)")


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Minutes of a day from `start` to before `end`; one that ends earlier ends the next day."""

    start: int
    end: int
    days: frozenset[int] = frozenset(range(7))

    def contains(self, at: float) -> bool:
        """Tell whether a time, in seconds since the epoch, lies in the window.

        >>> night = parse_window("Fri 22:00-05:00")
        >>> saturday = datetime(2026, 1, 3, 4, 59, tzinfo=UTC).timestamp()
        >>> night.contains(saturday), night.contains(saturday + 60)
        (True, False)
        """
        time = datetime.fromtimestamp(at, UTC)
        minute, today = 60 * time.hour + time.minute, time.weekday()
        if self.start < self.end:
            return today in self.days and self.start <= minute < self.end
        begun_today = today in self.days and minute >= self.start
        return begun_today or ((today - 1) % 7 in self.days and minute < self.end)


@lru_cache(maxsize=64)
def parse_window(text: str) -> TimeWindow:
    """Parse `22:00-05:00`, `Mon-Fri 22:00-05:00` or `Sat,Sun 00:00-24:00`.

    >>> parse_window("Sat,Sun 00:00-24:00")
    TimeWindow(start=0, end=1440, days=frozenset({5, 6}))
    """
    match = _FORMAT.fullmatch(text.strip().lower())
    if match is not None:
        days, *numbers = match.groups()
        start, end = (60 * int(h) + int(m) for h, m in (numbers[:2], numbers[2:]))
        chosen = frozenset(range(7)) if days is None else _parse_days(days)
        minutes = all(int(number) < 60 for number in numbers[1::2])
        if chosen and minutes and start < 24 * 60 and end <= 24 * 60 and start != end:
            return TimeWindow(start, end, chosen)
    raise InputError(
        f"allow must be a time of day in UTC like 22:00-05:00 or Mon-Fri 22:00-05:00, got {text!r}"
    )


def _parse_days(text: str) -> frozenset[int]:
    """Parse `mon-fri,sun`; empty if a day is unknown."""
    days: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first not in _DAYS or (last or first) not in _DAYS:
            return frozenset()
        begin, length = _DAYS.index(first), _DAYS.index(last or first) - _DAYS.index(first)
        days.update((begin + day) % 7 for day in range(length % 7 + 1))
    return frozenset(days)
