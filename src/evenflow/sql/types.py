"""Spark's types, written as Arrow types, and Spark's rules for widening them.

TIMESTAMP is `timestamp[us, tz=UTC]`, TIMESTAMP_NTZ is `timestamp[us]`. Inside DuckDB both are plain
TIMESTAMP in UTC, so no result depends on a session's time zone. The physical types are those of
rows between nodes and in DuckDB.
"""

import re
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from sqlglot import exp

from evenflow.errors import InputError, shorten

BOOLEAN, BYTE, SHORT, INT, LONG = pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64()
FLOAT, DOUBLE, STRING, BINARY = pa.float32(), pa.float64(), pa.string(), pa.binary()
DATE, TIMESTAMP, TIMESTAMP_NTZ = pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us")
NULL = pa.null()
WINDOW = pa.struct([("start", TIMESTAMP), ("end", TIMESTAMP)])

MAX_DECIMAL_DIGITS = 38
MAX_NAME_CHARACTERS = 255
MAX_LEVELS, MAX_FIELDS = 30, 5_000  # of a column; Arrow reads 64 levels
_INTEGERS = (BYTE, SHORT, INT, LONG)
_INTEGER_DIGITS = {BYTE: 3, SHORT: 5, INT: 10, LONG: 20}
_D = exp.DType
_SCALARS: tuple[tuple[pa.DataType, str, str, tuple[exp.DType, ...]], ...] = (
    # Arrow, Spark, DuckDB, sqlglot
    (BOOLEAN, "BOOLEAN", "BOOLEAN", (_D.BOOLEAN,)),
    (BYTE, "TINYINT", "TINYINT", (_D.TINYINT,)),
    (SHORT, "SMALLINT", "SMALLINT", (_D.SMALLINT,)),
    (INT, "INT", "INTEGER", (_D.INT,)),
    (LONG, "BIGINT", "BIGINT", (_D.BIGINT,)),
    (FLOAT, "FLOAT", "FLOAT", (_D.FLOAT,)),
    (DOUBLE, "DOUBLE", "DOUBLE", (_D.DOUBLE,)),
    (STRING, "STRING", "VARCHAR", (_D.TEXT, _D.VARCHAR)),
    (BINARY, "BINARY", "BLOB", (_D.BINARY,)),
    (DATE, "DATE", "DATE", (_D.DATE,)),
    (TIMESTAMP, "TIMESTAMP", "TIMESTAMP", (_D.TIMESTAMPTZ, _D.TIMESTAMPLTZ, _D.TIMESTAMP)),
    (TIMESTAMP_NTZ, "TIMESTAMP_NTZ", "TIMESTAMP", (_D.TIMESTAMPNTZ,)),
    (NULL, "VOID", "INTEGER", ()),
)
_SPARK_NAMES = {kind: name for kind, name, _, _ in _SCALARS}
_DUCKDB_NAMES = {kind: name for kind, _, name, _ in _SCALARS}
_PARSED_TYPES = {parsed: kind for kind, _, _, several in _SCALARS for parsed in several}


def is_integer(kind: pa.DataType) -> bool:
    """Return whether the type is an integer."""
    return kind in _INTEGERS


def is_decimal(kind: pa.DataType) -> bool:
    """Return whether the type is DECIMAL."""
    return bool(pa.types.is_decimal(kind))


def is_floating(kind: pa.DataType) -> bool:
    """Return whether the type is FLOAT or DOUBLE."""
    return kind in (FLOAT, DOUBLE)


def is_number(kind: pa.DataType) -> bool:
    """Return whether arithmetic is defined on the type."""
    return is_integer(kind) or is_floating(kind) or is_decimal(kind)


def is_timestamp(kind: pa.DataType) -> bool:
    """Return whether the type is a timestamp."""
    return kind in (TIMESTAMP, TIMESTAMP_NTZ)


