"""Scalar functions that mean the same in Spark and here; the list is the allow-list.

Where DuckDB answers otherwise than Spark (ANSI mode, time zone UTC) the difference is written out:
division by zero fails, `/` never divides integers, casts to integers cut off and do not round,
`round` rounds the decimal digits a person sees. Functions whose answer depends on when or where
they run (`rand`, `current_timestamp`) are refused: a batch that is run again must repeat itself.
"""

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql import types
from evenflow.sql.expressions import Translator, combined, said, timestamp_sql
from evenflow.sql.typed import Ast, Typed

Rule = Callable[[Translator, Ast], Typed]


def call(translate: Translator, node: Ast) -> Typed:
    """Translate a function call, a cast or a CASE."""
    if isinstance(node, exp.Anonymous):
        named = _NAMED.get(str(node.this).lower())
        if named is not None:
            return named(translate, node)
    rule = _RULES.get(type(node))
    if rule is not None:
        return rule(translate, node)
    raise InputError(refusal(node))


def refusal(node: Ast) -> str:
    """Say why an expression is refused and what to write instead."""
    for kinds, advice in _REFUSED:
        if isinstance(node, kinds):
            return f"{said(node)} is refused: {advice}"
    return (
        f"{said(node)} is not among the expressions a continuous query may use; "
        "see docs/writing-queries.md, or write a Python operator"
    )


_REFUSED: tuple[tuple[tuple[type, ...], str], ...] = (
    ((exp.Subquery, exp.Exists, exp.Select), "join the other relation in FROM instead"),
    ((exp.Rand, exp.Randn, exp.Uuid), "its answer changes from run to run; add a column upstream"),
    (
        (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentUser),
        "its answer changes from run to run; use the event-time column",
    ),
    ((exp.Explode, exp.Posexplode, exp.Unnest), "explode the rows before they reach the stream"),
    ((exp.AggFunc,), "aggregates belong in SELECT or HAVING of a query with GROUP BY window(...)"),
    ((exp.Interval,), "an INTERVAL can only be added to or taken from a timestamp"),
    ((exp.Star,), "name the columns"),
)


def _numbers(translate: Translator, node: Ast, *arguments: Ast) -> list[Typed]:
    values = [translate(argument) for argument in arguments]
    for value in values:
        if not types.is_number(value.type) and value.type != types.NULL:
            raise InputError(
                f"{said(node)} needs numbers, got {types.spark_name(value.type)}; write a cast"
            )
    return values


def _need(node: Ast, value: Typed, kind: pa.DataType) -> Typed:
    if value.type not in (kind, types.NULL):
        raise InputError(
            f"{said(node)} needs {types.spark_name(kind)}, got {types.spark_name(value.type)}; "
            "write a cast"
        )
    return value


def _unify(translate: Translator, node: Ast, values: list[Typed]) -> list[Typed]:
    kind = values[0].type
    for value in values[1:]:
        wider = types.common(kind, value.type)
        if wider is None:
            raise InputError(
                f"{said(node)} mixes {types.spark_name(kind)} and "
                f"{types.spark_name(value.type)}; cast one to the other's type"
            )
        kind = wider
    return [value.cast(kind) for value in values]


def guarded(divisor: str, sql: str) -> str:
    """Fail on a zero divisor, as Spark does in ANSI mode."""
    failing = "error('division by zero; write try_divide(a, b) to get NULL instead')"
    return f"CASE WHEN {divisor} = 0 THEN {failing} ELSE {sql} END"


def _divide(translate: Translator, node: Ast) -> Typed:
    return _quotient(translate, node, node.left, node.right, safe=False)


def _quotient(translate: Translator, node: Ast, a: Ast, b: Ast, *, safe: bool) -> Typed:
    left, right = _numbers(translate, node, a, b)
    kinds = (left.type, right.type)
    if any(map(types.is_decimal, kinds)) and not any(map(types.is_fraction, kinds)):
        raise InputError(
            f"{said(node)} divides DECIMALs, whose last digits would differ from Spark's; "
            "cast one side to DOUBLE"
        )
    left, right = left.cast(types.DOUBLE), right.cast(types.DOUBLE)
    if safe:
        sql = f"CASE WHEN {right.sql} = 0 THEN NULL ELSE {left.sql} / {right.sql} END"
    else:
        sql = guarded(right.sql, f"{left.sql} / {right.sql}")
    return combined(f"CAST({sql} AS DOUBLE)", types.DOUBLE, left, right)


