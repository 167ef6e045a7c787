"""JSON as Spark's parser reads it: fields by path, texts for columns of a schema."""

import json
import math
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from evenflow.sql.kernels.numbers import double_text

_STEP = re.compile(r"\.([^.\[]+)|\['([^']*)'\]|\[(\d+)\]|(\[\*\])|(\.\*)")
_INTEGER = re.compile(r"-?[0-9]+")
# Spark's parser reads numbers of so many digits and documents so deep; the rest is malformed.
_MAX_DIGITS, _MAX_DEPTH, _MAX_POWER = 1000, 1000, 100_000
_DECIMAL_POWERS = 40  # beyond this power of ten a number is no DECIMAL, below it 0
_MAX_INDEX_DIGITS = 9
_SMALL_TEXT = 20_000  # characters
_SHALLOW = 200  # brackets that need no care


class _Number(str):
    """The text of a number."""

    __slots__ = ()


class _Punctuation(str):
    """What stands between values when they are written."""

    __slots__ = ()


def _read_number(text: str) -> _Number:
    if len(text) > _MAX_DIGITS and len(text.lstrip("-0.").replace(".", "")) > _MAX_DIGITS:
        raise ValueError("a number has too many digits")
    return _Number(text)


_MISSING = object()
_DECODER = json.JSONDecoder(
    parse_float=_read_number, parse_int=_read_number, parse_constant=_Number, strict=False
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
        if step[3] is not None and len(step[3]) > _MAX_INDEX_DIGITS:
            return None
        found.append(int(step[3]) if step[3] is not None else step[1] or step[2] or "")
        at = step.end()
    return tuple(found)


def _parse(text: str) -> Any:
    """Read a document; what follows it is ignored, as in Spark."""
    return _parse_small(text) if len(text) <= _SMALL_TEXT else _parse_large(text)


def _read_document(text: str) -> Any:
    plain = text.lstrip(" \t\r\n")
    try:
        if plain.count("[") + plain.count("{") <= _SHALLOW:
            return _DECODER.raw_decode(plain)[0]
        with _deep_calls():
            value = _DECODER.raw_decode(plain)[0]
        return value if _is_shallow(value) else _MISSING
    except (ValueError, RecursionError):
        return _MISSING


# Several functions of one document: a few small ones are kept, of large ones the last.
_parse_small = lru_cache(maxsize=64)(_read_document)
_parse_large = lru_cache(maxsize=1)(_read_document)


@contextmanager
def _deep_calls() -> Iterator[None]:
    """Let the parser, which calls itself for each level, read as deep as Spark's."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 3 * _MAX_DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _is_shallow(value: Any) -> bool:
    level = [value]
    for _ in range(_MAX_DEPTH):
        lists = [list(each.values()) if isinstance(each, dict) else each
                 for each in level if isinstance(each, dict | list)]  # fmt: skip
        if not lists:
            return True
        level = [each for one in lists for each in one]
    return not any(isinstance(each, dict | list) for each in level)


def write(value: Any) -> str:
    """Write a value without spaces, however deep it is.

    >>> write({"a": [1, None], "b": {}})
    '{"a":[1,null],"b":{}}'
    """
    written: list[str] = []
    rest = [value]
    while rest:
        each = rest.pop()
        if isinstance(each, _Punctuation):
            written.append(each)
        elif isinstance(each, dict):
            fields = [(_Punctuation(f"{_quoted(key)}:"), one) for key, one in each.items()]
            rest += reversed([_Punctuation("{"), *_separated(fields), _Punctuation("}")])
        elif isinstance(each, list):
            items = [(one,) for one in each]
            rest += reversed([_Punctuation("["), *_separated(items), _Punctuation("]")])
        elif isinstance(each, _Number):
            written.append(_number(each))
        elif isinstance(each, str):
            written.append(_quoted(each))
        else:
            written.append("null" if each is None else str(each).lower())
    return "".join(written)


def _separated(items: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    for at, item in enumerate(items):
        if at:
            yield _Punctuation(",")
        yield from item


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _number(text: _Number) -> str:
    if _INTEGER.fullmatch(text):
        return str(int(text)) if text != "-0" else "0"
    value = float(text)
    return str(double_text(value)) if math.isfinite(value) else f'"{double_text(value)}"'


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
            with suppress(InvalidOperation):  # an exponent of too many digits
                yield from _decimal_text(Decimal(value))
    elif isinstance(value, str) and not is_number:  # a date or timestamp
        yield value


def _decimal_text(number: Decimal) -> Iterator[str]:
    """Write a number without an exponent, unless it is too large for any DECIMAL."""
    exponent = number.as_tuple().exponent
    if not number or not isinstance(exponent, int):
        yield "0" if number.is_finite() else "NaN"
    elif abs(exponent) <= _MAX_POWER and number.adjusted() <= _DECIMAL_POWERS:
        yield "0" if number.adjusted() < -_DECIMAL_POWERS else f"{number:f}"


def quote(text: str | None) -> str | None:
    """Write a text with quotes."""
    return None if text is None else _quoted(text)
