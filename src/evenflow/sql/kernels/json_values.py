"""JSON as Spark's parser reads it: fields by path, texts for columns of a schema."""

import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from evenflow.sql.kernels.numbers import double_text

_STEP = re.compile(r"\.([^.\[]+)|\['([^']*)'\]|\[(\d+)\]|(\[\*\])|(\.\*)")
# A text in quotes of either kind, or the rest from a quote on that is not closed.
_QUOTED = re.compile(r"\"(?:\\.|[^\"\\])*(\"?)|'(?:\\.|[^'\\])*('?)", re.DOTALL)
_ESCAPE = re.compile(r"\\.|\"", re.DOTALL)  # an escape, or a quote that is none
_SURROGATE = re.compile("[\ud800-\udfff]")  # a half of a character that stands alone
_BEYOND = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")  # what Java needs two halves for
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


class _Repeated(dict[str, Any]):
    """An object in which a name occurs more than once, with all its fields in their order."""

    __slots__ = ("fields",)

    def __init__(self, fields: list[tuple[str, Any]]) -> None:
        super().__init__(fields)
        self.fields = fields


class _Punctuation(str):
    """What stands between values when they are written."""

    __slots__ = ()


def _read_number(text: str) -> _Number:
    if len(text) > _MAX_DIGITS and len(text.lstrip("-0.").replace(".", "")) > _MAX_DIGITS:
        raise ValueError("a number has too many digits")
    return _Number(text)


def _read_object(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(fields)
    return found if len(found) == len(fields) else _Repeated(fields)


def _fields(value: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    return value.fields if isinstance(value, _Repeated) else value.items()


_MISSING = object()


def _refuse(word: str) -> str:
    raise ValueError(f"{word} is no JSON")


_DECODER, _DECODER_OF_COLUMNS = (
    json.JSONDecoder(
        object_pairs_hook=_read_object, parse_float=_read_number, parse_int=_read_number,
        parse_constant=constant, strict=False,
    )
    for constant in (_refuse, _Number)
)  # fmt: skip


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


def _parse(text: str, *, columns: bool = False) -> Any:
    """Read a document; what follows it is ignored, as in Spark, if the document ends there.

    `columns`: as `from_json` does, which knows NaN and Infinity.
    """
    return (_parse_small if len(text) <= _SMALL_TEXT else _parse_large)(text, columns)


def _read_document(text: str, columns: bool) -> Any:
    found = _read_plain(text.lstrip(" \t\r\n"), columns)
    if found is _MISSING and "'" in text:
        found = _read_plain(_QUOTED.sub(_requote, text).lstrip(" \t\r\n"), columns)
    return found


def _read_plain(plain: str, columns: bool) -> Any:
    decoder = _DECODER_OF_COLUMNS if columns else _DECODER
    try:
        if plain.count("[") + plain.count("{") <= _SHALLOW:
            value, end = decoder.raw_decode(plain)
            return value if _ends(value, plain[end : end + 1]) else _MISSING
        with _deep_calls():
            value = decoder.raw_decode(plain)[0]
        return value if _is_shallow(value) else _MISSING
    except (ValueError, RecursionError):
        return _MISSING


def _requote(found: re.Match[str]) -> str:
    """Write a text in quotes that Spark also accepts, 'a' or "it\\'s", as JSON has it."""
    if not (found[1] or found[2]):
        return found[0]
    body = _ESCAPE.sub(lambda each: "'" if each[0] == "\\'" else each[0], found[0][1:-1])
    if found[0][0] == "'":
        body = _ESCAPE.sub(lambda each: '\\"' if each[0] == '"' else each[0], body)
    return f'"{body}"'


def _ends(value: Any, following: str) -> bool:
    """Tell whether a document may end before a character: 2024-01 is no number."""
    if isinstance(value, _Number):
        return following in ("", " ", "\t", "\r", "\n")
    if value is None or isinstance(value, bool):
        return following < "0" or not f"a{following}".isidentifier()
    return True


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
        lists = [[one for _, one in _fields(each)] if isinstance(each, dict) else each
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
            fields = [(_Punctuation(f"{_quoted(key)}:"), one) for key, one in _fields(each)]
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
    """Write a text that was in a document, as Jackson does: halves of characters as escapes."""
    return _BEYOND.sub(lambda found: _escaped(found[0]), json.dumps(text, ensure_ascii=False))


def _escaped(character: str) -> str:
    halves = character.encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{halves[at : at + 4]}" for at in range(0, len(halves), 4))


def _in_utf8(text: str) -> str:
    """Return a text with a question mark for each half of a character, as Java writes it."""
    return _SURROGATE.sub("?", text)


def _number(text: _Number) -> str:
    if _INTEGER.fullmatch(text):
        return str(int(text)) if text != "-0" else "0"
    value = float(text)
    return str(double_text(value)) if math.isfinite(value) else f'"{double_text(value)}"'


def get_json_object(text: str | None, path: str | None) -> str | None:
    """Return the value at a path: a text without quotes, anything else as JSON."""
    if text is None or path is None or (found := steps(path)) is None:
        return None
    value = _at(_parse(text), found)
    if value is _MISSING:
        return None
    if isinstance(value, str) and not isinstance(value, _Number):
        return None if _SURROGATE.search(value) else value
    return write(value)


def _at(document: Any, path: Sequence[str | int]) -> Any:
    """Return the first value at a path; to Spark a field that is null is missing."""
    rest = [(document, 0)]
    while rest:
        value, at = rest.pop()
        if at == len(path):
            return value
        step = path[at]
        if isinstance(step, str) and isinstance(value, dict):
            named = [one for name, one in _fields(value) if name == step and one is not None]
            rest += [(one, at + 1) for one in reversed(named)]
        elif isinstance(step, int) and isinstance(value, list) and step < len(value):
            rest.append((value[step], at + 1))
    return _MISSING


def array_length(text: str | None) -> int | None:
    """Return the number of values of a JSON array."""
    value = None if text is None else _parse(text)
    return len(value) if isinstance(value, list) else None


def object_keys(text: str | None) -> list[str] | None:
    """Return the names of a JSON object."""
    value = None if text is None else _parse(text)
    return [_in_utf8(name) for name, _ in _fields(value)] if isinstance(value, dict) else None


def read_field(text: str | None, name: str | None, kind: str | None) -> str | None:
    """Return a field of an object as a text that a cast to its type can read."""
    if text is None or name is None:
        return None
    value = _parse(text, columns=True)
    value = value.get(name) if isinstance(value, dict) else None
    return None if value is None else next(_as_text(value, kind), None)


def _as_text(value: Any, kind: str | None) -> Iterator[str]:
    is_number = isinstance(value, _Number)
    if kind == "STRING":
        yield _in_utf8(value) if isinstance(value, str) and not is_number else write(value)
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
        yield _in_utf8(value)


def _decimal_text(number: Decimal) -> Iterator[str]:
    """Write a number without an exponent, unless it is too large for any DECIMAL."""
    exponent = number.as_tuple().exponent
    if not number or not isinstance(exponent, int):
        yield "0" if number.is_finite() else "NaN"
    elif abs(exponent) <= _MAX_POWER and number.adjusted() <= _DECIMAL_POWERS:
        yield "0" if number.adjusted() < -_DECIMAL_POWERS else f"{number:f}"


def quote(text: str | None) -> str | None:
    """Write a text with quotes."""
    return None if text is None else json.dumps(text, ensure_ascii=False)
