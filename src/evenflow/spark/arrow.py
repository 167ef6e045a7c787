"""Schemas and rows of Spark DataFrames as Arrow values."""

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from evenflow.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def arrow_schema(frame: "DataFrame", what: str) -> pa.Schema:
    """Return the schema of a DataFrame in Arrow types, times in UTC."""
    try:
        return to_arrow_schema(frame.schema, timezone="UTC")
    except Exception as error:
        raise InputError(f"{what} has columns that Arrow cannot hold: {error}") from None


def arrow_rows(frame: "DataFrame", schema: pa.Schema) -> pa.Table:
    """Collect a DataFrame."""
    rows: Any = frame.toArrow()
    return rows.cast(schema).combine_chunks()