def spark_name(kind: pa.DataType) -> str:
    """Name a type as Spark does, for messages.

    >>> spark_name(pa.decimal128(10, 2)), spark_name(INT)
    ('DECIMAL(10,2)', 'INT')
    """
    if is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"ARRAY<{spark_name(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"MAP<{spark_name(kind.key_type)}, {spark_name(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{f.name}: {spark_name(f.type)}' for f in kind)}>"
    return _SPARK_NAMES.get(kind) or str(kind).upper()


def duckdb_name(kind: pa.DataType) -> str:
    """Name a type as DuckDB does, for CAST.

    >>> duckdb_name(WINDOW)
    'STRUCT("start" TIMESTAMP, "end" TIMESTAMP)'
    """
    if is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if pa.types.is_struct(kind):
        fields = ", ".join(f"{quote_identifier(f.name)} {duckdb_name(f.type)}" for f in kind)
        return f"STRUCT({fields})"
    if pa.types.is_list(kind):
        return f"{duckdb_name(kind.value_type)}[]"
    if pa.types.is_map(kind):
        return f"MAP({duckdb_name(kind.key_type)}, {duckdb_name(kind.item_type)})"
    if kind not in _DUCKDB_NAMES:
        raise InputError(f"a column of type {kind} can be selected but not used in expressions")
    return _DUCKDB_NAMES[kind]


def group_key_sql(sql: str, kind: pa.DataType) -> str:
    """Write a group as Spark shows it: -0.0 is 0.0, also inside structs."""
    if is_floating(kind):
        return f"({sql} + CAST(0 AS {duckdb_name(kind)}))"
    if pa.types.is_struct(kind) and kind != WINDOW:
        names = [(quote_string(f.name), f.type) for f in kind]
        fields = (f"{n}: {group_key_sql(f'struct_extract({sql}, {n})', t)}" for n, t in names)
        return f"(CASE WHEN {sql} IS NOT NULL THEN {{{', '.join(fields)}}} END)"
    return sql


def quote_identifier(identifier: str) -> str:
    """Quote a name for DuckDB."""
    return '"' + identifier.replace('"', '""') + '"'


def quote_string(value: str) -> str:
    """Quote a string for DuckDB."""
    return "'" + value.replace("'", "''") + "'"


def column_sql(alias: str, column: str) -> str:
    """Write a column of a table for DuckDB."""
    return f"{quote_identifier(alias)}.{quote_identifier(column)}"


def select_list_sql(columns: Iterable[tuple[str, str]]) -> str:
    """Write columns, given as (name, SQL), for SELECT."""
    return ", ".join(f"{sql} AS {quote_identifier(name)}" for name, sql in columns)


def canonical_type(kind: pa.DataType) -> pa.DataType:  # noqa: PLR0911 - a table of types
    """Return the one Arrow type that we use for a Spark type."""
    if pa.types.is_timestamp(kind):
        return TIMESTAMP if kind.tz else TIMESTAMP_NTZ
    if kind in (pa.large_string(), pa.string_view()):
        return STRING
    if kind in (pa.large_binary(), pa.binary_view()):
        return BINARY
    if pa.types.is_dictionary(kind):
        return canonical_type(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, canonical_type(f.type)) for f in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(canonical_type(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(canonical_type(kind.key_type), canonical_type(kind.item_type))
    return kind


def physical_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column between nodes: timestamps have no time zone."""
    if pa.types.is_timestamp(kind):
        return TIMESTAMP_NTZ
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, physical_type(f.type)) for f in kind])
    if pa.types.is_list(kind):
        return pa.list_(physical_type(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(physical_type(kind.key_type), physical_type(kind.item_type))
    return INT if kind == NULL else kind


def physical_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of rows between nodes."""
    return pa.schema([pa.field(f.name, physical_type(f.type)) for f in schema])


def to_physical_types(rows: pa.Table) -> pa.Table:
    """Cast rows of a stream or table to physical types."""
    schema = pa.schema([(f.name, physical_type(canonical_type(f.type))) for f in rows.schema])
    return rows if rows.schema.equals(schema) else rows.cast(schema)


def to_result_types(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Cast results to Spark's types."""
    rows = rows.rename_columns(schema.names)
    for index, column in enumerate(schema):
        if column.type == NULL:
            rows = rows.set_column(index, column, pa.nulls(len(rows)))
    return rows.cast(schema)


def parse_type(node: exp.DataType) -> pa.DataType:
    """Read the type of a CAST."""
    given = [str(p.this.this) for p in node.expressions if isinstance(p, exp.DataTypeParam)]
    if any(not text.isdigit() or len(text) > 9 for text in given):
        raise InputError(f"the type {shorten(node.sql('spark'), 80)} cannot be read")
    parameters = [int(text) for text in given]
    if node.this == exp.DType.DECIMAL:
        precision, scale = (*parameters, 10, 0)[:2] if len(parameters) != 1 else (*parameters, 0)
        if not 0 < precision <= MAX_DECIMAL_DIGITS or not 0 <= scale <= precision:
            raise InputError(f"DECIMAL({precision},{scale}) does not exist; at most 38 digits")
        return pa.decimal128(precision, scale)
    kind = _PARSED_TYPES.get(node.this)
    if kind is None or (parameters and kind != STRING):
        raise InputError(f"a cast to {node.sql('spark')} is not supported; cast to a scalar type")
    return kind


def decimal_type_of(kind: pa.DataType) -> Any:
    """Return the DECIMAL that holds every value of an integer type; a DECIMAL is returned as is."""
    return kind if is_decimal(kind) else pa.decimal128(_INTEGER_DIGITS[kind], 0)


def bounded_decimal(precision: int, scale: int) -> Any:
    """Return a DECIMAL with at most 38 digits, whose scale is cut last."""
    return pa.decimal128(min(precision, MAX_DECIMAL_DIGITS), min(scale, MAX_DECIMAL_DIGITS))


def quotient_type(left: pa.DataType, right: pa.DataType) -> Any:
    """Return the DECIMAL that Spark gives the quotient of two DECIMALs.

    >>> quotient_type(pa.decimal128(10, 2), pa.decimal128(10, 2))
    Decimal128Type(decimal128(23, 13))
    """
    scale = max(6, left.scale + right.precision + 1)
    precision = left.precision - left.scale + right.scale + scale
    if precision > MAX_DECIMAL_DIGITS:  # digits before the point are kept, 6 after it at least
        whole = precision - scale
        scale = max(MAX_DECIMAL_DIGITS - whole, min(scale, 6))
        precision = MAX_DECIMAL_DIGITS
    return pa.decimal128(precision, scale)


def common_type(  # noqa: PLR0911 - a table of types
    left: pa.DataType, right: pa.DataType
) -> pa.DataType | None:
    """Return the type Spark widens both to, or None where a cast must be written.

    >>> common_type(INT, pa.decimal128(5, 2))
    Decimal128Type(decimal128(12, 2))
    """
    if right in (left, NULL):
        return left
    if left == NULL:
        return right
    if is_integer(left) and is_integer(right):
        return max(left, right, key=_INTEGERS.index)
    if is_number(left) and is_number(right):
        return _common_number_type(left, right)
    if pa.types.is_list(left) and pa.types.is_list(right):
        item = common_type(left.value_type, right.value_type)
        return None if item is None else pa.list_(item)
    if {left, right} <= {DATE, TIMESTAMP, TIMESTAMP_NTZ}:
        return TIMESTAMP if TIMESTAMP in (left, right) else TIMESTAMP_NTZ
    return None


def _common_number_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if is_floating(left) or is_floating(right):
        return DOUBLE
    a, b = decimal_type_of(left), decimal_type_of(right)
    scale = max(a.scale, b.scale)
    digits = max(a.precision - a.scale, b.precision - b.scale) + scale
    return pa.decimal128(digits, scale) if digits <= MAX_DECIMAL_DIGITS else None


def check_column_names(names: Iterable[str]) -> None:
    """Refuse names that clash with each other (ignoring case) or with internal columns."""
    seen: set[str] = set()
    for name in names:
        if len(name) > MAX_NAME_CHARACTERS:
            raise InputError(
                f"the column name {shorten(name, 40)!r} has {len(name)} characters; "
                f"the limit is {MAX_NAME_CHARACTERS}"
            )
        if name.lower() in seen:
            raise InputError(f"two columns are named {name!r} (ignoring case); rename one")
        if any(character < " " for character in name):
            raise InputError(f"the column name {name!r} has control characters; rename it")
        if re.fullmatch(r"_(t|e\d+)", name.lower()):
            raise InputError(f"the column name {name!r} is reserved; rename it")
        seen.add(name.lower())


def check_levels(name: str, kind: pa.DataType) -> None:
    """Refuse a column whose type is too deep, or has too many fields, to be stored.

    >>> check_levels("a", pa.list_(pa.int32()))
    """
    level, count = [kind], 0
    for _ in range(MAX_LEVELS + 1):
        level = [each.field(at).type for each in level for at in range(each.num_fields)]
        count += len(level)
        if not level:
            return
        if count > MAX_FIELDS:
            break
    raise InputError(
        f"the column {shorten(name, 60)!r} has more than {MAX_LEVELS} levels of arrays, maps and "
        f"structs, or more than {MAX_FIELDS:,} fields; use fewer"
    )


def is_hashable(kind: pa.DataType) -> bool:
    """Return whether values can be a key: scalars and structs of them."""
    if pa.types.is_struct(kind):
        return all(is_hashable(f.type) for f in kind)
    return not pa.types.is_nested(kind)


def hash_compatible(*kinds: pa.DataType) -> bool:
    """Return whether equal values of these types have equal hashes, as routing needs.

    >>> hash_compatible(INT, LONG), hash_compatible(INT, DOUBLE)
    (True, False)
    """
    kinds = tuple(canonical_type(kind) for kind in kinds)
    if not all(map(is_hashable, kinds)):
        return False
    families = (pa.types.is_integer, pa.types.is_timestamp, pa.types.is_floating)
    return len(set(kinds)) == 1 or any(all(map(family, kinds)) for family in families)