def _whole_quotient(translate: Translator, node: Ast) -> Typed:
    left, right = _numbers(translate, node, node.left, node.right)
    if not (types.is_integer(left.type) and types.is_integer(right.type)):
        raise InputError(f"{said(node)} needs integers; cast both sides to BIGINT")
    left, right = left.cast(types.LONG), right.cast(types.LONG)
    sql = guarded(right.sql, f"{left.sql} // {right.sql}")
    return combined(f"CAST({sql} AS BIGINT)", types.LONG, left, right)


def _remainder(translate: Translator, node: Ast) -> Typed:
    left, right = translate.pair(node, *_numbers(translate, node, node.left, node.right))
    if types.is_decimal(left.type):
        raise InputError(f"{said(node)} takes the remainder of DECIMALs; cast both to BIGINT")
    name = types.duckdb_name(left.type)
    sql = guarded(right.sql, f"{left.sql} % {right.sql}")
    return combined(f"CAST({sql} AS {name})", left.type, left, right)


def _pmod(translate: Translator, node: Ast) -> Typed:
    left, right = translate.pair(node, *_numbers(translate, node, *node.expressions))
    if not types.is_integer(left.type):
        raise InputError(f"{said(node)} needs integers; cast both sides to BIGINT")
    cycle = f"(({left.sql} % {right.sql}) + {right.sql}) % {right.sql}"
    sql = f"CAST({guarded(right.sql, cycle)} AS {types.duckdb_name(left.type)})"
    return combined(sql, left.type, left, right)


def _cast(translate: Translator, node: Ast) -> Typed:
    kind = types.parse(node.args["to"])
    safe = bool(node.args.get("safe"))
    translate.learn(node.this, kind)
    if node.this.is_string and kind in (types.TIMESTAMP, types.TIMESTAMP_NTZ):
        try:
            return Typed(timestamp_sql(str(node.this.this)), kind)
        except ValueError:
            raise InputError(f"{said(node)} is no timestamp; write '2026-01-31 12:00:00'") from None
    return convert(node, translate(node.this), kind, safe=safe)


def convert(node: Ast, value: Typed, kind: pa.DataType, *, safe: bool = False) -> Typed:
    """Cast as Spark does in ANSI mode; refuse where the two engines format or read differently."""
    source = value.type
    if source == kind:
        return value
    integers = types.is_integer(kind)
    if types.is_time(source) and types.is_time(kind):
        return value.cast(kind)
    if source == types.STRING and integers:
        # Spark reads only whole numbers here; DuckDB alone would round '1.5'.
        checked = f"CASE WHEN regexp_full_match(trim({value.sql}), '[+-]?[0-9]+') THEN "
        other = "NULL" if safe else f"error('not a whole number: ' || {value.sql})"
        sql = f"{checked}trim({value.sql}) WHEN {value.sql} IS NULL THEN NULL ELSE {other} END"
        return _as(f"CAST({sql} AS VARCHAR)", kind, safe, value)
    allowed = (
        source == types.NULL
        or (types.is_number(source) and types.is_number(kind))
        or (kind == types.STRING and (types.is_integer(source) or source == types.DATE))
        or (kind == types.STRING and types.is_decimal(source))
        or (source == types.STRING and (types.is_decimal(kind) or kind == types.DATE))
        or (source == types.BOOLEAN and integers)
        or (integers and source == types.BOOLEAN)
        or (types.is_time(source) and kind == types.DATE)
        or (source == types.DATE and types.is_time(kind))
        or (types.is_time(source) and kind == types.LONG)
    )
    if not allowed:
        raise InputError(
            f"{said(node)}: a cast from {types.spark_name(source)} to {types.spark_name(kind)} is "
            "not supported, the engines differ on it; cast before the stream"
        )
    sql = value.sql
    if types.is_time(source) and kind == types.LONG:
        sql = f"CAST(floor(epoch_us({sql}) / 1000000) AS BIGINT)"
    elif integers and (types.is_fraction(source) or types.is_decimal(source)):
        sql = f"trunc({sql})"
    return _as(sql, kind, safe, value)


