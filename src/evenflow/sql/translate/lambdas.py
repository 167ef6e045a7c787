"""Functions that take a lambda: transform, filter, exists, forall, aggregate, zip_with."""

import hashlib
from functools import partial

import pyarrow as pa
from sqlglot import exp

from evenflow.sql import types
from evenflow.sql.translate.arrays import array_of
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.registry import function
from evenflow.sql.translate.translator import Translator, declare
from evenflow.sql.translate.typed_expr import Ast, TypedExpr, compose_expr
from evenflow.sql.types import BOOLEAN, INT

_function = partial(function, topic="lambdas")


def _names(node: Ast, count: int) -> list[str]:
    """Name the parameters in the engine: control characters keep them apart from columns."""
    digest = hashlib.blake2b(str(id(node)).encode(), digest_size=6).hexdigest()
    return [f'"\x01{digest}{at}"' for at in range(count)]


def _bind(translate: Translator, node: Ast, argument: Ast, *values: TypedExpr) -> TypedExpr:
    """Translate the body of a lambda, whose parameters are these values."""
    if not isinstance(argument, exp.Lambda):
        raise refusal(node, "needs a lambda, such as x -> x + 1")
    parameters = [str(e.name).lower() for e in argument.expressions]
    if len(parameters) > len(values) or not parameters:
        raise refusal(node, f"has a lambda of {len(parameters)} parameters; at most {len(values)}")
    known = dict(zip(parameters, values, strict=False))
    for part in argument.this.walk():
        is_name = isinstance(part, exp.Identifier) and part.arg_key != "alias"
        if is_name and not isinstance(part.parent, exp.Column) and part.name.lower() in known:
            if isinstance(part.parent, exp.Dot) and part.arg_key == "expression":
                continue
            if id(part) not in translate.memo.values:
                translate.memo.values[id(part)] = part, known[part.name.lower()]
    return translate(argument.this)


def _item(array: TypedExpr, name: str) -> TypedExpr:
    return TypedExpr(name, array.type.value_type)


