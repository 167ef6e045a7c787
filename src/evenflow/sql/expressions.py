"""Turn a Spark SQL expression into a DuckDB expression of the same value and Spark's type.

The text that reaches DuckDB is written here, piece by piece, from an allow-list: a node that no
rule below or in `functions` knows is refused. Nothing of the user's text is passed on unread.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime

import pyarrow as pa
from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql import types
from evenflow.sql.intervals import interval_us
from evenflow.sql.typed import Ast, Relation, Typed

Hook = Callable[[Ast], Typed | None]

_COMPARE: dict[type, str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_LOGIC: dict[type, str] = {exp.And: "AND", exp.Or: "OR"}
_ARITHMETIC: dict[type, str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}


Parameters = dict[str, pa.DataType | None]  # of a template; None until a type is found


def said(node: Ast) -> str:
    """Quote a piece of the query for a message, cut where it is long."""
    sql = node.sql("spark")
    return f"`{sql}`" if len(sql) <= 80 else f"`{sql[:77]}...`"


@dataclass(frozen=True)
class Translator:
    """Translate expressions over the given inputs; `hook` may answer for a node first."""

    inputs: Mapping[str, Relation]
    hook: Hook | None = None
    parameters: "Parameters | None" = None

    def __call__(self, node: Ast) -> Typed:
        """Translate one expression."""
        if self.hook is not None and (answer := self.hook(node)) is not None:
            return answer
        for kind in type(node).__mro__:
            rule = _RULES.get(kind)
            if rule is not None:
                return rule(self, node)
        from evenflow.sql.functions import call

        return call(self, node)

    def boolean(self, node: Ast) -> Typed:
        """Translate a condition."""
        value = self(node)
        if value.type not in (types.BOOLEAN, types.NULL):
            raise InputError(
                f"{said(node)} is {types.spark_name(value.type)} where a condition is needed; "
                "compare it with something"
            )
        return value

    def column(self, node: Ast) -> Typed:
        """Resolve `a.b`, `b`, and fields of structs after them."""
        parts = [part.name for part in node.parts]
        if len(parts) > 1 and (alias := self._alias(parts[0])) is not None:
            relation = self.inputs[alias]
            if relation.find(parts[1]) is None:
                raise InputError(
                    f"{alias} has no column {parts[1]!r}; it has "
                    f"{', '.join(f.name for f in relation.fields)}"
                )
            return self._fields(self._column(alias, parts[1]), parts[2:])
        owners = [alias for alias, relation in self.inputs.items() if relation.find(parts[0])]
        if not owners:
            known = sorted({f.name for r in self.inputs.values() for f in r.fields})
            raise InputError(f"there is no column {parts[0]!r}; there are {', '.join(known)}")
        if len(owners) > 1:
            raise InputError(
                f"column {parts[0]!r} is in {' and in '.join(owners)}; "
                f"write {owners[0]}.{parts[0]} or {owners[1]}.{parts[0]}"
            )
        return self._fields(self._column(owners[0], parts[0]), parts[1:])

    def field(self, value: Typed, name: str) -> Typed:
        """Take a field of a struct."""
        if not pa.types.is_struct(value.type):
            raise InputError(f"{types.spark_name(value.type)} has no field {name!r}")
        for entry in value.type:
            if entry.name.lower() == name.lower():
                sql = f"struct_extract({value.sql}, {types.text(entry.name)})"
                time = value.time.field(entry.name.lower()) if value.time else None
                return Typed(sql, entry.type, value.columns, time=time)
        raise InputError(
            f"there is no field {name!r}; there are {', '.join(f.name for f in value.type)}"
        )

    def learn(self, node: Ast, kind: pa.DataType) -> None:
        """Give a parameter the type of what it is compared with."""
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Placeholder) and self.parameters is not None:
            name = str(node.this or "")
            if name in self.parameters and self.parameters[name] is None:
                self.parameters[name] = kind

    def sides(self, node: Ast) -> tuple[Typed, Typed]:
        """Translate both sides; a parameter takes the type of the other side."""
        if isinstance(node.left, exp.Placeholder):
            right = self(node.right)
            self.learn(node.left, right.type)
            return self(node.left), right
        left = self(node.left)
        self.learn(node.right, left.type)
        return left, self(node.right)

    def pair(self, node: Ast, left: Typed, right: Typed) -> tuple[Typed, Typed]:
        """Widen two sides to Spark's common type."""
        kind = types.common(left.type, right.type)
        if kind is None:
            raise InputError(
                f"{said(node)} mixes {types.spark_name(left.type)} and "
                f"{types.spark_name(right.type)}; cast one side to the other's type"
            )
        return left.cast(kind), right.cast(kind)

    def _alias(self, name: str) -> str | None:
        return next((alias for alias in self.inputs if alias.lower() == name.lower()), None)

    def _column(self, alias: str, name: str) -> Typed:
        entry = self.inputs[alias].find(name)
        assert entry is not None  # noqa: S101 - callers looked it up
        column = (alias, entry.name)
        return Typed(
            f"{types.name(alias)}.{types.name(entry.name)}",
            entry.type,
            frozenset([column]),
            column,
            entry.time.of(alias) if entry.time else None,
        )

    def _fields(self, value: Typed, names: list[str]) -> Typed:
        for name in names:
            value = self.field(value, name)
        return value


