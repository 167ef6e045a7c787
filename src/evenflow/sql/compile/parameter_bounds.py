"""What a row must fulfil for any subscription to want it: `price > :limit` needs the least limit.

The engine joins rows with all subscriptions at once. A comparison with the extreme of a parameter
follows from the template's own condition, so it changes no result, but it spares the join of rows
that are beyond every subscription.
"""

from collections.abc import Sequence
from typing import NamedTuple

from sqlglot import exp

from evenflow.sql import types
from evenflow.sql.translate.translator import SUBSCRIPTIONS_ALIAS, Translator
from evenflow.sql.translate.typed_expr import Ast

_COMPARISONS: dict[type, str] = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class ParameterBound(NamedTuple):
    """`value_sql` (SQL) compared by `comparison` with the extreme of a parameter of a DuckDB type."""

    value_sql: str
    comparison: str
    parameter: str
    duckdb_type: str

    @property
    def extreme_function(self) -> str:
        """The aggregate that gives the extreme."""
        return "max" if self.comparison.startswith("<") else "min"


def find_parameter_bounds(
    conjuncts: Sequence[Ast], translate: Translator
) -> tuple[ParameterBound, ...]:
    """Find the conditions between a plain column and a parameter of its type.

    Anything else might fail on rows that another condition would have kept away from it.
    """
    found = []
    for node in conjuncts:
        sign = _COMPARISONS.get(type(node))
        if sign is None:
            continue
        left, right = translate.translate_operands(node)
        if left.type != right.type or not (
            types.is_number(left.type) or types.is_timestamp(left.type)
        ):
            continue
        for value, parameter, way in ((left, right, sign), (right, left, _MIRRORED[sign])):
            if (
                value.column
                and parameter.column
                and parameter.inputs == {SUBSCRIPTIONS_ALIAS} != value.inputs
            ):
                kind = types.duckdb_name(parameter.type)
                found.append(ParameterBound(value.sql, way, parameter.column[1], kind))
    return tuple(found)
