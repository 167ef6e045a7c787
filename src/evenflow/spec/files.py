"""Files named in a specification: path resolution, and small tables read by Arrow, not Spark."""

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


def resolve_path(path_or_uri: str, folder: Path) -> str:
    """Return a path relative to `folder` as an absolute one; URIs stay unchanged.

    >>> resolve_path("in/trades", Path("/data")), resolve_path("s3a://b/c", Path("/data"))
    ('/data/in/trades', 's3a://b/c')
    """
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", path_or_uri):
        return path_or_uri
    return str(folder / Path(path_or_uri).expanduser())


def check_exists(path_or_uri: str, folder: Path) -> None:
    """Raise an InputError if no local file matches; URIs are not checked."""
    path = resolve_path(path_or_uri, folder)
    if path.startswith("/") and not glob.glob(path):  # noqa: PTH207 - may be a glob pattern
        raise InputError(f"got {path_or_uri!r}; no file matches {path}")


def table_from_rows(rows: Sequence[Any], schema: pa.Schema) -> pa.Table:
    """Build a table from the rows of a YAML list."""
    for index, row in enumerate(rows):
        unknown, missing = row.keys() - set(schema.names), set(schema.names) - row.keys()
        if unknown or missing:
            problem = f"has unknown {min(unknown)!r}" if unknown else f"lacks {min(missing)!r}"
            raise InputError(f"row {index + 1} {problem}; columns: {', '.join(schema.names)}")
    try:
        return pa.Table.from_pylist(list(rows), schema=schema)
    except (pa.ArrowException, TypeError) as error:
        raise InputError(f"the rows do not match the schema: {error}") from None


def read_table_file(path_or_uri: str, folder: Path, schema: pa.Schema) -> pa.Table:
    """Read a CSV, JSON lines or Parquet file with the columns of a schema."""
    path = Path(resolve_path(path_or_uri, folder))
    if path.suffix not in _TABLE_SUFFIXES:
        endings = ", ".join(_TABLE_SUFFIXES)
        raise InputError(f"got {path_or_uri!r}; expected a file ending in {endings}")
    if not path.is_file():
        raise InputError(f"got {path_or_uri!r}; no such file {path}")
    try:
        table = _read_file(path, schema)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path_or_uri} cannot be read as {path.suffix[1:]}: {error}") from None
    return select_columns(table, schema, path_or_uri)


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
    """Return options as the strings that Spark expects.

    >>> spark_options({"header": True, "maxFilesPerTrigger": 1})
    {'header': 'true', 'maxFilesPerTrigger': '1'}
    """
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
    }
