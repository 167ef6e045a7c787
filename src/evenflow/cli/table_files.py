"""Reading and writing the tables that commands take and give: Parquet, CSV, JSON lines."""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from evenflow.errors import InputError

READABLE = (".parquet", ".csv", ".jsonl", ".json")
WRITABLE = (".parquet", ".csv")


def read_table(
    path: Path,
    columns: tuple[str, ...],
    optional: tuple[str, ...] = (),
    may_be_empty: bool = False,
) -> pa.Table:
    """Read the named columns of a file and refuse an empty or incomplete one.

    CSV knows no types: columns come as text as it stands (`007` stays `007`, an empty field that
    is not quoted is NULL), and what is integers throughout becomes integers (see `key_column`).
    """
    if path.suffix not in READABLE:
        raise InputError(f"{path}: expected a file ending in {', '.join(READABLE)}")
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        table = _read_file(path, (*columns, *optional))
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: cannot be read as {path.suffix[1:]}: {error}") from error
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        found = ", ".join(table.column_names) or "none"
        raise InputError(f"{path}: no column {', '.join(missing)}; columns found: {found}")
    for name in (*columns, *optional):
        if table.column_names.count(name) > 1:
            raise InputError(f"{path}: column {name} stands there twice")
    if not len(table) and not may_be_empty:
        raise InputError(f"{path}: holds no rows")
    return table.select([*columns, *(name for name in optional if name in table.column_names)])


def _read_file(path: Path, as_text: tuple[str, ...]) -> pa.Table:
    if path.suffix == ".parquet":
        return pa.parquet.read_table(path)
    if path.suffix in (".jsonl", ".json"):
        return pa.json.read_json(path)
    options = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(as_text, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parsing = pa.csv.ParseOptions(newlines_in_values=True)
    return pa.csv.read_csv(path, parse_options=parsing, convert_options=options)


def number_column(table: pa.Table, column: str, path: Path) -> pa.Array:
    """Return a column as doubles, refusing what is missing, no number, or not finite."""
    values = table[column].combine_chunks()
    try:
        doubles = values.cast(pa.float64())
    except pa.ArrowException as error:
        raise InputError(f"{path}: column {column} must hold numbers: {error}") from error
    if doubles.null_count:
        row = doubles.is_null().to_pylist().index(True) + 1
        raise InputError(f"{path}: column {column} has no value in row {row}")
    finite = pc.is_finite(doubles)
    if not pc.all(finite, min_count=0).as_py():
        row = finite.to_pylist().index(False) + 1
        raise InputError(
            f"{path}: column {column} must be finite, got {values[row - 1]} in row {row}"
        )
    return doubles


def check_not_negative(values: pa.Array, column: str, path: Path) -> pa.Array:
    """Refuse negative numbers."""
    if len(values) and pc.min(values).as_py() < 0:
        row = pc.less(values, 0).to_pylist().index(True) + 1
        found = f"{values[row - 1].as_py():g}"
        raise InputError(f"{path}: column {column} must not be negative, got {found} in row {row}")
    return values


def key_column(values: pa.ChunkedArray, path: Path) -> pa.Array:
    """Return the keys of a CSV file that are integers throughout (`7`, not `007`) as integers.

    Other files know the types of their columns, which are left as they are.

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


def worker_column(table: pa.Table, path: Path, workers: int) -> pa.Array:
    """Return the column `worker`, refusing workers that do not exist."""
    values = number_column(table, "worker", path)
    known = pc.and_(
        pc.and_(pc.greater_equal(values, 0), pc.less(values, workers)),
        pc.equal(values, pc.floor(values)),
    )
    if not pc.all(known, min_count=0).as_py():
        row = known.to_pylist().index(False) + 1
        raise InputError(
            f"{path}: unknown worker {table['worker'][row - 1]} in row {row}; "
            f"workers are 0..{workers - 1}"
        )
    return values.cast(pa.int32())


def check_writable(*paths: Path | None, inputs: tuple[Path | None, ...] = ()) -> None:
    """Refuse, before any work is done, outputs that could not be written after it."""
    taken = {path.resolve() for path in inputs if path is not None}
    for path in filter(None, paths):
        if path.suffix not in WRITABLE:
            raise InputError(f"{path}: can write files ending in {', '.join(WRITABLE)}")
        if not path.parent.is_dir():
            raise InputError(f"{path}: no such folder {path.parent}")
        if path.resolve() in taken:
            raise InputError(f"{path}: is used for something else already; name another file")
        taken.add(path.resolve())
        with _temporary_file(path):
            pass  # a file can be made there


def check_csv_keys(values: pa.Array, *paths: Path | None) -> None:
    """Refuse keys that CSV cannot hold."""
    kind = values.type
    nested = pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    for path in filter(None, paths):
        if path.suffix == ".csv" and (nested or pa.types.is_fixed_size_binary(kind)):
            raise InputError(f"{path}: CSV cannot hold keys of type {kind}; write .parquet")


def write_tables(tables: Mapping[Path, pa.Table]) -> None:
    """Write all files or none: first beside their places, then renamed into them."""
    with contextlib.ExitStack() as stack:
        written = {path: stack.enter_context(_temporary_file(path)) for path in tables}
        for path, temporary in written.items():
            if path.suffix == ".parquet":
                pa.parquet.write_table(tables[path], temporary)
            else:
                pa.csv.write_csv(tables[path], temporary)
        for path, temporary in written.items():
            temporary.replace(path)


@contextlib.contextmanager
def _temporary_file(path: Path) -> Iterator[Path]:
    """Make an empty file in the same folder, to be renamed or removed."""
    temporary = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".evenflow-")
        os.close(handle)
        temporary = Path(name)
        temporary.chmod(0o666 & ~_umask())
        yield temporary
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
