"""Hints: /*+ UPDATE_MODE, TTL('1 hour') */ asks for early results. Spark ignores what it is not.

Hints for Spark's planner, such as BROADCAST, are ignored: they change no result.
"""

from dataclasses import replace
from typing import NamedTuple

from sqlglot import TokenType, exp

from evenflow.errors import InputError
from evenflow.sql.query_plan import PlanNode, SelectNode
from evenflow.sql.translate.literals import parse_span_us
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.typed_expr import Ast

_UPDATE, _TTL, _LATE = "UPDATE_MODE", "TTL", "LATE_ROWS"


class Hints(NamedTuple):
    """What the hints of the outermost SELECT ask for.

    updates      results before they are complete, as updates of earlier ones
    ttl_us       how long a group without new rows is remembered
    late_us      only rows that are late for windows of this size (0: below the watermark)
    """

    updates: bool = False
    ttl_us: int | None = None
    late_us: int | None = None


def read_hints(query: Ast) -> Hints:
    """Read the hints of the outermost query.

    >>> import sqlglot
    >>> read_hints(sqlglot.parse_one("SELECT /*+ UPDATE_MODE, TTL('1 hour') */ a", read="spark"))
    Hints(updates=True, ttl_us=3600000000, late_us=None)
    """
    found = {name: node for node in _hint_nodes(query) if (name := _name(node)) in _OWN}
    for nested in query.find_all(exp.Hint):
        for node in nested.expressions:
            if _name(node) in _OWN and node not in list(found.values()):
                raise refusal(node, "belongs to the outermost SELECT")
    updates, ttl_us = _UPDATE in found, _span_us(found.get(_TTL))
    if ttl_us is not None and not updates:
        raise InputError(
            "TTL is for results that are updated; write /*+ UPDATE_MODE, TTL('...') */"
        )
    late_us = _span_us(found.get(_LATE), default="0 seconds")
    if updates and late_us is not None:
        raise InputError("LATE_ROWS returns rows as they are; leave UPDATE_MODE out")
    return Hints(updates, ttl_us, late_us)


def late_rows_only(node: PlanNode, late_us: int) -> SelectNode:
    """Return a query that reads only the late rows of its stream."""
    if not isinstance(node, SelectNode) or not isinstance(node.inputs[0].feed, str) or node.probes:
        raise InputError("LATE_ROWS needs one stream in FROM, without GROUP BY, OVER and joins")
    return replace(node, inputs=(replace(node.inputs[0], late_us=late_us),))


def with_hints(sql: str, mode: str, ttl: str | None) -> str:
    """Write the mode and the ttl of a query into its text.

    >>> with_hints("SELECT a FROM t", "update", "1 hour")
    "SELECT /*+ UPDATE_MODE, TTL('1 hour') */ a FROM t"
    """
    if mode not in ("append", "update"):
        raise InputError(f"the mode of a query is 'append' or 'update', got {mode!r}")
    if mode == "append":
        if ttl is not None:
            raise InputError(
                "`ttl` is for queries with mode 'update'; leave it out or set the mode"
            )
        return sql
    span = f", {_TTL}('{_checked_span(ttl)}')" if ttl is not None else ""
    at = _outermost_select(sql)
    return f"{sql[:at]} /*+ {_UPDATE}{span} */{sql[at:]}"


def _outermost_select(sql: str) -> int:
    """Return where the outermost SELECT of a text ends."""
    from evenflow.sql.compile.parse import StreamingSpark

    depth = 0
    for token in StreamingSpark().tokenize(sql):
        kind = token.token_type
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        if kind == TokenType.SELECT and depth == 0:
            return int(token.end) + 1
    raise InputError("a query with a mode must be a SELECT without parentheses around it")


def _checked_span(text: str) -> str:
    parse_span_us(text)
    return text


_OWN = {_UPDATE, _TTL, _LATE}


def _hint_nodes(query: Ast) -> list[Ast]:
    hint = query.args.get("hint")
    return list(hint.expressions) if hint is not None else []


def _name(node: Ast) -> str:
    name = node.this if isinstance(node, exp.Anonymous | exp.Var) else node.name
    return str(name).upper()


def _span_us(node: Ast | None, default: str | None = None) -> int | None:
    if node is None:
        return None
    arguments = node.expressions if isinstance(node, exp.Anonymous) else []
    if not arguments and default is not None:
        return parse_span_us(default)
    if len(arguments) != 1 or not arguments[0].is_string:
        raise refusal(node, "needs a span of time as a text, such as '1 hour'")
    span_us = parse_span_us(str(arguments[0].this))
    if span_us <= 0:
        raise refusal(node, "needs a span above zero")
    return span_us