def _as(sql: str, kind: pa.DataType, safe: bool, value: Typed) -> Typed:
    word = "TRY_CAST" if safe else "CAST"
    return combined(f"{word}({sql} AS {types.duckdb_name(kind)})", kind, value)


def _case(translate: Translator, node: Ast) -> Typed:
    conditions = []
    for branch in node.args["ifs"]:
        asked = branch.this
        if node.this is not None:
            asked = exp.EQ(this=node.this, expression=branch.this)
        conditions.append(translate.boolean(asked))
    default = node.args.get("default")
    last = translate(default) if default is not None else Typed("NULL", types.NULL)
    values = [translate(branch.args["true"]) for branch in node.args["ifs"]]
    *values, last = _unify(translate, node, [*values, last])
    arms = " ".join(f"WHEN {c.sql} THEN {v.sql}" for c, v in zip(conditions, values, strict=True))
    sql = f"CASE {arms} ELSE {last.sql} END"
    return combined(f"({sql})", last.type, *conditions, *values, last)


def _if(translate: Translator, node: Ast) -> Typed:
    branch = exp.If(this=node.this, true=node.args["true"])
    return _case(translate, exp.Case(ifs=[branch], default=node.args.get("false")))


def _nvl2(translate: Translator, node: Ast) -> Typed:
    asked = exp.Not(this=exp.Is(this=node.this, expression=exp.Null()))
    branch = exp.If(this=asked, true=node.args["true"])
    return _case(translate, exp.Case(ifs=[branch], default=node.args["false"]))


def _spread(name: str) -> Rule:
    def rule(translate: Translator, node: Ast) -> Typed:
        given = [node.this, *node.expressions] if node.this is not None else node.expressions
        values = _unify(translate, node, [translate(argument) for argument in given])
        sql = f"{name}({', '.join(v.sql for v in values)})"
        return combined(sql, values[0].type, *values)

    return rule


def _nullif(translate: Translator, node: Ast) -> Typed:
    left = translate(node.this)
    a, b = translate.pair(node, left, translate(node.expression))
    sql = f"(CASE WHEN {a.sql} = {b.sql} THEN NULL ELSE {left.sql} END)"
    return combined(sql, left.type, left, b)


def _text(name: str, result: pa.DataType, *, arguments: tuple[str, ...] = ("this",)) -> Rule:
    """Describe a function of strings."""

    def rule(translate: Translator, node: Ast) -> Typed:
        values = [_need(node, translate(node.args[a]), types.STRING) for a in arguments]
        sql = f"{name}({', '.join(v.sql for v in values)})"
        return combined(f"CAST({sql} AS {types.duckdb_name(result)})", result, *values)

    return rule


def _concat(translate: Translator, node: Ast) -> Typed:
    parts = node.expressions or [node.left, node.right]
    values = [_need(node, translate(part), types.STRING) for part in parts]
    return combined(f"({' || '.join(v.sql for v in values)})", types.STRING, *values)


def _like(translate: Translator, node: Ast) -> Typed:
    value = _need(node, translate(node.this), types.STRING)
    pattern = node.expression
    if not pattern.is_string:
        raise InputError(f"{said(node)}: the pattern of LIKE must be a constant")
    sql = f"({value.sql} LIKE {types.text(str(pattern.this))} ESCAPE '\\')"
    return combined(sql, types.BOOLEAN, value)


def _substring(translate: Translator, node: Ast) -> Typed:
    value = _need(node, translate(node.this), types.STRING)
    start, length = node.args.get("start"), node.args.get("length")
    numbers = [translate(n) for n in (start, length) if n is not None]
    if any(not isinstance(n.literal, int) for n in numbers) or int(numbers[0].literal or 0) < 1:
        raise InputError(f"{said(node)}: start must be a constant from 1, length a constant")
    sql = f"substring({', '.join([value.sql, *(str(n.literal) for n in numbers)])})"
    return combined(sql, types.STRING, value)


