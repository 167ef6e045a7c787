"""Hashes and checksums."""

from functools import partial

import pyarrow as pa
from sqlglot import exp

from evenflow.sql import types
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.registry import Overload, function, parsed, scalar
from evenflow.sql.translate.translator import Translator
from evenflow.sql.translate.typed_expr import Ast, TypedExpr, compose_expr
from evenflow.sql.types import BINARY, INT, LONG, STRING

_hash = partial(scalar, topic="hashes")

parsed("md5", topic="hashes")
_hash("sha sha1", "sha1({0})", STRING, BINARY)
_hash("sha2", "spark_sha2({0}, {1})", STRING, BINARY, INT, route="kernel")
_hash("crc32", "spark_crc32({0})", LONG, BINARY, route="kernel")


def hash_sql(node: Ast, name: str, value: TypedExpr, seed: str) -> str:  # noqa: PLR0911 - a table of types
    """Write the hash of one value, which starts from the hash of those before it."""
    kind, sql = value.type, value.sql
    if kind in (types.BOOLEAN, types.BYTE, types.SHORT, types.INT, types.NULL):
        return f"spark_{name}_int(CAST({sql} AS BIGINT), {seed})"
    if kind == types.DATE:
        return f"spark_{name}_int(CAST({sql} - DATE '1970-01-01' AS BIGINT), {seed})"
    if kind == types.LONG:
        return f"spark_{name}_long({sql}, {seed})"
    if types.is_timestamp(kind):
        return f"spark_{name}_long(epoch_us({sql}), {seed})"
    if kind == types.FLOAT:
        return f"spark_{name}_int(spark_float_bits({sql}), {seed})"
    if kind == types.DOUBLE:
        return f"spark_{name}_long(spark_double_bits({sql}), {seed})"
    if kind == types.STRING:
        return f"spark_{name}_text({sql}, {seed})"
    if kind == types.BINARY:
        return f"spark_{name}_bytes({sql}, {seed})"
    if types.is_decimal(kind) and kind.precision <= 18:
        scaled = f"CAST({sql} AS DECIMAL(38,{kind.scale})) * {10**kind.scale}"
        return f"spark_{name}_long(CAST({scaled} AS BIGINT), {seed})"
    if pa.types.is_struct(kind):
        for field in kind:
            part = f"struct_extract({sql}, {types.quote_string(field.name)})"
            seed = hash_sql(node, name, TypedExpr(part, field.type), seed)
        return seed
    raise refusal(node, f"hashes {types.spark_name(kind)}; cast it to STRING")


def _chain(name: str, seed: str, result: pa.DataType) -> Overload:
    def overload(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
        if not arguments or any(isinstance(a, exp.Star) for a in arguments):
            raise refusal(node, "needs the columns one by one")
        values = [translate(argument) for argument in arguments]
        sql = seed
        for value in values:
            sql = hash_sql(node, name, value, sql)
        return compose_expr(sql, result, *values)

    return overload


function("hash", _chain("hash", "CAST(42 AS INTEGER)", INT), topic="hashes", route="kernel")
function("xxhash64", _chain("xxhash", "CAST(42 AS BIGINT)", LONG), topic="hashes", route="kernel")
