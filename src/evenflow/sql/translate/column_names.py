"""Names of result columns: the alias, or Spark's own name where it follows from the text."""

import re

from sqlglot import exp

from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.typed_expr import Ast

# Spark names a call of these as it is written; to others it adds arguments or changes the name.
_AS_WRITTEN = frozenset({
    "abs", "add_months", "any", "any_value", "approx_count_distinct", "array", "array_append",
    "array_compact", "array_contains", "array_distinct", "array_join", "array_max", "array_min",
    "array_position", "array_prepend", "array_remove", "array_repeat", "array_size", "ascii",
    "avg", "base64", "bin", "bit_and", "bit_count", "bit_length", "bit_or", "bit_xor",
    "bool_and", "bool_or", "btrim", "cardinality", "char_length", "character_length",
    "collect_list", "collect_set", "concat_ws", "contains", "conv", "count", "count_if",
    "covar_pop", "covar_samp", "crc32", "date_add", "date_diff", "date_format", "date_sub",
    "date_trunc", "datediff", "dayofmonth", "dayofweek", "dayofyear", "endswith", "every",
    "find_in_set", "first", "first_value", "format_number", "format_string", "get",
    "get_json_object", "hash", "initcap", "instr", "json_array_length", "kurtosis", "last",
    "last_day", "last_value", "left", "length", "ltrim", "make_date", "map_keys", "map_values",
    "max", "max_by", "md5", "mean", "median", "min", "min_by", "nanvl", "next_day", "pmod",
    "regexp_count", "repeat", "reverse", "right", "rtrim", "sha1", "sha2", "shiftleft",
    "shiftright", "size", "skewness", "some", "soundex", "split_part", "startswith", "std",
    "stddev", "stddev_pop", "stddev_samp", "substring_index", "sum", "to_date", "to_timestamp",
    "translate", "trim", "try_add", "try_divide", "try_multiply", "try_subtract", "unix_date",
    "upper", "lower", "url_decode", "url_encode", "var_pop", "var_samp", "variance", "weekday",
    "weekofyear", "xxhash64", "year", "month", "day", "hour", "minute", "second", "quarter",
})  # fmt: skip
_PLAIN_NUMBER = re.compile(r"(0|[1-9][0-9]*)(\.[0-9]+)?")  # others are written otherwise
_WITH_COUNT = {"round": 2, "substring": 3, "substr": 3, "regexp_extract": 3, "lpad": 3, "rpad": 3}
_UPPER_CASE = frozenset({
    "sqrt", "exp", "log10", "log2", "ceil", "floor", "sin", "cos", "tan", "signum", "power",
})  # fmt: skip
_NODES: dict[type, str] = {exp.Upper: "upper", exp.Lower: "lower", exp.Coalesce: "coalesce",
                           exp.Concat: "concat"}  # fmt: skip
_OPERATORS: dict[type, str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/",
                               exp.Mod: "%"}  # fmt: skip


def output_column_name(node: Ast) -> str:
    """Return the name of a result column; an expression whose name is not stable needs an alias."""
    if isinstance(node, exp.Alias):
        return str(node.alias)
    if isinstance(node, exp.Column):
        return str(node.name)
    if isinstance(node, exp.Dot) and isinstance(node.this, exp.Column | exp.Dot):
        return str(node.expression.name)
    if not isinstance(node, exp.Literal) and (made := _spark_name(node)) is not None:
        return made
    shown = node.sql("spark", normalize_functions=False)[:60]
    raise refusal(node, f"needs a name; write {shown} AS name")


def _spark_name(node: Ast) -> str | None:
    """Return Spark's name of an expression; None if it is not known."""
    if isinstance(node, exp.Paren):
        return _spark_name(node.this)
    if isinstance(node, exp.Column):
        return None if node.table else str(node.name)
    if isinstance(node, exp.Literal):
        text = str(node.this)
        return text if node.is_string or _PLAIN_NUMBER.fullmatch(text) else None
    if isinstance(node, exp.Dot):
        call = node.this
        is_window = isinstance(call, exp.Anonymous) and str(call.this).lower() == "window"
        owner = "window" if is_window else _spark_name(call)
        return None if owner is None else f"{owner}.{node.expression.name}"
    if type(node) in _OPERATORS:
        sides = [_spark_name(side) for side in (node.left, node.right)]
        return None if None in sides else f"({sides[0]} {_OPERATORS[type(node)]} {sides[1]})"
    return _call_name(node)


def _call_name(node: Ast) -> str | None:
    if isinstance(node, exp.Round) and node.args.get("decimals") is not None:
        name, arguments = "round", [node.this, node.args["decimals"]]
    elif isinstance(node, exp.Anonymous):
        name, arguments = str(node.this).lower(), list(node.expressions)
    elif type(node) in _NODES and not node.meta.get("alias"):
        name = _NODES[type(node)]
        first = [node.this] if node.args.get("this") is not None else []
        arguments = [*first, *node.expressions]
    else:
        return None
    known = name in _AS_WRITTEN or type(node) in _NODES or _WITH_COUNT.get(name) == len(arguments)
    if name == "count" and len(arguments) == 1 and isinstance(arguments[0], exp.Star):
        return "count(1)"
    word = ""
    if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        word, arguments = "DISTINCT ", list(arguments[0].expressions)
    parts = [_spark_name(argument) for argument in arguments]
    texts = [part for part in parts if part is not None]
    if len(texts) < len(parts) or not texts:
        return None
    if name in _UPPER_CASE:
        name, known = name.upper(), True
    return f"{name}({word}{', '.join(texts)})" if known else None
