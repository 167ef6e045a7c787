"""Arrays: made, searched, sorted, joined and cut, with Spark's rules for NULLs inside them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
from sqlglot import exp

from evenflow.sql import types
from evenflow.sql.failures import BAD_ARGUMENT, NOT_IN_ARRAY, TOO_MANY_ITEMS
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.registry import Only, Overload, bounded, coerce, constant, function
from evenflow.sql.translate.translator import Translator, register, widen
from evenflow.sql.translate.typed_expr import Ast, TypedExpr, compose_expr, write_once
from evenflow.sql.types import BOOLEAN, INT, LONG, STRING, quote_string

MAX_ITEMS = 10_000  # of an array that a function makes
_function = partial(function, topic="arrays")
_FAIL = f"error({quote_string(BAD_ARGUMENT)})"
_TOO_MANY = f"error({quote_string(TOO_MANY_ITEMS)})"
_OUTSIDE = f"error({quote_string(NOT_IN_ARRAY)})"
_HAS_NULL = "(list_count({0}) < len({0}))"
_DISTINCT = 'list_filter({0}, lambda "\x01x", "\x01i": list_position({0}, "\x01x") = "\x01i")'


def array_of(translate: Translator, node: Ast, argument: Ast) -> TypedExpr:
    """Translate an argument that must be an array."""
    value = translate(argument)
    if not pa.types.is_list(value.type):
        raise refusal(node, f"needs an ARRAY, got {types.spark_name(value.type)}")
    return value


def refuse_untyped(node: Ast, *values: TypedExpr) -> None:
    """Refuse a NULL without a type as part of an array, map or struct."""
    if any(value.type == types.NULL for value in values):
        raise refusal(node, "has a NULL without a type; write CAST(NULL AS INT), or another type")


def _with_item(translate: Translator, node: Ast, arguments: list[Ast]) -> tuple[TypedExpr, ...]:
    """Translate an array and a value, both widened to the array's items."""
    array, item = array_of(translate, node, arguments[0]), translate(arguments[1])
    kind = types.common_type(array.type.value_type, item.type)
    differ = item.type not in (array.type.value_type, types.NULL)
    if kind is None or (differ and any(map(types.is_decimal, (kind, item.type)))):
        names = f"{types.spark_name(array.type)} and {types.spark_name(item.type)}"
        raise refusal(node, f"mixes {names}; write a cast")
    return array.cast(pa.list_(kind)), item.cast(kind)