def _fraction(name: str) -> Rule:
    """Describe a function of one number that answers DOUBLE."""

    def rule(translate: Translator, node: Ast) -> Typed:
        value = _numbers(translate, node, node.this)[0].cast(types.DOUBLE)
        return combined(f"{name}({value.sql})", types.DOUBLE, value)

    return rule


def _sqrt(translate: Translator, node: Ast) -> Typed:
    value = _numbers(translate, node, node.this)[0].cast(types.DOUBLE)
    sql = f"(CASE WHEN {value.sql} < 0 THEN CAST('NaN' AS DOUBLE) ELSE sqrt({value.sql}) END)"
    return combined(sql, types.DOUBLE, value)


def _ln(translate: Translator, node: Ast) -> Typed:
    value = _numbers(translate, node, node.this)[0].cast(types.DOUBLE)
    sql = f"(CASE WHEN {value.sql} <= 0 THEN NULL ELSE ln({value.sql}) END)"
    return combined(sql, types.DOUBLE, value)


def _power(translate: Translator, node: Ast) -> Typed:
    left, right = (v.cast(types.DOUBLE) for v in _numbers(translate, node, node.left, node.right))
    return combined(f"pow({left.sql}, {right.sql})", types.DOUBLE, left, right)


def _abs(translate: Translator, node: Ast) -> Typed:
    (value,) = _numbers(translate, node, node.this)
    return combined(f"abs({value.sql})", value.type, value)


def _stepped(name: str) -> Rule:
    """Describe ceil and floor."""

    def rule(translate: Translator, node: Ast) -> Typed:
        (value,) = _numbers(translate, node, node.this)
        if node.args.get("decimals") is not None or types.is_decimal(value.type):
            raise InputError(f"{said(node)}: write it of an integer or a DOUBLE, without digits")
        sql = f"CAST({name}({value.sql}) AS BIGINT)"
        return combined(sql, types.LONG, value)

    return rule


def _round(translate: Translator, node: Ast) -> Typed:
    (value,) = _numbers(translate, node, node.this)
    wanted = node.args.get("decimals")
    digits = 0 if wanted is None else translate(wanted).literal
    if not isinstance(digits, int) or not 0 <= digits <= 9:
        raise InputError(f"{said(node)}: the number of digits must be a constant from 0 to 9")
    if types.is_integer(value.type):
        return value
    if types.is_decimal(value.type):
        scale = min(digits, value.type.scale)
        kind = pa.decimal128(min(value.type.precision - value.type.scale + 1 + scale, 38), scale)
        return combined(f"CAST({value.sql} AS {types.duckdb_name(kind)})", kind, value)
    # Through the shortest decimal text, as Spark does: 2.675 rounds to 2.68 although the
    # double beneath is a little less. Beyond 1e15 a double has no such digits.
    near = f"abs({value.sql}) < 1e15"
    seen = f"CAST(CAST({value.sql} AS VARCHAR) AS DECIMAL(38,{digits}))"
    name = types.duckdb_name(value.type)
    sql = f"(CASE WHEN {near} THEN CAST({seen} AS {name}) ELSE {value.sql} END)"
    return combined(sql, value.type, value)


def _part(name: str) -> Rule:
    """Describe a part of a date or time, in UTC."""

    def rule(translate: Translator, node: Ast) -> Typed:
        value = translate(_undated(node.this))
        if not (types.is_time(value.type) or value.type == types.DATE):
            raise InputError(f"{said(node)} needs a timestamp or date; write a cast")
        return combined(f"CAST({name}({value.sql}) AS INTEGER)", types.INT, value)

    return rule


def _undated(node: Ast) -> Ast:
    """Undo the wrapping sqlglot adds around arguments of date functions."""
    while isinstance(node, exp.TsOrDsToDate | exp.TimeStrToTime):
        node = node.this
    return node