def _transform(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    array = array_of(translate, node, arguments[0])
    item, at = _names(arguments[1], 2)
    index = TypedExpr(f"CAST({at} - 1 AS INTEGER)", INT)
    body = _bind(translate, node, arguments[1], _item(array, item), index)
    sql = f"list_transform({array.sql}, lambda {item}, {at}: {body.sql})"
    if len(arguments[1].expressions) == 1:
        sql = f"list_transform({array.sql}, lambda {item}: {body.sql})"
    return compose_expr(sql, pa.list_(body.type), array, body)


def _condition(
    translate: Translator, node: Ast, arguments: list[Ast]
) -> tuple[TypedExpr, TypedExpr, str]:
    array = array_of(translate, node, arguments[0])
    item, at = _names(arguments[1], 2)
    index = TypedExpr(f"CAST({at} - 1 AS INTEGER)", INT)
    body = _bind(translate, node, arguments[1], _item(array, item), index)
    if body.type not in (BOOLEAN, types.NULL):
        raise refusal(node, "needs a lambda that is a condition")
    heads = item if len(arguments[1].expressions) == 1 else f"{item}, {at}"
    return array, body.cast(BOOLEAN), heads


def _filter(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    array, body, heads = _condition(translate, node, arguments)
    sql = f"list_filter({array.sql}, lambda {heads}: {body.sql})"
    return compose_expr(sql, array.type, array, body)


def _exists(translate: Translator, node: Ast, arguments: list[Ast], *, wanted: str) -> TypedExpr:
    """Translate exists (TRUE is wanted) or forall (FALSE decides), with three values of truth."""
    array, body, heads = _condition(translate, node, arguments)
    other = "FALSE" if wanted == "TRUE" else "TRUE"
    tests = f"list_transform({array.sql}, lambda {heads}: {body.sql})"
    (name,) = _names(node, 1)
    sql = (
        f"(CASE WHEN {array.sql} IS NULL THEN NULL ELSE list_transform([{tests}], lambda {name}: "
        f"CASE WHEN list_contains({name}, {wanted}) THEN {wanted} "
        f"WHEN list_count({name}) < len({name}) THEN NULL ELSE {other} END)[1] END)"
    )
    return compose_expr(sql, BOOLEAN, array, body)


def _aggregate(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    array, start = array_of(translate, node, arguments[0]), translate(arguments[1])
    state, item = _names(arguments[2], 2)
    so_far = TypedExpr(state, start.type)
    body = _bind(translate, node, arguments[2], so_far, _item(array, item))
    if body.type != start.type:
        kinds = f"{types.spark_name(start.type)} and {types.spark_name(body.type)}"
        raise refusal(
            node, f"starts with another type than its lambda gives: {kinds}; write a cast"
        )
    # DuckDB reduces a list of one type: of structs with the state and the item.
    state_name = types.duckdb_name(start.type)
    item_name = types.duckdb_name(array.type.value_type)
    pair = f"STRUCT(s {state_name}, v {item_name})"
    merged = body.sql.replace(state, f"{state}.s").replace(item, f"{item}.v")
    items = (
        f"list_transform({array.sql}, lambda {item}: CAST({{'s': NULL, 'v': {item}}} AS {pair}))"
    )
    first = f"CAST({{'s': {start.sql}, 'v': NULL}} AS {pair})"
    step = f"CAST({{'s': {merged}, 'v': NULL}} AS {pair})"
    sql = (
        f"(CASE WHEN {array.sql} IS NOT NULL THEN list_reduce({items}, "
        f"lambda {state}, {item}: {step}, {first}).s END)"
    )
    result = compose_expr(sql, start.type, array, start, body)
    if len(arguments) < 4:
        return result
    (last,) = _names(arguments[3], 1)
    finish = _bind(translate, node, arguments[3], TypedExpr(last, start.type))
    sql = f"list_transform([{result.sql}], lambda {last}: {finish.sql})[1]"
    return compose_expr(sql, finish.type, result, finish)


def _zip_with(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    left, right = (array_of(translate, node, a) for a in arguments[:2])
    (pair,) = _names(arguments[2], 1)
    values = [TypedExpr(f"{pair}[{at}]", a.type.value_type) for at, a in ((1, left), (2, right))]
    body = _bind(translate, node, arguments[2], *values)
    sql = f"list_transform(list_zip({left.sql}, {right.sql}), lambda {pair}: {body.sql})"
    sql = f"(CASE WHEN {left.sql} IS NOT NULL AND {right.sql} IS NOT NULL THEN {sql} END)"
    return compose_expr(sql, pa.list_(body.type), left, right, body)


def _map_lambda(
    translate: Translator, node: Ast, arguments: list[Ast], *, changes: str
) -> TypedExpr:
    """Translate map_filter, transform_keys or transform_values, by the entries of the map."""
    value = translate(arguments[0])
    if not pa.types.is_map(value.type):
        raise refusal(node, f"needs a MAP, got {types.spark_name(value.type)}")
    (entry,) = _names(arguments[1], 1)
    key = TypedExpr(f"{entry}.key", value.type.key_type)
    item = TypedExpr(f"{entry}.value", value.type.item_type)
    body = _bind(translate, node, arguments[1], key, item)
    entries, kind = f"map_entries({value.sql})", value.type
    if changes == "entries":
        if body.type not in (BOOLEAN, types.NULL):
            raise refusal(node, "needs a lambda that is a condition")
        entries = f"list_filter({entries}, lambda {entry}: {body.cast(BOOLEAN).sql})"
        parts = [
            f"list_transform({entries}, lambda {entry}: {entry}.{p})" for p in ("key", "value")
        ]
    else:
        new = f"list_transform({entries}, lambda {entry}: {body.sql})"
        parts = [f"map_keys({value.sql})", f"map_values({value.sql})"]
        parts[changes == "values"] = new
        kind = (
            pa.map_(kind.key_type, body.type)
            if changes == "values"
            else pa.map_(body.type, kind.item_type)
        )
        if types.is_floating(kind.key_type) or pa.types.is_map(kind.key_type):
            raise refusal(node, f"has keys of {types.spark_name(kind.key_type)}; cast them")
    sql = f"(CASE WHEN {value.sql} IS NOT NULL THEN map({', '.join(parts)}) END)"
    return compose_expr(sql, kind, value, body, can_fail=changes == "keys")


_function("map_filter", partial(_map_lambda, changes="entries"), 2)
_function("transform_keys", partial(_map_lambda, changes="keys"), 2)
_function("transform_values", partial(_map_lambda, changes="values"), 2)
_function("transform", _transform, 2)
_function("filter", _filter, 2)
_function("exists", partial(_exists, wanted="TRUE"), 2)
_function("forall", partial(_exists, wanted="FALSE"), 2)
_function("aggregate reduce", _aggregate, 3, 4)
_function("zip_with", _zip_with, 3)
declare("this expressions colon", exp.Lambda)
