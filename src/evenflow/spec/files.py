"""Files of a specification: their paths, and small tables read without Spark."""

import glob
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from evenflow.errors import InputError

FILE_FORMATS = ("parquet", "orc", "json", "csv", "text", "avro", "xml")
_TABLE_SUFFIXES = (".parquet", ".csv", ".jsonl", ".json")


def resolve_path(written: str, folder: Path) -> str:
    """Return an absolute path; a URI is returned unchanged.

    >>> resolve_path("in/trades", Path("/data")), resolve_path("s3a://b/c", Path("/data"))
    ('/data/in/trades', 's3a://b/c')
    """
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", written):
        return written
    return str(folder / Path(written).expanduser())


def check_exists(written: str, folder: Path) -> None:
    """Raise an InputError if no local file matches a path."""
    path = resolve_path(written, folder)
    if not path.startswith("/"):
        return
    # Spark accepts glob patterns.
    if not glob.glob(path):  # noqa: PTH207
        raise InputError(f"got {written!r}; no file matches {path}")


def table_from_rows(rows: Sequence[Any], schema: pa.Schema) -> pa.Table:
    """Build a table from the rows of a YAML list."""
    for index, row in enumerate(rows):
        unknown, missing = row.keys() - set(schema.names), set(schema.names) - row.keys()
        if unknown or missing:
            wrong = f"has unknown {min(unknown)!r}" if unknown else f"lacks {min(missing)!r}"
            raise InputError(f"row {index + 1} {wrong}; columns: {', '.join(schema.names)}")
    try:
        return pa.Table.from_pylist(list(rows), schema=schema)
    except (pa.ArrowException, TypeError) as error:
        raise InputError(f"the rows do not match the schema: {error}") from None


def read_table_file(written: str, folder: Path, schema: pa.Schema) -> pa.Table:
    """Read a CSV, JSON lines or Parquet file with the columns of a schema."""
    path = Path(resolve_path(written, folder))
    if path.suffix not in _TABLE_SUFFIXES:
        raise InputError(f"got {written!r}; expected a file ending in {', '.join(_TABLE_SUFFIXES)}")
    if not path.is_file():
        raise InputError(f"got {written!r}; no such file {path}")
    try:
        table = _read_file(path, schema)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{written} cannot be read as {path.suffix[1:]}: {error}") from None
    return select_columns(table, schema, written)


def select_columns(table: pa.Table, schema: pa.Schema, origin: str) -> pa.Table:
    """Return the columns of a schema, cast to its types."""
    missing = [name for name in schema.names if name not in table.column_names]
    if missing:
        columns = ", ".join(table.column_names)
        raise InputError(f"{origin} has no column {missing[0]!r}; columns: {columns}")
    try:
        return table.select(schema.names).cast(schema)
    except (pa.ArrowException, ValueError) as error:
        raise InputError(f"{origin} does not match the columns {schema.names}: {error}") from None


def _read_file(path: Path, schema: pa.Schema) -> pa.Table:
    if path.suffix == ".parquet":
        return pa.parquet.read_table(path)
    if path.suffix in (".jsonl", ".json"):
        return pa.json.read_json(path)
    types = {field.name: field.type for field in schema}
    return pa.csv.read_csv(path, convert_options=pa.csv.ConvertOptions(column_types=types))


def spark_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Write options as Spark reads them.

    >>> spark_options({"header": True, "maxFilesPerTrigger": 1})
    {'header': 'true', 'maxFilesPerTrigger': '1'}
    """
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
    }
