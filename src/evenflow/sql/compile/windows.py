"""Read window(time, size[, slide[, start]])."""

from collections.abc import Mapping
from dataclasses import replace
from math import gcd

from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql.translate.intervals import interval_us, parse_span_us
from evenflow.sql.translate.translator import Translator, quote_sql
from evenflow.sql.translate.typed_expr import Ast, TypedExpr

MAX_PANES = 10_000


def time_lag_us(node: Ast, value: TypedExpr, lags: Mapping[str, int]) -> int:
    """Say how far behind the watermark a time may still come."""
    if value.time is None or value.time.clock not in lags:
        raise InputError(
            f"{quote_sql(node)} is not over an event-time column, so it never completes"
        )
    return lags[value.time.clock] - value.time.offset_us


def is_window_call(node: Ast) -> bool:
    """Tell a call of window(...)."""
    return isinstance(node, exp.Anonymous) and str(node.this).lower() == "window"


def read_window_call(translate: Translator, node: Ast) -> tuple[TypedExpr, str, int, int, int]:
    """Read window(time, size[, slide[, start]]): the time, its DuckDB text, three spans."""
    if not 2 <= len(node.expressions) <= 4:
        raise InputError(f"{quote_sql(node)}: write window(time, '10 seconds'[, '5 seconds'])")
    value = translate(node.expressions[0])
    sql, time = value.sql, value.time
    if time is not None and time.width_us is not None:  # the window of a subquery: its last moment
        end = translate.struct_field(value, "end")
        sql, time = f"({end.sql} - to_microseconds(1))", time.window_field("end")
        value = replace(value, time=time.shifted(-1) if time else None)
    if time is None:
        raise InputError(
            f"{quote_sql(node)} needs the event-time column; {quote_sql(node.expressions[0])} "
            "is not one, or has been computed with"
        )
    spans = [_read_span_us(e) for e in node.expressions[1:]]
    size, slide, start = (*spans, *(spans[0], 0)[len(spans) - 1 :])
    if size <= 0 or slide <= 0 or slide > size:
        raise InputError(
            f"{quote_sql(node)}: size and slide must be above zero, the slide at most the size"
        )
    if size // gcd(size, slide) > MAX_PANES:
        raise InputError(f"{quote_sql(node)} has more than {MAX_PANES:,} panes; use a longer slide")
    return value, sql, size, slide, start % slide


def _read_span_us(node: Ast) -> int:
    if isinstance(node, exp.Literal) and node.is_string:
        return parse_span_us(str(node.this))
    return interval_us(node)
