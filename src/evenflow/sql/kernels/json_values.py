"""JSON as Spark's parser reads it: fields by path, texts for columns of a schema."""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Any

from evenflow.sql.kernels.numbers import double_text

_STEP = re.compile(r"\.([^.\[]+)|\['([^']*)'\]|\[(\d+)\]|(\[\*\])|(\.\*)")
_INTEGER = re.compile(r"-?[0-9]+")


class _Number(str):
    """The text of a number."""

    __slots__ = ()


_MISSING = object()
_DECODER = json.JSONDecoder(
    parse_float=_Number, parse_int=_Number, parse_constant=_Number, strict=False
)


@lru_cache(maxsize=1024)
def steps(path: str) -> tuple[str | int, ...] | None:
    """Split a path such as $.a.b[0] into names and positions; None if it has other steps.

    >>> steps("$.a['b c'][0]")
    ('a', 'b c', 0)
    """
    if not path.startswith("$"):
        return None
    found: list[str | int] = []
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None or step[4] or step[5]:
            return None
        found.append(int(step[3]) if step[3] is not None else step[1] or step[2] or "")
        at = step.end()
    return tuple(found)


@lru_cache(maxsize=64)
def _parse(text: str) -> Any:
    """Read a document; what follows it is ignored, as in Spark."""
    try:
        return _DECODER.raw_decode(text.lstrip(" \t\r\n"))[0]
    except (ValueError, RecursionError):
        return _MISSING


def write(value: Any) -> str:
    """Write a value without spaces."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(k)}:{write(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write, value)) + "]"
    if isinstance(value, _Number):
        return _number(value)
    if isinstance(value, str):
        return _quoted(value)
    return "null" if value is None else str(value).lower()


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _number(text: _Number) -> str:
    if _INTEGER.fullmatch(text):
        return str(int(text)) if text != "-0" else "0"
    return str(double_text(float(text)))


def get_json_object(text: str | None, path: str | None) -> str | None:
    """Return the value at a path: a text without quotes, anything else as JSON."""
    if text is None or path is None or (found := steps(path)) is None:
        return None
    value = _parse(text)
    for step in found:
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step, _MISSING)
        elif isinstance(step, int) and isinstance(value, list) and step < len(value):
            value = value[step]
        else:
            return None
    if value is _MISSING or value is None:
        return None
    return value if isinstance(value, str) and not isinstance(value, _Number) else write(value)


def array_length(text: str | None) -> int | None:
    """Return the number of values of a JSON array."""
    value = None if text is None else _parse(text)
    return len(value) if isinstance(value, list) else None


def object_keys(text: str | None) -> list[str] | None:
    """Return the names of a JSON object."""
    value = None if text is None else _parse(text)
    return list(value) if isinstance(value, dict) else None


def read_field(text: str | None, name: str | None, kind: str | None) -> str | None:
    """Return a field of an object as a text that a cast to its type can read."""
    if text is None or name is None:
        return None
    value = _parse(text)
    value = value.get(name) if isinstance(value, dict) else None
    return None if value is None else next(_as_text(value, kind), None)


def _as_text(value: Any, kind: str | None) -> Iterator[str]:
    is_number = isinstance(value, _Number)
    if kind == "STRING":
        yield value if isinstance(value, str) and not is_number else write(value)
    elif kind == "BOOLEAN":
        if isinstance(value, bool):
            yield str(value).lower()
    elif kind == "INTEGER":
        if is_number and _INTEGER.fullmatch(value):
            yield str(value)
    elif kind == "FLOATING":
        if is_number:
            yield str(value)
        elif value in ("NaN", "Infinity", "-Infinity", "+INF", "-INF", "INF"):
            yield {"INF": "Infinity", "+INF": "Infinity", "-INF": "-Infinity"}.get(value, value)
    elif kind == "DECIMAL":
        if is_number:
            yield f"{Decimal(value):f}"
    elif isinstance(value, str) and not is_number:  # a date or timestamp
        yield value


def quote(text: str | None) -> str | None:
    """Write a text with quotes."""
    return None if text is None else _quoted(text)
