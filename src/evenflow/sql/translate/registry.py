"""Every function that a query can call, by Spark's name, with its topic and how it is computed.

`docs/reference/sql.md` lists this table. Functions of the parser's own syntax nodes (such as
`coalesce`) are listed by `parsed`; all others are called by their name and registered with
`function` or `scalar`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from evenflow.sql import types
from evenflow.sql.kernels.moments import read_timestamp
from evenflow.sql.translate.casts import cast_expr
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.translator import NAMED_RULES, Translator
from evenflow.sql.translate.typed_expr import Ast, TypedExpr, compose_expr, write_once

Route = Literal["engine", "kernel"]  # DuckDB's own functions, or one of `evenflow.sql.kernels`
Body = Callable[..., str]  # the SQL of the operands -> SQL
Overload = Callable[[Translator, Ast, list[Ast]], TypedExpr]
NUMBER, INTEGRAL, ANY, TEXT_OR_BINARY = "a number", "an integer", "any value", "STRING or BINARY"


@dataclass(frozen=True, slots=True)
class Only:
    """A parameter of one type for which Spark casts nothing."""

    type: pa.DataType


Parameter: TypeAlias = Any  # a type, Only(type), or one of the words above
Result: TypeAlias = Any  # a type, or a function of the operands


@dataclass
class SqlFunction:
    """A function of Spark: its rules by number of arguments (-1: any number)."""

    name: str
    topic: str
    route: Route
    overloads: dict[int, Overload] = field(default_factory=dict)

    def translate(self, translate: Translator, node: Ast) -> TypedExpr:
        """Translate a call."""
        arguments = list(node.expressions)
        overload = self.overloads.get(len(arguments)) or self.overloads.get(-1)
        if overload is None:
            counts = " or ".join(map(str, sorted(self.overloads)))
            raise refusal(node, f"has {len(arguments)} arguments; {self.name} takes {counts}")
        return overload(translate, node, arguments)


FUNCTIONS: dict[str, SqlFunction] = {}


def function(
    names: str, overload: Overload, *counts: int, topic: str, route: Route = "engine"
) -> None:
    """Register a rule under a name and its aliases, for these numbers of arguments (or any)."""
    for name in names.split():
        if name not in FUNCTIONS:
            FUNCTIONS[name] = SqlFunction(name, topic, route)
            NAMED_RULES[name] = FUNCTIONS[name].translate
        for count in counts or (-1,):
            if count in FUNCTIONS[name].overloads:
                raise ValueError(f"{name} with {count} arguments is registered twice")
            FUNCTIONS[name].overloads[count] = overload


def parsed(names: str, *, topic: str, route: Route = "engine") -> None:
    """List functions that the parser reads into syntax nodes of their own."""
    for name in names.split():
        FUNCTIONS[name] = SqlFunction(name, topic, route)


def coerce(node: Ast, value: TypedExpr, parameter: Parameter) -> TypedExpr:
    """Cast an argument to the type of a parameter where Spark does so by itself in ANSI mode.

    A STRING is not taken for a number, as in comparisons.
    """
    kind = value.type
    if kind == types.NULL:
        return value.cast(_NULL_TYPES.get(parameter) or getattr(parameter, "type", parameter))
    fits = _FITS.get(parameter) if isinstance(parameter, str) else None
    if parameter == TEXT_OR_BINARY:
        return value if kind == types.BINARY else coerce(node, value, types.STRING)
    if fits is not None and fits(kind):
        return value
    if isinstance(parameter, Only) and kind == parameter.type:
        return value
    if isinstance(parameter, pa.DataType) and _casts_by_itself(value, parameter):
        return value.cast(parameter) if types.is_number(parameter) else (
            cast_expr(node, value, parameter)
        )  # fmt: skip
    wanted = parameter if isinstance(parameter, str) else types.spark_name(
        getattr(parameter, "type", parameter)
    )  # fmt: skip
    raise refusal(node, f"needs {wanted}, got {types.spark_name(kind)}; write a cast")


_FITS: dict[str, Callable[[pa.DataType], bool]] = {
    ANY: lambda kind: True,
    NUMBER: types.is_number,
    INTEGRAL: types.is_integer,
}
_NULL_TYPES = {
    ANY: types.INT, NUMBER: types.DOUBLE, INTEGRAL: types.INT, TEXT_OR_BINARY: types.STRING,
}  # fmt: skip


def _casts_by_itself(  # noqa: PLR0911 - a table of types
    value: TypedExpr, parameter: pa.DataType
) -> bool:
    kind = value.type
    if kind == parameter:
        return True
    if parameter == types.DOUBLE:
        return types.is_number(kind)
    if types.is_integer(parameter):
        is_small = isinstance(value.literal, int) and -(1 << 31) <= value.literal < 1 << 31
        wider = types.is_integer(kind) and types.common_type(kind, parameter) == parameter
        return wider or (types.is_integer(kind) and is_small)
    if parameter == types.STRING:
        return not pa.types.is_nested(kind)
    if parameter == types.DATE or types.is_timestamp(parameter):
        if value.literal is not None and read_timestamp(str(value.literal), True) is None:
            return False  # a text that is no time
        return kind in (types.STRING, types.DATE) or types.is_timestamp(kind)
    return bool(parameter == types.BINARY and kind == types.STRING)


def scalar(
    names: str,
    sql: str | Body,
    result: Result,
    *parameters: Parameter,
    topic: str,
    route: Route = "engine",
    can_fail: bool = False,
    evaluates_all: bool = False,
) -> None:
    """Register a function that is one expression over its operands `{0}`, `{1}`.

    Like Spark, it evaluates no operand after one that is NULL, unless it `evaluates_all`.
    """
    body: Body = sql.format if isinstance(sql, str) else sql

    def overload(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
        values = [
            coerce(node, translate(argument), parameter)
            for argument, parameter in zip(arguments, parameters, strict=True)
        ]
        kind = result if isinstance(result, pa.DataType) else result(values)
        if evaluates_all:
            text = write_once(body, *(value.sql for value in values))
        else:
            text = _in_order(body, values)
        return compose_expr(text, kind, *values, can_fail=can_fail)

    function(names, overload, len(parameters), topic=topic, route=route)


def _in_order(body: Body, values: Sequence[TypedExpr], *known: str) -> str:
    """Write a function whose operands are evaluated in order, up to one that is NULL."""
    at = len(known)
    if not any(value.can_fail for value in values[at + 1 :]):
        return write_once(body, *known, *(value.sql for value in values[at:]))
    if values[at].literal is not None:
        return _in_order(body, values, *known, values[at].sql)

    def guard(text: str) -> str:
        return f"(CASE WHEN {text} IS NOT NULL THEN {_in_order(body, values, *known, text)} END)"

    return write_once(guard, values[at].sql)


def first_type(values: Sequence[TypedExpr]) -> pa.DataType:
    """Return the type of the first operand."""
    return values[0].type


def constant(translate: Translator, node: Ast, argument: Ast, kind: type) -> Any:
    """Read an argument that must be a constant."""
    value = translate(argument).literal
    if not isinstance(value, kind) or isinstance(value, bool):
        what = "a constant text" if kind is str else "a constant whole number"
        raise refusal(node, f"needs {what} instead of {argument.sql('spark')[:40]}")
    return value


def bounded(translate: Translator, node: Ast, argument: Ast, most: int) -> int:
    """Read a constant number that limits the size of a result."""
    value = int(constant(translate, node, argument, int))
    if value > most:
        raise refusal(node, f"needs a number of at most {most:,}")
    return value
