"""Read window(time, size[, slide[, start]])."""

from collections.abc import Mapping
from dataclasses import replace
from math import gcd

from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql.expressions import Translator, said
from evenflow.sql.intervals import interval_us, span_us
from evenflow.sql.typed import Ast, Typed

MOST_PANES = 10_000


def lag_of(node: Ast, value: Typed, lags: Mapping[str, int]) -> int:
    """Say how far behind the watermark a time may still come."""
    if value.time is None or value.time.base not in lags:
        raise InputError(f"{said(node)} is not over an event-time column, so it never completes")
    return lags[value.time.base] - value.time.offset_us


def is_window(node: Ast) -> bool:
    """Tell a call of window(...)."""
    return isinstance(node, exp.Anonymous) and str(node.this).lower() == "window"


def window_call(translate: Translator, node: Ast) -> tuple[Typed, str, int, int, int]:
    """Read window(time, size[, slide[, start]]): the time, its DuckDB text, three spans."""
    if not 2 <= len(node.expressions) <= 4:
        raise InputError(f"{said(node)}: write window(time, '10 seconds'[, '5 seconds'])")
    value = translate(node.expressions[0])
    sql, time = value.sql, value.time
    if time is not None and time.width_us is not None:  # the window of a subquery: its last moment
        end = translate.field(value, "end")
        sql, time = f"({end.sql} - to_microseconds(1))", time.field("end")
        value = replace(value, time=time.shifted(-1) if time else None)
    if time is None:
        raise InputError(
            f"{said(node)} needs the event-time column; {said(node.expressions[0])} "
            "is not one, or has been computed with"
        )
    spans = [_span(e) for e in node.expressions[1:]]
    size, slide, start = (*spans, *(spans[0], 0)[len(spans) - 1 :])
    if size <= 0 or slide <= 0 or slide > size:
        raise InputError(
            f"{said(node)}: size and slide must be above zero, the slide at most the size"
        )
    if size // gcd(size, slide) > MOST_PANES:
        raise InputError(f"{said(node)} has more than {MOST_PANES:,} panes; use a longer slide")
    return value, sql, size, slide, start % slide


def _span(node: Ast) -> int:
    if isinstance(node, exp.Literal) and node.is_string:
        return span_us(str(node.this))
    return interval_us(node)
