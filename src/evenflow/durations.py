"""Durations as users write them."""

import re

from evenflow.errors import InputError

UNITS_US = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_PART = re.compile(r"(\d+)\s*([a-zA-Z]+)")


def duration_us(text: str, what: str) -> int:
    """Parse a duration in Spark's notation; `what` names the setting in errors.

    >>> duration_us("10 seconds", "watermark"), duration_us("1 minute 500 milliseconds", "w")
    (10000000, 60500000)
    """
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text).strip():
        raise InputError(f"{what} {text!r} is not a duration; write for example '10 seconds'")
    total = 0
    for number, unit in parts:
        name = unit.lower().removesuffix("s")
        if name not in UNITS_US:
            units = ", ".join(UNITS_US)
            raise InputError(f"{what} {text!r} has the unknown unit {unit!r}; use {units}")
        total += int(number) * UNITS_US[name]
    return total
