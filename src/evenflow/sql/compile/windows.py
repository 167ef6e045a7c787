"""Read window(time, size[, slide[, start]])."""

from collections.abc import Mapping
from dataclasses import replace
from math import gcd
from typing import NamedTuple

from sqlglot import exp

from evenflow.sql.translate.literals import interval_us, parse_span_us
from evenflow.sql.translate.refusals import quote_sql, refusal
from evenflow.sql.translate.translator import Translator
from evenflow.sql.translate.typed_expr import Ast, TypedExpr

MAX_PANES = 10_000


class WindowCall(NamedTuple):
    """The arguments of window(...): the SQL of the time, and three spans."""

    time_sql: str
    size_us: int
    slide_us: int
    start_us: int


def time_lag_us(node: Ast, value: TypedExpr, lags_us: Mapping[str, int]) -> int:
    """Return how far behind the watermark a time can still arrive."""
    if value.time is None or value.time.clock not in lags_us:
        raise refusal(node, "is not over an event-time column, so it never completes")
    return lags_us[value.time.clock] - value.time.offset_us


def is_window_call(node: Ast) -> bool:
    """Return whether a node is window(...)."""
    return isinstance(node, exp.Anonymous) and str(node.this).lower() == "window"


def read_window_call(translate: Translator, node: Ast) -> tuple[TypedExpr, WindowCall]:
    """Read the time and the arguments of window(time, size[, slide[, start]])."""
    if not 2 <= len(node.expressions) <= 4:
        raise refusal(node, "is not a window; write window(time, '10 seconds'[, '5 seconds'])")
    value = translate(node.expressions[0])
    sql, time = value.sql, value.time
    if time is not None and time.width_us is not None:  # a window of a subquery: use its last time
        end = translate.struct_field(value, "end")
        sql, time = f"({end.sql} - to_microseconds(1))", time.window_field("end")
        value = replace(value, time=time.shifted(-1) if time else None)
    if time is None:
        raise refusal(
            node,
            f"needs the event-time column; {quote_sql(node.expressions[0])} is another column, "
            "or computed from it",
        )
    spans_us = [_read_span_us(e) for e in node.expressions[1:]]
    size_us, slide_us, start_us = (*spans_us, *(spans_us[0], 0)[len(spans_us) - 1 :])
    if size_us <= 0 or slide_us <= 0 or slide_us > size_us:
        raise refusal(node, "needs a size and slide above zero, and a slide of at most the size")
    if size_us // gcd(size_us, slide_us) > MAX_PANES:
        raise refusal(node, f"has more than {MAX_PANES:,} panes; use a longer slide")
    return value, WindowCall(sql, size_us, slide_us, start_us % slide_us)


def _read_span_us(node: Ast) -> int:
    if isinstance(node, exp.Literal) and node.is_string:
        return parse_span_us(str(node.this))
    return interval_us(node)
