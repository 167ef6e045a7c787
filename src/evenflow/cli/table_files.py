"""Tables that commands read and write: Parquet, CSV, JSON lines."""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from evenflow.errors import InputError
from evenflow.model.arrays import NOWHERE, Workers

READABLE = (".parquet", ".csv", ".jsonl", ".json")
WRITABLE = (".parquet", ".csv")


def read_table(
    path: Path, columns: tuple[str, ...], optional: tuple[str, ...] = (), may_be_empty: bool = False
) -> pa.Table:
    """Read the named columns of a file; InputError if one is missing or there are no rows.

    CSV has no types: columns are read as text (`007` stays `007`, an empty unquoted field is NULL),
    and `key_column` turns columns of integers into integers.
    """
    table = read_whole_table(path, (*columns, *optional), may_be_empty=may_be_empty)
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        found = ", ".join(table.column_names) or "none"
        raise InputError(f"{path}: no column {', '.join(missing)}; columns: {found}")
    for name in (*columns, *optional):
        if table.column_names.count(name) > 1:
            raise InputError(f"{path}: column {name} is given twice; keep one")
    return table.select([*columns, *(name for name in optional if name in table.column_names)])


def read_whole_table(
    path: Path, as_text: tuple[str, ...] = (), *, may_be_empty: bool = False
) -> pa.Table:
    """Read all columns of a file; of a CSV file, those in `as_text` as text."""
    if path.suffix not in READABLE:
        raise InputError(f"{path}: expected a file ending in {', '.join(READABLE)}")
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        table = _read_file(path, as_text)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: cannot be read as {path.suffix[1:]}: {error}") from error
    if not len(table) and not may_be_empty:
        raise InputError(f"{path}: has no rows")
    return table


def _read_file(path: Path, as_text: tuple[str, ...]) -> pa.Table:
    if path.suffix == ".parquet":
        return pa.parquet.read_table(path)
    if path.suffix in (".jsonl", ".json"):
        return pa.json.read_json(path)
    if not as_text:
        return pa.csv.read_csv(path)
    options = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(as_text, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parsing = pa.csv.ParseOptions(newlines_in_values=True)
    return pa.csv.read_csv(path, parse_options=parsing, convert_options=options)


def first_row(mask: pa.Array) -> int | None:
    """Return the index of the first true value."""
    index: int = pc.index(mask, True).as_py()
    return None if index < 0 else index


def check_no_nulls(values: pa.Array, column: str, path: Path) -> pa.Array:
    """Return the values; InputError if one is missing."""
    row = first_row(values.is_null()) if values.null_count else None
    if row is not None:
        raise InputError(f"{path}: column {column} has no value in row {row + 1}")
    return values


def check_distinct(values: pa.Array, column: str, path: Path) -> pa.Array:
    """Return the values; InputError if one is missing or given twice."""
    check_no_nulls(values, column, path)
    if len(pc.unique(values)) < len(values):
        counts = pc.value_counts(values)
        twice = counts.filter(pc.greater(counts.field("counts"), 1))[0]["values"]
        raise InputError(f"{path}: {column} {twice} appears twice; keep one row")
    return values


def number_column(table: pa.Table, column: str, path: Path) -> pa.Array:
    """Return a column as finite doubles without nulls."""
    values = table[column].combine_chunks()
    try:
        doubles = values.cast(pa.float64())
    except pa.ArrowException as error:
        raise InputError(f"{path}: column {column} must hold numbers: {error}") from error
    check_no_nulls(doubles, column, path)
    row = first_row(pc.invert(pc.is_finite(doubles)))
    if row is not None:
        raise InputError(
            f"{path}: column {column} must be finite, got {values[row]} in row {row + 1}"
        )
    return doubles


def check_not_negative(values: pa.Array, column: str, path: Path) -> pa.Array:
    """Return the values; InputError if one is negative."""
    row = first_row(pc.less(values, 0))
    if row is not None:
        given = f"{values[row].as_py():g} in row {row + 1}"
        raise InputError(f"{path}: column {column} must not be negative, got {given}")
    return values


def key_column(values: pa.ChunkedArray, path: Path) -> pa.Array:
    """Return the keys of a CSV file as integers if all are (`7`, not `007`).

    Other file formats have types, which are kept.

    >>> column = pa.chunked_array([["7", "-1"]])
    >>> key_column(column, Path("a.csv")).type, key_column(column, Path("a.parquet")).type
    (DataType(int64), DataType(string))
    >>> key_column(pa.chunked_array([["007"]]), Path("a.csv")).type
    DataType(string)
    """
    flat = values.combine_chunks()
    if path.suffix != ".csv" or flat.null_count == len(flat):
        return flat
    with contextlib.suppress(pa.ArrowException):
        whole = flat.cast(pa.int64())
        if whole.cast(pa.string()).equals(flat):
            return whole
    return flat


def worker_column(
    table: pa.Table, path: Path, workers: int, column: str = "worker", *, optional: bool = False
) -> Workers:
    """Return a column of workers; if `optional`, NOWHERE where the cell is empty."""
    values = table[column].combine_chunks()
    if pa.types.is_string(values.type):
        values = pc.utf8_trim_whitespace(values)
        values = pc.if_else(pc.equal(values, ""), None, values)
    if optional:
        table = pa.table({column: pc.fill_null(values.cast(pa.string()), "0")})
    numbers = number_column(table, column, path)
    in_range = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, workers))
    row = first_row(pc.invert(pc.and_(in_range, pc.equal(numbers, pc.floor(numbers)))))
    if row is not None:
        raise InputError(
            f"{path}: unknown worker {values[row]} in row {row + 1}; workers are 0..{workers - 1}"
        )
    result: Workers = numbers.cast(pa.int32()).to_numpy(zero_copy_only=False)
    if optional:
        result = np.where(values.is_null().to_numpy(zero_copy_only=False), NOWHERE, result)
    return result.astype(np.int32)


