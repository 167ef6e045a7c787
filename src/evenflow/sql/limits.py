"""What a row must fulfil for any subscription to want it: `price > :limit` needs the least limit.

The engine joins rows with all subscriptions at once. A comparison with the extreme of a parameter
follows from the template's own condition, so it changes no result, but it spares the join of rows
that are beyond every subscription.
"""

from collections.abc import Sequence
from typing import NamedTuple

from sqlglot import exp

from evenflow.sql import types
from evenflow.sql.expressions import SUBSCRIPTIONS, Translator
from evenflow.sql.typed import Ast

_SIGNS: dict[type, str] = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Limit(NamedTuple):
    """`value` (SQL) compared by `sign` with the extreme of a parameter of a DuckDB type."""

    value: str
    sign: str
    parameter: str
    type: str

    @property
    def extreme(self) -> str:
        """The aggregate that gives the extreme."""
        return "max" if self.sign.startswith("<") else "min"


def limits(conjuncts: Sequence[Ast], translate: Translator) -> tuple[Limit, ...]:
    """Find the conditions between a plain column and a parameter of its type.

    Anything else might fail on rows that another condition would have kept away from it.
    """
    found = []
    for node in conjuncts:
        sign = _SIGNS.get(type(node))
        if sign is None:
            continue
        left, right = translate.sides(node)
        if left.type != right.type or not (types.is_number(left.type) or types.is_time(left.type)):
            continue
        for value, parameter, way in ((left, right, sign), (right, left, _MIRRORED[sign])):
            if (
                value.column
                and parameter.column
                and parameter.inputs == {SUBSCRIPTIONS} != value.inputs
            ):
                kind = types.duckdb_name(parameter.type)
                found.append(Limit(value.sql, way, parameter.column[1], kind))
    return tuple(found)
