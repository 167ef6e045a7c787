"""Maps and structs."""

from functools import partial

import pyarrow as pa
from sqlglot import exp

from evenflow.sql import types
from evenflow.sql.translate.arrays import array_of, map_key, refuse_untyped
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.registry import constant, function
from evenflow.sql.translate.translator import Translator, widen
from evenflow.sql.translate.typed_expr import Ast, TypedExpr, compose_expr
from evenflow.sql.types import BOOLEAN, quote_string

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


_function("map", _map)
_function("map_from_arrays", _map_from_arrays, 2)
_function("map_keys", _map_keys, 1)
_function("map_values", _map_values, 1)
_function("map_entries", _map_entries, 1)
_function("map_contains_key", _map_contains_key, 2)
_function("struct", _struct)
_function("named_struct", _named_struct)
