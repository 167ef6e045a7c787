"""Calls of window(time, size[, slide[, start]]) and session_window(time, gap)."""

from dataclasses import replace
from math import gcd
from typing import NamedTuple

from sqlglot import exp

from evenflow.sql import types
from evenflow.sql.translate.literals import interval_us, parse_span_us
from evenflow.sql.translate.refusals import quote_sql, refusal
from evenflow.sql.translate.translator import NAMED_RULES, Translator
from evenflow.sql.translate.typed_expr import Ast, TypedExpr, write_once

SESSION = "session_window"
MAX_PANES = 10_000
MAX_WINDOWS_PER_ROW = 3_600  # for example 1 hour that slides by 1 second


class WindowCall(NamedTuple):
    """The arguments of window(...): the SQL of the time, and three spans.

    A session has its gap and a microsecond as size: a row that comes right at its end extends it.
    """

    time_sql: str
    size_us: int
    slide_us: int
    start_us: int
    is_session: bool = False

    def span_start_sql(self, span_us: int) -> str:
        """Write the start of the span of a row's time, in microseconds."""
        time = f"epoch_us({self.time_sql})"
        # The remainder is negative before the start; a second modulo makes it positive.
        rest = f"((({time} - {self.start_us}) % {span_us}) + {span_us}) % {span_us}"
        return f"({time} - {rest})"


def is_window_call(node: Ast) -> bool:
    """Tell whether a node is a call of window(...) or session_window(...)."""
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in ("window", SESSION)


def read_window_call(translate: Translator, node: Ast) -> tuple[TypedExpr, WindowCall]:
    """Read the time and the arguments of window(time, size[, slide[, start]])."""
    is_session = str(node.this).lower() == SESSION
    if is_session and len(node.expressions) != 2:
        raise refusal(node, "is not a session; write session_window(time, '10 minutes')")
    if not 2 <= len(node.expressions) <= 4:
        raise refusal(node, "is not a window; write window(time, '10 seconds'[, '5 seconds'])")
    value = translate(node.expressions[0])
    sql, time = value.sql, value.time
    if time is not None and time.width_us is not None:  # a window of a subquery: use its last time
        end = translate.struct_field(value, "end")
        sql, time = f"({end.sql} - to_microseconds(1))", time.window_field("end")
        value = replace(value, time=time.shifted(-1) if time else None)
    if value.type == types.TIMESTAMP_NTZ:
        raise refusal(node, "is over TIMESTAMP_NTZ; cast the column to TIMESTAMP before the stream")
    if value.type == types.DATE:
        raise refusal(node, "is over a DATE; use the event-time column")
    if time is None:
        raise refusal(
            node,
            f"needs the event-time column; {quote_sql(node.expressions[0])} is another column, "
            "or computed from it",
        )
    if is_session:
        return value, WindowCall(sql, _read_gap_us(node) + 1, 1, 0, is_session)
    spans_us = [read_span_us(e) for e in node.expressions[1:]]
    size_us, slide_us, start_us = (*spans_us, *(spans_us[0], 0)[len(spans_us) - 1 :])
    if size_us <= 0 or slide_us <= 0 or slide_us > size_us:
        raise refusal(node, "needs a size and slide above zero, and a slide of at most the size")
    if -(-size_us // slide_us) > MAX_WINDOWS_PER_ROW:
        raise refusal(
            node,
            f"puts a row into {-(-size_us // slide_us):,} windows, at most "
            f"{MAX_WINDOWS_PER_ROW:,} are possible; use a longer slide",
        )
    if size_us // gcd(size_us, slide_us) > MAX_PANES:
        raise refusal(node, f"has more than {MAX_PANES:,} panes; use a longer slide")
    return value, WindowCall(sql, size_us, slide_us, start_us % slide_us)


def read_span_us(node: Ast) -> int:
    """Read a span of time: a text or an interval."""
    if isinstance(node, exp.Literal) and node.is_string:
        return parse_span_us(str(node.this))
    return interval_us(node)


def _read_gap_us(node: Ast) -> int:
    gap = node.expressions[1]
    gap_us = parse_span_us(str(gap.this)) if isinstance(gap, exp.Literal) and gap.is_string else 0
    if gap_us <= 0:
        raise refusal(node, "needs a constant gap above zero, as a text such as '10 minutes'")
    return gap_us


def _window_of_row(translate: Translator, node: Ast) -> TypedExpr:
    """Write the tumbling window that a row is in, where it is not a group."""
    value, call = read_window_call(translate, node)
    if call.slide_us != call.size_us or value.time is None:
        raise refusal(node, "puts a row into several windows; group by it")

    def window(start: str) -> str:
        end = f"make_timestamp({start} + {call.size_us})"
        return f"{{'start': make_timestamp({start}), 'end': {end}}}"

    sql = write_once(window, call.span_start_sql(call.size_us))
    spans = f"window {call.start_us}"
    time = value.time.floored(spans, call.size_us, call.size_us)
    return TypedExpr(sql, types.WINDOW, value.columns, time=time)


def _session_of_row(_: Translator, node: Ast) -> TypedExpr:
    raise refusal(node, "depends on other rows; use it in GROUP BY")


NAMED_RULES["window"] = _window_of_row
NAMED_RULES[SESSION] = _session_of_row
