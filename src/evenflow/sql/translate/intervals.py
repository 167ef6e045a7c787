"""Constant spans of time, as written in Spark SQL, in microseconds."""

import re

from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql.translate.typed_expr import Ast

_UNIT_US = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_AMOUNT_AND_UNIT = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-z]+)\s*")


def parse_span_us(written: str) -> int:
    """Read a span such as '10 seconds' or '1 minute 30 seconds'.

    >>> parse_span_us("1 minute 30 seconds")
    90000000
    """
    words, total, at = written.strip().lower().removeprefix("interval "), 0.0, 0
    while at < len(words) and (part := _AMOUNT_AND_UNIT.match(words, at)) is not None:
        total += float(part[1]) * _unit_us(part[2], written)
        at = part.end()
    if at == 0 or at < len(words):
        raise InputError(f"{written!r} is no span of time; write for example '10 seconds'")
    return round(total)


def interval_us(node: Ast) -> int:
    """Read INTERVAL 20 SECONDS, or a sum of such."""
    if isinstance(node, exp.Paren):
        return interval_us(node.this)
    if isinstance(node, exp.Add):
        return interval_us(node.left) + interval_us(node.right)
    if isinstance(node, exp.Sub):
        return interval_us(node.left) - interval_us(node.right)
    if not isinstance(node, exp.Interval):
        raise InputError(f"`{node.sql('spark')}` is no constant interval; INTERVAL 20 SECONDS is")
    amount = node.this
    sign = 1
    if isinstance(amount, exp.Neg):
        amount, sign = amount.this, -1
    if not isinstance(amount, exp.Literal):
        raise InputError(f"`{node.sql('spark')}` must be a constant, such as INTERVAL 20 SECONDS")
    unit = node.args.get("unit")
    written = str(amount.this)
    if unit is None:
        return sign * parse_span_us(written)
    if not isinstance(unit, exp.Var) or not re.fullmatch(r"[+-]?\d+(\.\d+)?", written):
        raise InputError(f"`{node.sql('spark')}` is not understood; write INTERVAL 20 SECONDS")
    return sign * round(float(written) * _unit_us(str(unit.this), node.sql("spark")))


def _unit_us(word: str, written: str) -> int:
    unit = _UNIT_US.get(word.lower().removesuffix("s"))
    if unit is None:
        raise InputError(
            f"{written!r} has the unit {word.lower()!r}; "
            "use days, hours, minutes, seconds or less (months vary in length)"
        )
    return unit
