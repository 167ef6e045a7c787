"""Schemas and rows of Spark DataFrames as Arrow values."""

from inspect import signature
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from evenflow.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Before Spark 4.2 times are in UTC without asking.
_HAS_TIMEZONE = "timezone" in signature(to_arrow_schema).parameters
_UTC: dict[str, Any] = {"timezone": "UTC"} if _HAS_TIMEZONE else {}


def arrow_schema(frame: "DataFrame", what: str) -> pa.Schema:
    """Return the schema of a DataFrame in Arrow types, times in UTC."""
    try:
        return to_arrow_schema(frame.schema, **_UTC)
    except Exception as error:
        raise InputError(f"{what} has columns that Arrow cannot hold: {error}") from None


def arrow_rows(frame: "DataFrame", schema: pa.Schema) -> pa.Table:
    """Collect a DataFrame."""
    rows: Any = frame.toArrow()
    return rows.cast(schema).combine_chunks()