def combined(sql: str, kind: pa.DataType, *values: Typed) -> Typed:
    """Make an expression of others."""
    columns = frozenset[tuple[str, str]]().union(*(v.columns for v in values))
    return Typed(sql, kind, columns)


def _literal(_: Translator, node: Ast) -> Typed:
    written = str(node.this)
    if node.is_string:
        return Typed(types.text(written), types.STRING, literal=written)
    if written.lstrip("-").isdigit():
        value = int(written)
        if abs(value) >= 1 << 63:
            raise InputError(f"the number {written} is beyond BIGINT; write it as a DECIMAL cast")
        kind = types.INT if -(1 << 31) <= value < 1 << 31 else types.LONG
        return Typed(f"CAST({value} AS {types.duckdb_name(kind)})", kind, literal=value)
    if "e" in written.lower():
        return Typed(f"CAST({float(written)!r} AS DOUBLE)", types.DOUBLE)
    whole, _dot, fraction = written.partition(".")
    digits = max(len(whole.lstrip("0")) + len(fraction), len(fraction), 1)
    if digits > types.MAX_DIGITS or not (whole + fraction).isdigit():
        raise InputError(f"the number {written[:50]} cannot be read; at most 38 digits")
    exact = pa.decimal128(digits, len(fraction))
    return Typed(f"CAST({types.text(written)} AS {types.duckdb_name(exact)})", exact)


def _compare(translate: Translator, node: Ast) -> Typed:
    left, right = translate.sides(node)
    left, right = _dated(left, right), _dated(right, left)
    left, right = translate.pair(node, left, right)
    return combined(f"({left.sql} {_COMPARE[type(node)]} {right.sql})", types.BOOLEAN, left, right)


def _dated(value: Typed, other: Typed) -> Typed:
    """Read a string literal that stands beside a date or timestamp, as Spark does."""
    if not isinstance(value.literal, str):
        return value
    try:
        if other.type == types.DATE:
            day = date.fromisoformat(value.literal)
            return Typed(f"DATE {types.text(day.isoformat())}", types.DATE)
        if types.is_time(other.type):
            return Typed(timestamp_sql(value.literal), other.type)
    except ValueError:
        raise InputError(f"{value.literal!r} is no date or time; write '2026-01-31'") from None
    return value


def timestamp_sql(written: str) -> str:
    """Write a timestamp literal, read in UTC where it names no zone."""
    moment = datetime.fromisoformat(written)
    if (offset := moment.utcoffset()) is not None:
        moment = (moment - offset).replace(tzinfo=None)
    return f"TIMESTAMP {types.text(moment.isoformat(' '))}"