def _to_date(translate: Translator, node: Ast) -> Typed:
    if node.args.get("format") is not None:
        raise InputError(f"{said(node)}: to_date with a format is not supported; cast to DATE")
    return convert(node, translate(_undated(node.this)), types.DATE)


def _trunc(translate: Translator, node: Ast) -> Typed:
    value, unit = translate(node.this), str(node.args["unit"].this).lower()
    if not types.is_time(value.type) or unit not in (
        *("year", "quarter", "month", "week", "day", "hour", "minute", "second"),
    ):
        raise InputError(f"{said(node)}: write date_trunc('hour', timestamp) or another unit")
    sql = f"CAST(date_trunc({types.text(unit)}, {value.sql}) AS TIMESTAMP)"
    return combined(sql, value.type, value)


def _epoch(per_us: int) -> Rule:
    """Describe unix_micros, unix_millis and unix_seconds."""

    def rule(translate: Translator, node: Ast) -> Typed:
        argument = node.this if isinstance(node.this, exp.Expression) else node.expressions[0]
        value = translate(_undated(argument))
        if value.type != types.TIMESTAMP:
            raise InputError(f"{said(node)} needs a TIMESTAMP; write a cast")
        sql = f"epoch_us({value.sql})"
        if per_us > 1:
            sql = f"CAST(floor({sql} / {per_us}) AS BIGINT)"
        return combined(sql, types.LONG, value)

    return rule


def _isnan(translate: Translator, node: Ast) -> Typed:
    value = _numbers(translate, node, node.this)[0].cast(types.DOUBLE)
    return combined(f"coalesce(isnan({value.sql}), FALSE)", types.BOOLEAN, value)


def _window_time(translate: Translator, node: Ast) -> Typed:
    value = translate(node.expressions[0])
    end = translate.field(value, "end") if value.type == types.WINDOW else None
    if end is None or end.time is None:
        raise InputError(f"{said(node)} needs the window column of a windowed aggregate")
    sql = f"({end.sql} - to_microseconds(1))"
    return Typed(sql, types.TIMESTAMP, end.columns, time=end.time.shifted(-1))


_NAMED: dict[str, Rule] = {
    "pmod": _pmod,
    "window_time": _window_time,
}
_RULES: dict[type, Rule] = {
    exp.Div: _divide,
    exp.IntDiv: _whole_quotient,
    exp.Mod: _remainder,
    exp.SafeDivide: lambda t, n: _quotient(t, n, n.this, n.expression, safe=True),
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _spread("coalesce"),
    exp.Greatest: _spread("greatest"),
    exp.Least: _spread("least"),
    exp.Nullif: _nullif,
    exp.Nvl2: _nvl2,
    exp.Concat: _concat,
    exp.DPipe: _concat,
    exp.Like: _like,
    exp.Upper: _text("upper", types.STRING),
    exp.Lower: _text("lower", types.STRING),
    exp.Length: _text("length", types.INT),
    exp.StartsWith: _text("starts_with", types.BOOLEAN, arguments=("this", "expression")),
    exp.EndsWith: _text("ends_with", types.BOOLEAN, arguments=("this", "expression")),
    exp.Contains: _text("contains", types.BOOLEAN, arguments=("this", "expression")),
    exp.MD5: _text("md5", types.STRING),
    exp.Substring: _substring,
    exp.Abs: _abs,
    exp.Ceil: _stepped("ceil"),
    exp.Floor: _stepped("floor"),
    exp.Round: _round,
    exp.Sqrt: _sqrt,
    exp.Exp: _fraction("exp"),
    exp.Ln: _ln,
    exp.Pow: _power,
    exp.IsNan: _isnan,
    exp.Year: _part("year"),
    exp.Month: _part("month"),
    exp.Day: _part("day"),
    exp.DayOfMonth: _part("day"),
    exp.Hour: _part("hour"),
    exp.Minute: _part("minute"),
    exp.Second: _part("second"),
    exp.TsOrDsToDate: _to_date,
    exp.TimestampTrunc: _trunc,
    exp.UnixMicros: _epoch(1),
    exp.UnixMillis: _epoch(1_000),
    exp.UnixSeconds: _epoch(1_000_000),
}