def _array(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    if not arguments:
        raise refusal(node, "has no values, so its type is not known")
    values = widen(node, *(translate(argument) for argument in arguments))
    refuse_untyped(node, *values)
    kind = pa.list_(values[0].type)
    return compose_expr(f"[{', '.join(v.sql for v in values)}]", kind, *values)


def _of_item(template: str, result: pa.DataType | None) -> Overload:
    """Return the rule of a function of an array `{0}` and a value `{1}`; None: an array."""

    def overload(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
        array, item = _with_item(translate, node, arguments)
        sql = write_once(template.format, array.sql, item.sql)
        return compose_expr(sql, array.type if result is None else result, array, item)

    return overload


def _of_array(template: str, result: str) -> Overload:
    """Return the rule of a function of an array; its result is an array, an item or an INT."""

    def overload(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
        array = array_of(translate, node, arguments[0])
        if result == "item":
            _check_order(node, array.type.value_type)
        kind = {"array": array.type, "item": array.type.value_type, "int": INT}[result]
        return compose_expr(write_once(template.format, array.sql), kind, array)

    return overload


def _extreme(name: str, sign: str) -> Overload:
    """Return the rule of array_max or array_min: of 0.0 and -0.0, which are equal, the first."""
    left, right = '"\x01p"', '"\x01q"'
    pair = f"lambda {left}, {right}: CASE WHEN {right} {sign} {left} THEN {right} ELSE {left} END"
    known = 'list_filter({0}, lambda "\x01x": "\x01x" IS NOT NULL)'
    first = f"(CASE WHEN list_count({{0}}) > 0 THEN list_reduce({known}, {pair}) END)"

    def overload(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
        kind = array_of(translate, node, arguments[0]).type.value_type
        template = first if types.is_floating(kind) else f"{name}({{0}})"
        return _of_array(template, "item")(translate, node, arguments)

    return overload


def _with_one_zero(array: TypedExpr) -> TypedExpr:
    """Write -0.0 as 0.0, as Spark does where items are compared as a set."""
    if not types.is_floating(array.type.value_type):
        return array
    item = '"\x01z"'
    zero = f"CASE WHEN {item} = 0 THEN 0 ELSE {item} END"
    return replace(array, sql=f"list_transform({array.sql}, lambda {item}: {zero})")


def _distinct(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    array = _with_one_zero(array_of(translate, node, arguments[0]))
    return compose_expr(write_once(_DISTINCT.format, array.sql), array.type, array)


def _of_two(template: str, result: pa.DataType | None) -> Overload:
    def overload(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
        arrays = widen(node, *(array_of(translate, node, a) for a in arguments))
        left, right = map(_with_one_zero, arrays)
        sql = write_once(template.format, left.sql, right.sql)
        return compose_expr(sql, left.type if result is None else result, left, right)

    return overload


def _check_order(node: Ast, kind: pa.DataType) -> None:
    if pa.types.is_nested(kind):
        raise refusal(node, "orders STRUCTs or ARRAYs, on whose NULLs the engines differ")


def _sort(order: str, nulls: str) -> Overload:
    def overload(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
        array = array_of(translate, node, arguments[0])
        _check_order(node, array.type.value_type)
        if len(arguments) > 1 and not isinstance(arguments[1], exp.Boolean):
            raise refusal(node, "needs true or false as its second argument")
        ascending = len(arguments) < 2 or bool(arguments[1].this)
        words = (order, nulls) if ascending else ("DESC", "NULLS LAST")
        sql = f"list_sort({array.sql}, '{words[0]}', '{words[1]}')"
        return compose_expr(sql, array.type, array)

    return overload


def joined_sql(items: str, separator: TypedExpr) -> str:
    """Join the texts of a list; DuckDB's own function needs a constant between them."""
    if separator.literal is not None:
        return f"array_to_string({items}, {separator.sql})"
    left, right = '"\x01p"', '"\x01q"'
    pair = f"lambda {left}, {right}: {left} || {separator.sql} || {right}"
    return f"CASE WHEN len({items}) > 0 THEN list_reduce({items}, {pair}) END"


def _join(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    array = array_of(translate, node, arguments[0])
    if array.type.value_type != STRING:
        raise refusal(node, "joins other values than STRING; cast them with transform")
    words = [coerce(node, translate(a), Only(STRING)) for a in arguments[1:]]
    items = array.sql
    if len(words) > 1:
        items = f'list_transform({items}, lambda "\x01w": coalesce("\x01w", {words[1].sql}))'
    else:
        items = f'list_filter({items}, lambda "\x01w": "\x01w" IS NOT NULL)'
    sql = joined_sql(items, words[0])
    sql = f"(CASE WHEN {array.sql} IS NOT NULL AND {words[0].sql} IS NOT NULL THEN " \
          f"coalesce({sql}, '') END)"  # fmt: skip
    return compose_expr(sql, STRING, array, *words)


def _repeat(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = translate(arguments[0])
    times = max(bounded(translate, node, arguments[1], MAX_ITEMS), 0)
    sql = f'list_transform(range({times}), lambda "\x01i": {value.sql})'
    return compose_expr(sql, pa.list_(value.type), value)


def map_key(translate: Translator, node: Ast, value: TypedExpr, argument: Ast) -> TypedExpr:
    """Translate the key of a map; only integers are widened to its type."""
    kind = value.type.key_type
    return coerce(node, translate(argument), kind if types.is_integer(kind) else Only(kind))


def _item_at(translate: Translator, node: Ast, arguments: list[Ast], *, base: int,
             missing: str) -> TypedExpr:  # fmt: skip
    """Read an item: by position from `base`, or of a map by its key."""
    value = translate(arguments[0])
    if pa.types.is_map(value.type):
        if node.name == "get":
            raise refusal(node, "needs an ARRAY; read a MAP with element_at")
        key = map_key(translate, node, value, arguments[1])
        sql = f"map_extract_value({value.sql}, {key.sql})"
        return compose_expr(sql, value.type.item_type, value, key)
    if not pa.types.is_list(value.type):
        raise refusal(node, f"needs an ARRAY or MAP, got {types.spark_name(value.type)}")
    index = translate(arguments[1])
    if index.type == types.NULL:
        raise refusal(node, "has NULL as its position; write CAST(NULL AS INT)")
    index = coerce(node, index, INT)

    def body(array: str, at: str) -> str:
        if base == 0:
            inside, position = f"{at} BETWEEN 0 AND len({array}) - 1", f"{at} + 1"
        else:
            inside, position = f"abs({at}) BETWEEN 1 AND len({array})", at
        zero = f"WHEN {at} = 0 THEN {_FAIL} " if base else ""
        return (
            f"(CASE WHEN {array} IS NULL OR {at} IS NULL THEN NULL {zero}"
            f"WHEN {inside} THEN ({array})[{position}] ELSE {missing} END)"
        )

    sql = write_once(body, value.sql, index.sql)
    can_fail = missing != "NULL" or base == 1
    return compose_expr(sql, value.type.value_type, value, index, can_fail=can_fail)


def _bracket(translate: Translator, node: Ast) -> TypedExpr:
    (index,) = node.expressions
    value = translate(node.this)
    if pa.types.is_struct(value.type) and index.is_string:
        return translate.struct_field(value, str(index.this))
    return _item_at(translate, node, [node.this, index], base=0, missing=_OUTSIDE)


def _size(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = translate(arguments[0])
    if pa.types.is_map(value.type):
        return compose_expr(f"CAST(cardinality({value.sql}) AS INTEGER)", INT, value)
    array = array_of(translate, node, arguments[0])
    return compose_expr(f"CAST(len({array.sql}) AS INTEGER)", INT, array)


def _reverse(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = translate(arguments[0])
    if pa.types.is_list(value.type):
        return compose_expr(f"list_reverse({value.sql})", value.type, value)
    value = coerce(node, value, STRING)
    return compose_expr(f"spark_reverse({value.sql})", STRING, value)


def _slice(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    array = array_of(translate, node, arguments[0])
    start, length = (int(constant(translate, node, a, int)) for a in arguments[1:])
    if start == 0 or length < 0:
        raise refusal(node, "needs a start that is not 0 and a length of at least 0")

    def body(items: str) -> str:
        first = str(start) if start > 0 else f"(len({items}) + {start + 1})"
        cut = f"({items})[{first}:{first} + {length - 1}]"
        return f"(CASE WHEN {first} < 1 OR {length} = 0 THEN ({items})[2:1] ELSE {cut} END)"

    return compose_expr(write_once(body, array.sql), array.type, array)


def _sequence(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    values = [translate(argument) for argument in arguments]
    if not all(types.is_integer(v.type) for v in values):
        raise refusal(node, "needs whole numbers")
    ends = [value.literal for value in values[:2] if isinstance(value.literal, int)]
    if len(ends) == 2 and abs(ends[1] - ends[0]) > MAX_ITEMS:
        raise refusal(node, f"makes more than {MAX_ITEMS:,} values")
    first, last, *steps = widen(node, *values)
    name = types.duckdb_name(first.type)

    def body(a: str, b: str, by: str = "") -> str:
        step = by or f"(CASE WHEN {a} <= {b} THEN 1 ELSE -1 END)"
        wrong = (
            f"({step} = 0 AND {a} <> {b}) OR ({step} > 0 AND {a} > {b}) "
            f"OR ({step} < 0 AND {a} < {b})"
        )
        count = f"abs((CAST({b} AS HUGEINT) - {a}) // nullif({step}, 0))"
        return (
            f"(CASE WHEN {wrong} THEN {_FAIL} WHEN {count} > {MAX_ITEMS} THEN {_TOO_MANY} "
            f"WHEN {a} = {b} THEN [{a}] ELSE CAST(generate_series(CAST({a} AS BIGINT), "
            f"CAST({b} AS BIGINT), CAST({step} AS BIGINT)) AS {name}[]) END)"
        )

    sql = write_once(body, first.sql, last.sql, *(s.sql for s in steps))
    return compose_expr(sql, pa.list_(first.type), first, last, *steps, can_fail=True)


def concat_arrays(node: Ast, values: Sequence[TypedExpr]) -> TypedExpr:
    """Join arrays end to end; NULL if one is NULL."""
    arrays = widen(node, *values)
    tests = " OR ".join(f"{a.sql} IS NULL" for a in arrays)
    joined = " || ".join(a.sql for a in arrays)
    return compose_expr(f"(CASE WHEN {tests} THEN NULL ELSE {joined} END)", arrays[0].type, *arrays)


def _flatten(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    array = array_of(translate, node, arguments[0])
    if not pa.types.is_list(array.type.value_type):
        raise refusal(node, "needs an ARRAY of ARRAYs")
    template = f"(CASE WHEN {_HAS_NULL} THEN NULL ELSE flatten({{0}}) END)"
    return compose_expr(write_once(template.format, array.sql), array.type.value_type, array)


_IN_BOTH = (
    'list_filter({distinct}, lambda "\x01x": {sign} (coalesce(list_contains({1}, "\x01x"), FALSE) '
    'OR ("\x01x" IS NULL AND list_count({1}) < len({1}))))'
)
_EXCEPT = _IN_BOTH.replace("{distinct}", _DISTINCT).replace("{sign}", "NOT")
_INTERSECT = _IN_BOTH.replace("{distinct}", _DISTINCT).replace("{sign}", "")
_BOTH = "(CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL ELSE %s END)"
_function("array", _array)
_function("size cardinality", _size, 1)
_function("array_size", _of_array("CAST(len({0}) AS INTEGER)", "int"), 1)
_function("array_contains", _of_item(
    f"(CASE WHEN {{0}} IS NULL OR {{1}} IS NULL THEN NULL WHEN list_contains({{0}}, {{1}}) "
    f"THEN TRUE WHEN {_HAS_NULL} THEN NULL ELSE FALSE END)", BOOLEAN), 2)  # fmt: skip
_function("array_position", _of_item(
    "CAST(CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL "
    "ELSE coalesce(list_position({0}, {1}), 0) END AS BIGINT)", LONG), 2)  # fmt: skip
_function(
    "array_remove",
    _of_item(_BOTH % 'list_filter({0}, lambda "\x01x": "\x01x" IS NULL OR "\x01x" <> {1})', None),
    2,
)
_function("array_append", _of_item(
    "(CASE WHEN {0} IS NULL THEN NULL ELSE list_append({0}, {1}) END)", None), 2)  # fmt: skip
_function("array_prepend", _of_item(
    "(CASE WHEN {0} IS NULL THEN NULL ELSE list_prepend({1}, {0}) END)", None), 2)  # fmt: skip
_function("array_distinct", _distinct, 1)
_function("array_compact", _of_array(
    'list_filter({0}, lambda "\x01x": "\x01x" IS NOT NULL)', "array"), 1)  # fmt: skip
_function("array_max", _extreme("list_max", ">"), 1)
_function("array_min", _extreme("list_min", "<"), 1)
_function("array_sort", _sort("ASC", "NULLS LAST"), 1)
_function("sort_array", _sort("ASC", "NULLS FIRST"), 1, 2)
_function("array_except", _of_two(_BOTH % _EXCEPT, None), 2)
_function("array_intersect", _of_two(_BOTH % _INTERSECT, None), 2)
_function("array_union", _of_two(_BOTH % _DISTINCT.replace("{0}", "({0} || {1})"), None), 2)
_function("arrays_overlap", _of_two(
    _BOTH % ("(CASE WHEN list_has_any({0}, {1}) THEN TRUE WHEN len({0}) > 0 AND len({1}) > 0 AND "
             "(list_count({0}) < len({0}) OR list_count({1}) < len({1})) THEN NULL "
             "ELSE FALSE END)"),
    BOOLEAN), 2)  # fmt: skip
_function("array_join", _join, 2, 3)
_function("array_repeat", _repeat, 2)
_function("element_at", partial(_item_at, base=1, missing=_OUTSIDE), 2)
_function("try_element_at", partial(_item_at, base=1, missing="NULL"), 2)
_function("get", partial(_item_at, base=0, missing="NULL"), 2)
_function("flatten", _flatten, 1)
_function("slice", _slice, 3)
_function("sequence", _sequence, 2, 3)
function("reverse", _reverse, 1, topic="strings", route="kernel")
register("this expressions offset safe returns_list_for_maps", {exp.Bracket: _bracket})