def _null_safe(translate: Translator, node: Ast) -> Typed:
    left, right = translate.pair(node, *translate.sides(node))
    sql = f"({left.sql} IS NOT DISTINCT FROM {right.sql})"
    return combined(sql, types.BOOLEAN, left, right)


def _logic(translate: Translator, node: Ast) -> Typed:
    left, right = translate.boolean(node.left), translate.boolean(node.right)
    return combined(f"({left.sql} {_LOGIC[type(node)]} {right.sql})", types.BOOLEAN, left, right)


def _not(translate: Translator, node: Ast) -> Typed:
    value = translate.boolean(node.this)
    return combined(f"(NOT {value.sql})", types.BOOLEAN, value)


def _is(translate: Translator, node: Ast) -> Typed:
    value, what = translate(node.this), node.args["expression"]
    if isinstance(what, exp.Null):
        return combined(f"({value.sql} IS NULL)", types.BOOLEAN, value)
    if isinstance(what, exp.Boolean) and value.type == types.BOOLEAN:
        word = "TRUE" if what.this else "FALSE"
        return combined(f"({value.sql} IS NOT DISTINCT FROM {word})", types.BOOLEAN, value)
    raise InputError(f"{said(node)} is not supported; write IS NULL or IS TRUE")


def _between(translate: Translator, node: Ast) -> Typed:
    low = exp.GTE(this=node.this, expression=node.args["low"])
    high = exp.LTE(this=node.this, expression=node.args["high"])
    return _logic(translate, exp.And(this=low, expression=high))


def _in(translate: Translator, node: Ast) -> Typed:
    if node.args.get("query") is not None or node.args.get("unnest") is not None:
        raise InputError(f"{said(node)}: IN (SELECT ...) is not supported; write a JOIN instead")
    value = translate(node.this)
    for item in node.expressions:
        translate.learn(item, value.type)
    items = [translate.pair(node, _dated(translate(e), value), value) for e in node.expressions]
    if not items:
        raise InputError(f"{said(node)} has an empty list")
    kinds = {left.type for left, _ in items}
    widest = value.type
    for kind in kinds:
        widest = types.common(widest, kind) or widest
    listed = ", ".join(left.cast(widest).sql for left, _ in items)
    return combined(
        f"({value.cast(widest).sql} IN ({listed}))",
        types.BOOLEAN,
        value,
        *(left for left, _ in items),
    )


def _arithmetic(translate: Translator, node: Ast) -> Typed:
    if isinstance(node, exp.Add | exp.Sub):
        if isinstance(node.right, exp.Interval) or _is_interval(node.right):
            return _shift(translate, node)
        if isinstance(node, exp.Add) and _is_interval(node.left):
            return _shift(translate, exp.Add(this=node.right, expression=node.left))
    left, right = translate(node.left), translate(node.right)
    for side in (left, right):
        if not (types.is_number(side.type) or side.type == types.NULL):
            raise InputError(
                f"{said(node)}: {types.spark_name(side.type)} is no number; "
                "times take an INTERVAL, for the rest write a cast"
            )
    sign = _ARITHMETIC[type(node)]
    if types.is_decimal(left.type) or types.is_decimal(right.type):
        return _decimal(node, sign, left, right)
    left, right = translate.pair(node, left, right)
    return combined(f"({left.sql} {sign} {right.sql})", left.type, left, right)


