"""Maps and structs."""

from functools import partial

import pyarrow as pa
from sqlglot import exp

from evenflow.sql import types
from evenflow.sql.translate.arrays import array_of, map_key, refuse_untyped
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.registry import Only, coerce, constant, function
from evenflow.sql.translate.translator import Translator, widen
from evenflow.sql.translate.typed_expr import Ast, TypedExpr, compose_expr
from evenflow.sql.types import BOOLEAN, STRING, quote_string

_function = partial(function, topic="maps and structs")


def _map_of(translate: Translator, node: Ast, argument: Ast) -> TypedExpr:
    value = translate(argument)
    if not pa.types.is_map(value.type):
        raise refusal(node, f"needs a MAP, got {types.spark_name(value.type)}")
    return value


def _check_keys(node: Ast, kind: pa.DataType) -> None:
    if types.is_floating(kind) or pa.types.is_map(kind):
        raise refusal(node, f"has keys of {types.spark_name(kind)}; cast them to another type")


def _map(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    if not arguments or len(arguments) % 2:
        raise refusal(node, "needs keys and values in turns, such as map('a', 1)")
    keys = widen(node, *(translate(a) for a in arguments[::2]))
    values = widen(node, *(translate(a) for a in arguments[1::2]))
    refuse_untyped(node, *keys, *values)
    _check_keys(node, keys[0].type)
    kind = pa.map_(keys[0].type, values[0].type)
    lists = (f"[{', '.join(v.sql for v in side)}]" for side in (keys, values))
    return compose_expr(f"map({', '.join(lists)})", kind, *keys, *values, can_fail=True)


def _map_from_arrays(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    keys, values = (array_of(translate, node, a) for a in arguments)
    _check_keys(node, keys.type.value_type)
    kind = pa.map_(keys.type.value_type, values.type.value_type)
    sql = f"(CASE WHEN {keys.sql} IS NOT NULL AND {values.sql} IS NOT NULL THEN " \
          f"map({keys.sql}, {values.sql}) END)"  # fmt: skip
    return compose_expr(sql, kind, keys, values, can_fail=True)


def _map_keys(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = _map_of(translate, node, arguments[0])
    sql = f"(CASE WHEN {value.sql} IS NOT NULL THEN map_keys({value.sql}) END)"
    return compose_expr(sql, pa.list_(value.type.key_type), value)


def _map_values(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = _map_of(translate, node, arguments[0])
    sql = f"(CASE WHEN {value.sql} IS NOT NULL THEN map_values({value.sql}) END)"
    return compose_expr(sql, pa.list_(value.type.item_type), value)


def _map_entries(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = _map_of(translate, node, arguments[0])
    kind = pa.list_(pa.struct([("key", value.type.key_type), ("value", value.type.item_type)]))
    sql = f"(CASE WHEN {value.sql} IS NOT NULL THEN map_entries({value.sql}) END)"
    return compose_expr(sql, kind, value)


def _map_contains_key(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = _map_of(translate, node, arguments[0])
    key = map_key(translate, node, value, arguments[1])
    sql = f"(CASE WHEN {value.sql} IS NOT NULL AND {key.sql} IS NOT NULL THEN " \
          f"list_contains(map_keys({value.sql}), {key.sql}) END)"  # fmt: skip
    return compose_expr(sql, BOOLEAN, value, key)


def _struct_of(node: Ast, named: list[tuple[str, TypedExpr]]) -> TypedExpr:
    types.check_column_names(name for name, _ in named)
    refuse_untyped(node, *(value for _, value in named))
    fields = ", ".join(f"{quote_string(name)}: {value.sql}" for name, value in named)
    kind = pa.struct([pa.field(name, value.type) for name, value in named])
    return compose_expr(f"{{{fields}}}", kind, *(value for _, value in named))


def _struct(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    named = []
    for at, argument in enumerate(arguments, 1):
        inner = argument.this if isinstance(argument, exp.Alias) else argument
        name = f"col{at}"
        if isinstance(argument, exp.Alias):
            name = argument.alias
        elif isinstance(argument, exp.Column | exp.Identifier):
            name = argument.name
        named.append((name, translate(inner)))
    return _struct_of(node, named)


def _named_struct(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    if not arguments or len(arguments) % 2:
        raise refusal(node, "needs names and values in turns, such as named_struct('a', 1)")
    names = [str(constant(translate, node, a, str)) for a in arguments[::2]]
    values = [translate(a) for a in arguments[1::2]]
    return _struct_of(node, list(zip(names, values, strict=True)))


def _map_concat(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    values = [_map_of(translate, node, a) for a in arguments]
    if len(values) < 2 or len({value.type for value in values}) > 1:
        raise refusal(node, "needs two or more maps of one type")
    keys, items = (
        f"flatten([{', '.join(f'{part}({value.sql})' for value in values)}])"
        for part in ("map_keys", "map_values")
    )
    given = " AND ".join(f"{value.sql} IS NOT NULL" for value in values)
    sql = f"(CASE WHEN {given} THEN map({keys}, {items}) END)"
    return compose_expr(sql, values[0].type, *values, can_fail=True)


def _map_from_entries(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = array_of(translate, node, arguments[0])
    entry = value.type.value_type
    if not pa.types.is_struct(entry) or entry.num_fields != 2:
        raise refusal(node, "needs an ARRAY of STRUCTs with two fields")
    _check_keys(node, entry.field(0).type)
    kind = pa.map_(entry.field(0).type, entry.field(1).type)
    parts = (
        f'list_transform({value.sql}, lambda "\x01e": struct_extract("\x01e", '
        f"{quote_string(entry.field(at).name)}))"
        for at in (0, 1)
    )
    is_whole = f"len({value.sql}) = list_count({value.sql})"
    sql = f"(CASE WHEN {value.sql} IS NOT NULL AND {is_whole} THEN map({', '.join(parts)}) END)"
    return compose_expr(sql, kind, value, can_fail=True)


def _str_to_map(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = coerce(node, translate(arguments[0]), Only(STRING))
    given = [str(constant(translate, node, a, str)) for a in arguments[1:]]
    pair, between = (*given, *(",", ":")[len(given) :])
    if any(len(text) != 1 or text in "\\^$.|?*+()[]{}" for text in (pair, between)):
        raise refusal(node, "needs delimiters of one character that has no meaning in a pattern")
    item = '"\x01p"'
    key = f"split_part({item}, {quote_string(between)}, 1)"
    rest = f"substr({item}, instr({item}, {quote_string(between)}) + 1)"
    rest = f"CASE WHEN contains({item}, {quote_string(between)}) THEN {rest} END"
    items = f"string_split({value.sql}, {quote_string(pair)})"
    lists = (f"list_transform({items}, lambda {item}: {part})" for part in (key, rest))
    sql = f"(CASE WHEN {value.sql} IS NOT NULL THEN map({', '.join(lists)}) END)"
    return compose_expr(sql, pa.map_(STRING, STRING), value, can_fail=True)


_function("map_concat", _map_concat)
_function("map_from_entries", _map_from_entries, 1)
_function("str_to_map", _str_to_map, 1, 2, 3)
_function("map", _map)
_function("map_from_arrays", _map_from_arrays, 2)
_function("map_keys", _map_keys, 1)
_function("map_values", _map_values, 1)
_function("map_entries", _map_entries, 1)
_function("map_contains_key", _map_contains_key, 2)
_function("struct", _struct)
_function("named_struct", _named_struct)
