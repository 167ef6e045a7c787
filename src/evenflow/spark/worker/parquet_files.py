"""The router reads the Parquet files of a source itself: the JVM passes on their names.

From Parquet through Spark's rows to Arrow takes several times as long as from Parquet to Arrow.
Only what certainly has the same values either way is read here: local files with exactly the
declared flat columns. For anything else the run lets Spark read the source (`SparkMustReadError`).
"""

from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.spark.worker.set_aside import separate_rows

FILE_COLUMN = "file"  # of what the JVM passes on
BATCH_ROWS = 1 << 17
_NUMBERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())
_TIMES = (pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"))
_FLAT_TYPES = frozenset([*_NUMBERS, *_TIMES, pa.bool_(), pa.string(), pa.binary()])
_SAME_VALUES = {  # types that other writers note for the same bytes
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}
# Spark notes these in files whose dates or times are in the old calendar.
_OLD_CALENDAR_KEYS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_SPARK_VERSION_KEY = b"org.apache.spark.version"


class SparkMustReadError(Exception):
    """A file that may have other values, or an error of its own, if Spark reads it."""


class ParquetFiles:
    """Reads the files of one source in a router task.

    schema     the declared columns; rows to set aside are read whole
    columns    those that queries need
    latest_us  the latest event time that is not too far ahead; None: any
    """

    def __init__(
        self,
        stream: str,
        schema: pa.Schema,
        columns: Sequence[str],
        time: str,
        latest_us: int | None,
    ) -> None:
        self._stream, self._schema, self._columns = stream, schema, columns
        self._time, self._latest_us = time, latest_us

    def read(self, names: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the files whose names come from the JVM."""
        for batch in names:
            for name in batch.column(FILE_COLUMN).to_pylist():
                try:
                    yield from self._read_file(local_path(name))
                except (OSError, pa.ArrowException, SparkMustReadError) as error:
                    reason = str(error).splitlines()[0]
                    raise SparkMustReadError(f"stream {self._stream}: {name}: {reason}") from error

    def _read_file(self, path: str) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(path) as file:
            check_calendar(file.metadata.metadata or {})
            for group in range(file.metadata.num_row_groups):
                yield from self._read_group(file, group)

    def _read_group(self, file: pq.ParquetFile, group: int) -> Iterator[pa.RecordBatch]:
        done = 0
        for rows in self._batches(file, group, self._columns):
            if self._has_rows_to_set_aside(rows):
                break
            yield rows
            done += len(rows)
        else:
            return
        for rows in self._batches(file, group, self._schema.names):
            yield rows.slice(min(done, len(rows)))
            done -= min(done, len(rows))

    def _batches(
        self, file: pq.ParquetFile, group: int, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        wanted = pa.schema([self._schema.field(column) for column in columns])
        check_columns(file.schema_arrow, wanted)
        for rows in file.iter_batches(BATCH_ROWS, [group], wanted.names, use_threads=False):
            yield rows.select(wanted.names).cast(wanted)

    def _has_rows_to_set_aside(self, rows: pa.RecordBatch) -> bool:
        times = pa.Table.from_batches([rows.select([self._time])])
        return len(separate_rows(times, self._time, self._latest_us)[1]) > 0


def local_path(name: str) -> str:
    """Return the path of a local file as Spark writes its name.

    >>> local_path("file:///data/my%20trades/1.parquet")
    '/data/my trades/1.parquet'
    >>> local_path("s3a://bucket/1.parquet")
    Traceback (most recent call last):
    evenflow.spark.worker.parquet_files.SparkMustReadError: it is not a local file
    """
    scheme, _, path = name.partition(":")
    if scheme != "file":
        raise SparkMustReadError("it is not a local file")
    path = "/" + unquote(path).lstrip("/")
    if "=" in path.rpartition("/")[0]:
        raise SparkMustReadError("a folder may have the value of a column in its name")
    return path


def check_columns(found: pa.Schema, wanted: pa.Schema) -> None:
    """Refuse a file that does not have each column once, flat and in its declared type."""
    names = [name.lower() for name in found.names]
    for field in wanted:
        if names.count(field.name.lower()) != 1 or field.name not in found.names:
            raise SparkMustReadError(f"column {field.name} is not there once and by this name")
        kind = found.field(field.name).type
        if _SAME_VALUES.get(kind, kind) != field.type or not _is_flat(kind):
            raise SparkMustReadError(f"column {field.name} is {kind}, declared {field.type}")


def _is_flat(kind: pa.DataType) -> bool:
    return kind in _FLAT_TYPES or kind in _SAME_VALUES or pa.types.is_decimal128(kind)


def check_calendar(metadata: dict[bytes, bytes]) -> None:
    """Refuse a file that may have dates of the old calendar, which Spark converts.

    >>> check_calendar({b"org.apache.spark.version": b"4.1.0"})
    >>> check_calendar({b"org.apache.spark.version": b"2.4.8"})
    Traceback (most recent call last):
    evenflow.spark.worker.parquet_files.SparkMustReadError: its dates may be in the old calendar
    """
    major = metadata.get(_SPARK_VERSION_KEY, b"3").partition(b".")[0]
    if not major.isdigit() or int(major) < 3 or any(key in metadata for key in _OLD_CALENDAR_KEYS):
        raise SparkMustReadError("its dates may be in the old calendar")