def check_writable(*paths: Path | None, inputs: tuple[Path | None, ...] = ()) -> None:
    """Check before planning that outputs can be written and overwrite no input."""
    taken = {path.resolve() for path in inputs if path is not None}
    for path in filter(None, paths):
        if path.suffix not in WRITABLE:
            raise InputError(f"{path}: output files must end in {', '.join(WRITABLE)}")
        if not path.parent.is_dir():
            raise InputError(f"{path}: no such folder {path.parent}")
        if path.resolve() in taken:
            raise InputError(f"{path}: is already an input or output; choose another file")
        taken.add(path.resolve())
        with _temporary_file(path):
            pass


def check_csv_keys(values: pa.Array, *paths: Path | None) -> None:
    """Raise an InputError for keys that CSV cannot hold."""
    kind = values.type
    nested = pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    for path in filter(None, paths):
        if path.suffix == ".csv" and (nested or pa.types.is_fixed_size_binary(kind)):
            raise InputError(f"{path}: CSV cannot hold keys of type {kind}; use .parquet")


def write_tables(tables: Mapping[Path, pa.Table]) -> None:
    """Write all files or none: first to temporary files, then rename them."""
    with contextlib.ExitStack() as stack:
        temporaries = {path: stack.enter_context(_temporary_file(path)) for path in tables}
        for path, temporary in temporaries.items():
            if path.suffix == ".parquet":
                pa.parquet.write_table(tables[path], temporary)
            else:
                pa.csv.write_csv(tables[path], temporary)
        for path, temporary in temporaries.items():
            temporary.replace(path)


@contextlib.contextmanager
def _temporary_file(path: Path) -> Iterator[Path]:
    """Create an empty file in the same folder; it is deleted unless renamed."""
    temporary = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".evenflow-")
        os.close(handle)
        temporary = Path(name)
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        yield temporary
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
