"""JSON in texts: reading by path or by schema, and writing."""

import re
from functools import partial

import pyarrow as pa

from evenflow.sql import types
from evenflow.sql.kernels.json_values import steps
from evenflow.sql.translate.casts import cast_expr
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.registry import Only, coerce, constant, function, scalar
from evenflow.sql.translate.translator import Translator
from evenflow.sql.translate.typed_expr import Ast, TypedExpr, compose_expr
from evenflow.sql.types import INT, STRING, quote_string

_function = partial(function, topic="JSON", route="kernel")
scalar("json_array_length", "spark_json_length({0})", INT, Only(STRING), topic="JSON",
       route="kernel")  # fmt: skip
scalar("json_object_keys", "spark_json_keys({0})", pa.list_(STRING), Only(STRING), topic="JSON",
       route="kernel")  # fmt: skip


def _get_json_object(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = coerce(node, translate(arguments[0]), Only(STRING))
    path = str(constant(translate, node, arguments[1], str))
    if steps(path) is None:
        raise refusal(node, "has a path with other steps than .name, ['name'] and [0]")
    return compose_expr(f"spark_json_object({value.sql}, {quote_string(path)})", STRING, value)


def _field_kind(node: Ast, kind: pa.DataType) -> str:
    if types.is_integer(kind):
        return "INTEGER"
    if types.is_floating(kind):
        return "FLOATING"
    if types.is_decimal(kind):
        return "DECIMAL"
    if kind == types.BOOLEAN:
        return "BOOLEAN"
    if kind == STRING:
        return "STRING"
    if kind == types.DATE or types.is_timestamp(kind):
        return "TIME"
    raise refusal(node, f"has a field of type {types.spark_name(kind)}; use get_json_object for it")


def _from_json(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    """Read the fields of a schema; a document that cannot be read gives NULLs."""
    from evenflow.sql.catalog import read_schema

    value = coerce(node, translate(arguments[0]), Only(STRING))
    text = str(constant(translate, node, arguments[1], str)).strip()
    if text.lower().startswith("struct<") and text.endswith(">"):
        text = re.sub(r"(\w+)\s*:", r"\1 ", text[7:-1])
    schema = read_schema(text)
    fields = []
    for field in schema:
        kind = _field_kind(node, field.type)
        sql = f"spark_json_field({value.sql}, {quote_string(field.name)}, '{kind}')"
        read = TypedExpr(sql, STRING)
        if field.type != STRING:
            source = read
            if (
                types.is_integer(field.type)
                or types.is_floating(field.type)
                or types.is_decimal(field.type)
            ):
                source = TypedExpr(
                    f"TRY_CAST({sql} AS {types.duckdb_name(field.type)})", field.type
                )
            else:
                source = cast_expr(node, read, field.type, safe=True)
            read = source
        fields.append(f"{quote_string(field.name)}: {read.sql}")
    kind = pa.struct([pa.field(f.name, f.type) for f in schema])
    sql = f"(CASE WHEN {value.sql} IS NOT NULL THEN {{{', '.join(fields)}}} END)"
    return compose_expr(sql, kind, value)


def _json_sql(node: Ast, sql: str, kind: pa.DataType) -> str:  # noqa: PLR0911 - a table of types
    """Write a value as JSON; NULL fields of structs are left out."""
    if kind == STRING:
        return f"spark_json_quote({sql})"
    if types.is_integer(kind) or types.is_decimal(kind):
        return cast_expr(node, TypedExpr(sql, kind), STRING).sql
    if types.is_floating(kind):
        text = cast_expr(node, TypedExpr(sql, kind), STRING).sql
        return f"(CASE WHEN isfinite({sql}) THEN {text} ELSE '\"' || {text} || '\"' END)"
    if kind == types.BOOLEAN:
        return cast_expr(node, TypedExpr(sql, kind), STRING).sql
    if kind == types.DATE:
        return f"('\"' || CAST({sql} AS VARCHAR) || '\"')"
    if types.is_timestamp(kind):
        zone = "Z" if kind == types.TIMESTAMP else ""
        return f"('\"' || strftime({sql}, '%Y-%m-%dT%H:%M:%S.%g') || '{zone}\"')"
    if pa.types.is_struct(kind):
        parts = []
        for field in kind:
            inner = f"struct_extract({sql}, {quote_string(field.name)})"
            name = quote_string(f'"{field.name}":')
            parts.append(f"{name} || {_json_sql(node, inner, field.type)}")
        listed = f"[{', '.join(parts)}]"
        given = f'list_filter({listed}, lambda "\x01j": "\x01j" IS NOT NULL)'
        return (
            f"(CASE WHEN {sql} IS NOT NULL THEN "
            f"'{{' || coalesce(array_to_string({given}, ','), '') || '}}' END)"
        )
    if pa.types.is_list(kind):
        inner = _json_sql(node, '"\x01v"', kind.value_type)
        listed = f"list_transform({sql}, lambda \"\x01v\": coalesce({inner}, 'null'))"
        return (
            f"(CASE WHEN {sql} IS NOT NULL THEN "
            f"'[' || coalesce(array_to_string({listed}, ','), '') || ']' END)"
        )
    raise refusal(node, f"writes {types.spark_name(kind)} as JSON, which is not supported")


def _to_json(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = translate(arguments[0])
    if not (pa.types.is_struct(value.type) or pa.types.is_list(value.type)):
        raise refusal(node, "needs a STRUCT or ARRAY; write to_json(struct(...))")
    return compose_expr(_json_sql(node, value.sql, value.type), STRING, value)


_function("get_json_object", _get_json_object, 2)
_function("from_json", _from_json, 2)
_function("to_json", _to_json, 1)
