"""Timestamps in microseconds since 1970: read from texts, moved between time zones."""

import re
from calendar import monthrange
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_HALF_UP, Decimal
from functools import cache, lru_cache
from zoneinfo import ZoneInfo, available_timezones

_EPOCH = datetime(1970, 1, 1)
_DAY_US = 86_400_000_000
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097  # after which the calendar repeats
_CYCLE_US = _CYCLE_DAYS * _DAY_US
# What Python's own times hold, but for a day: there time zones change as in cycles before or after.
_FIRST_US, _LAST_US = (
    (moment - _EPOCH) // timedelta(microseconds=1)
    for moment in (datetime(1, 1, 2), datetime(9999, 12, 30))
)
_PAD = "".join(map(chr, range(33))) + "\x7f"
_MOMENT = re.compile(
    r"([+-]?[0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T]"
    r"(?:([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?"
    r"(?:\s*([^\s].*))?)?)?)?)?",
    re.ASCII,
)
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:(\d{1,2})(?::(\d{1,2}))?|(\d{1,2}):(\d\d):(\d\d)|"
    r"(\d\d)(\d\d)(\d\d)?)",
    re.ASCII,
)
_MOST_OFFSET = timedelta(hours=18)
# Java's old names; Python's database has other zones for some of them.
_JAVA_NAMES = (
    "ACT=Australia/Darwin AET=Australia/Sydney AGT=America/Argentina/Buenos_Aires "
    "ART=Africa/Cairo AST=America/Anchorage BET=America/Sao_Paulo BST=Asia/Dhaka "
    "CAT=Africa/Harare CNT=America/St_Johns CST=America/Chicago CTT=Asia/Shanghai "
    "EAT=Africa/Addis_Ababa ECT=Europe/Paris EST=-05:00 HST=-10:00 "
    "IET=America/Indiana/Indianapolis IST=Asia/Kolkata JST=Asia/Tokyo MIT=Pacific/Apia "
    "MST=-07:00 NET=Asia/Yerevan NST=Pacific/Auckland PLT=Asia/Karachi PNT=America/Phoenix "
    "PRT=America/Puerto_Rico PST=America/Los_Angeles SST=Pacific/Guadalcanal "
    "VST=Asia/Ho_Chi_Minh"
)
_SHORT_NAMES = dict(pair.split("=") for pair in _JAVA_NAMES.split())


@cache
def _zone_names() -> frozenset[str]:
    return frozenset(available_timezones() - {"ROC", "Factory", "localtime"})  # unknown to Java


@lru_cache(maxsize=256)
def zone(name: str) -> tzinfo | None:
    """Return the time zone of an id such as UTC, +01:00 or Europe/Berlin."""
    name = _SHORT_NAMES.get(name, name)
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    if (offset := _OFFSET.fullmatch(name)) is not None:
        sign, *parts = (part for part in offset.groups() if part is not None)
        hours, minutes, seconds = (*map(int, parts), 0, 0)[:3]
        span = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if minutes > 59 or seconds > 59 or span > _MOST_OFFSET:
            return None
        return timezone(-span if sign == "-" else span)
    return ZoneInfo(name) if name in _zone_names() else None


def read_timestamp(text: str | None, has_zone: bool | None) -> int | None:
    """Read '2026-01-31 12:00:00.5+01:00' and its shorter forms; None if it is another text."""
    if text is None:
        return None
    found = _MOMENT.fullmatch(text.strip(_PAD))
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(p or d) for p, d in zip(
        found.groups()[:6], (0, 1, 1, 0, 0, 0), strict=True))  # fmt: skip
    micros = int((found[7] or "0")[:6].ljust(6, "0"))
    cycles = min((year - 1) // _CYCLE_YEARS, 0) or max((year - 9_600) // _CYCLE_YEARS, 0)
    try:
        moment = datetime(year - cycles * _CYCLE_YEARS, month, day, hour, minute, second, micros)
        if found[8] and has_zone:
            place = zone(found[8].strip())
            if place is None:
                return None
            moment = moment.replace(tzinfo=place).astimezone(UTC).replace(tzinfo=None)
        elif found[8] and zone(found[8].strip()) is None:
            return None
    except (ValueError, OverflowError):
        return None
    time_us = _to_us(moment) + cycles * _CYCLE_DAYS * _DAY_US
    return time_us if abs(time_us) < 1 << 63 else None


def _to_us(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def from_utc(time_us: int | None, name: str | None) -> int | None:
    """Return the wall-clock time of a zone at a moment."""
    return _moved(time_us, name, to_utc=False)


def to_utc(time_us: int | None, name: str | None) -> int | None:
    """Return the moment of a wall-clock time of a zone."""
    return _moved(time_us, name, to_utc=True)


def _moved(time_us: int | None, name: str | None, *, to_utc: bool) -> int | None:
    if time_us is None or name is None or (place := zone(name)) is None:
        return None
    missing, surplus = _FIRST_US - time_us, time_us - _LAST_US
    cycles = -(-missing // _CYCLE_US) if missing > 0 else min(-surplus // _CYCLE_US, 0)
    moment = _EPOCH + timedelta(microseconds=time_us + cycles * _CYCLE_US)
    if to_utc:
        moment = moment.replace(tzinfo=place).astimezone(UTC)
    else:
        moment = moment.replace(tzinfo=UTC).astimezone(place)
    moved_us = _to_us(moment.replace(tzinfo=None)) - cycles * _CYCLE_US
    return moved_us if abs(moved_us) < 1 << 63 else None


def months_between(left: int | None, right: int | None, rounds: bool | None) -> float | None:
    """Return months between two moments: whole ones for equal days or both ends of months."""
    if left is None or right is None or rounds is None:
        return None
    (cycle, day), (other_cycle, other_day) = (
        divmod(value // _DAY_US, _CYCLE_DAYS) for value in (left, right)
    )
    first, second = (date(1970, 1, 1) + timedelta(days=days) for days in (day, other_day))
    years = first.year - second.year + (cycle - other_cycle) * _CYCLE_YEARS
    months = years * 12 + first.month - second.month
    is_end = [d.day == monthrange(d.year, d.month)[1] for d in (first, second)]
    if first.day == second.day or all(is_end):
        return float(months)
    rest_us = [value % _DAY_US for value in (left, right)]
    seconds = (first.day - second.day) * 86_400 + (rest_us[0] // 10**6 - rest_us[1] // 10**6)
    result = months + seconds / (31 * 86_400)
    if rounds:
        return float(Decimal(repr(result)).quantize(Decimal("1e-8"), ROUND_HALF_UP))
    return result