def _decimal(node: Ast, sign: str, left: Typed, right: Typed) -> Typed:
    """Add, subtract or multiply exactly, in the precision Spark gives."""
    if types.is_fraction(left.type) or types.is_fraction(right.type):
        left, right = left.cast(types.DOUBLE), right.cast(types.DOUBLE)
        return combined(f"({left.sql} {sign} {right.sql})", types.DOUBLE, left, right)
    a, b = literal_decimal(left), literal_decimal(right)
    if sign == "*":
        digits, scale = a.precision + b.precision + 1, a.scale + b.scale
    else:
        scale = max(a.scale, b.scale)
        digits = max(a.precision - a.scale, b.precision - b.scale) + scale + 1
    if digits > types.MAX_DIGITS:
        raise InputError(
            f"{said(node)} needs {digits} digits of DECIMAL, 38 is the most; "
            "cast a side to fewer digits or to DOUBLE"
        )
    kind = pa.decimal128(digits, scale)
    left, right = left.cast(a), right.cast(b)
    name = types.duckdb_name(kind)
    if sign == "*":
        sql = f"CAST({left.sql} * {right.sql} AS {name})"
    else:
        sql = f"CAST(CAST({left.sql} AS {name}) {sign} CAST({right.sql} AS {name}) AS {name})"
    return combined(sql, kind, left, right)


def literal_decimal(value: Typed) -> pa.Decimal128Type:
    """Return the decimal type of an operand; Spark takes a literal at its own length."""
    if isinstance(value.literal, int) and types.is_integer(value.type):
        return pa.decimal128(max(len(str(abs(value.literal))), 1), 0)
    return types.as_decimal(types.INT if value.type == types.NULL else value.type)


def _is_interval(node: Ast) -> bool:
    if isinstance(node, exp.Paren):
        return _is_interval(node.this)
    if isinstance(node, exp.Add | exp.Sub):
        return _is_interval(node.left) and _is_interval(node.right)
    return isinstance(node, exp.Interval)


def _shift(translate: Translator, node: Ast) -> Typed:
    """Move a timestamp by a constant."""
    value, by_us = translate(node.left), interval_us(node.right)
    if not types.is_time(value.type):
        raise InputError(
            f"{said(node)} adds an interval to {types.spark_name(value.type)}; "
            "cast it to TIMESTAMP first"
        )
    if isinstance(node, exp.Sub):
        by_us = -by_us
    sql = f"({value.sql} + to_microseconds({by_us}))"
    moved = value.time.shifted(by_us) if value.time else None
    return replace(combined(sql, value.type, value), time=moved)


def _negate(translate: Translator, node: Ast) -> Typed:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        value = translate(node.this)
        if isinstance(value.literal, int):
            return _literal(translate, exp.Literal(this=f"-{node.this.this}", is_string=False))
    value = translate(node.this)
    if not types.is_number(value.type):
        raise InputError(f"{said(node)}: {types.spark_name(value.type)} has no sign")
    return combined(f"(-{value.sql})", value.type, value)


def _parameter(translate: Translator, node: Ast) -> Typed:
    name = str(node.this or "")
    if translate.parameters is None or name not in translate.parameters:
        raise InputError(f"{said(node)} is a parameter; parameters belong in WHERE of a template")
    kind = translate.parameters[name]
    if kind is None:
        raise InputError(
            f"the type of parameter :{name} is not known; compare it with a column, "
            f"or write CAST(:{name} AS DOUBLE)"
        )
    column = (SUBSCRIPTIONS, name)
    sql = f"{types.name(SUBSCRIPTIONS)}.{types.name(name)}"
    return Typed(sql, kind, frozenset([column]), column)


SUBSCRIPTIONS = "_subscriptions"

_RULES: dict[type, Callable[[Translator, Ast], Typed]] = {
    exp.Column: lambda t, n: t.column(n),
    exp.Dot: lambda t, n: t.field(t(n.this), n.expression.name),
    exp.Paren: lambda t, n: t(n.this),
    exp.Literal: _literal,
    exp.Null: lambda t, n: Typed("CAST(NULL AS INTEGER)", types.NULL),
    exp.Boolean: lambda t, n: Typed("TRUE" if n.this else "FALSE", types.BOOLEAN),
    exp.Placeholder: _parameter,
    exp.NullSafeEQ: _null_safe,
    exp.Not: _not,
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
    exp.Neg: _negate,
    **dict.fromkeys(_COMPARE, _compare),
    **dict.fromkeys(_LOGIC, _logic),
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
}
