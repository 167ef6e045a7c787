"""Conditions of a join: equalities to find partners by, bounds on the times to forget rows by."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql.expressions import Translator
from evenflow.sql.plan import Block, Node
from evenflow.sql.typed import Ast, Typed

if TYPE_CHECKING:
    from evenflow.sql.compile import _From


def conjuncts(node: Ast) -> list[Ast]:
    """Split a condition at its ANDs; BETWEEN is two conditions."""
    if isinstance(node, exp.Paren):
        return conjuncts(node.this)
    if isinstance(node, exp.And):
        return [*conjuncts(node.left), *conjuncts(node.right)]
    if isinstance(node, exp.Between):
        return [
            exp.GTE(this=node.this, expression=node.args["low"]),
            exp.LTE(this=node.this, expression=node.args["high"]),
        ]
    return [node]


def equal_columns(
    nodes: Sequence[Ast], translate: Translator
) -> tuple[tuple[tuple[str, str], tuple[str, str]], ...]:
    """List the pairs of plain columns that a condition makes equal."""
    return ()


def bounds(source: "_From") -> Any:
    """Refuse: joins of streams are not compiled yet."""
    raise InputError("joins of streams are not supported")


def buffered(block: Block, source: "_From", where: list[Typed]) -> Node:
    """Refuse: joins of streams are not compiled yet."""
    raise InputError("joins of streams are not supported")
