"""Files of the history: one Arrow file per pending batch, Parquet for groups of batches.

A Parquet file has its checksum in its name, a pending one at its end; reading compares them.

One Arrow file is several times faster to write than Parquet files of seven kinds, and a commit
waits for it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.errors import DamagedFileError
from evenflow.model import HistoryKind
from evenflow.storage.bundle import checksum, pack, unpack
from evenflow.storage.file_store import FileStore
from evenflow.storage.history.encode import TablesByKind
from evenflow.storage.history.schema import SCHEMAS

HISTORY_FOLDER = "history"
PENDING_FOLDER = f"{HISTORY_FOLDER}/recent"
_MIN_ROW_GROUP_ROWS = 100_000
_HIGH_CARDINALITY_TYPES = (pa.float64(), pa.uint64())  # values of these columns rarely repeat


class HistoryFile(NamedTuple):
    """A Parquet file and the range of batches in it."""

    kind: HistoryKind
    first_batch: int
    last_batch: int
    checksum: str = ""  # missing in files of 0.1

    @property
    def batch_count(self) -> int:
        """Number of batches in the range."""
        return self.last_batch - self.first_batch + 1

    def covers(self, batch: int) -> bool:
        """Return whether a batch is in the range."""
        return self.first_batch <= batch <= self.last_batch

    @property
    def path(self) -> str:
        """Path below the checkpoint."""
        batches = f"{self.first_batch:012d}-{self.last_batch:012d}"
        end = f"-{self.checksum}" if self.checksum else ""
        return f"{HISTORY_FOLDER}/{self.kind}/{batches}{end}.parquet"

    def read(self, store: FileStore) -> pa.Table:
        """Return all rows."""
        data = store.read(self.path)
        if self.checksum and checksum(data) != self.checksum:
            raise _damage(store, self.path)
        return pq.read_table(pa.BufferReader(data), schema=SCHEMAS[self.kind])

    def write(self, store: FileStore, tables: Iterable[pa.Table]) -> None:
        """Write the rows of some tables."""
        sink, schema = pa.BufferOutputStream(), SCHEMAS[self.kind]
        repeating = [field.name for field in schema if field.type not in _HIGH_CARDINALITY_TYPES]
        with pq.ParquetWriter(sink, schema, use_dictionary=repeating) as writer:
            for group in _row_groups(tables):
                writer.write_table(group)
        data = sink.getvalue()
        store.write(self._replace(checksum=checksum(data)).path, [data], flush=True)


def list_files(store: FileStore, kind: HistoryKind) -> tuple[list[HistoryFile], list[HistoryFile]]:
    """Return the files of a kind in order, and files that a merged one has replaced."""
    files = []
    for name in store.list_names(f"{HISTORY_FOLDER}/{kind}"):
        first, last, *rest = name.removesuffix(".parquet").split("-")
        files.append(HistoryFile(kind, int(first), int(last), *rest))
    files.sort(key=lambda file: (file.first_batch, -file.last_batch))
    current: list[HistoryFile] = []
    for file in files:
        if not current or file.last_batch > current[-1].last_batch:
            current.append(file)
    return current, [file for file in files if file not in current]


def _row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Combine small tables, so that a file has few row groups and none is huge."""
    group: list[pa.Table] = []
    rows = 0
    for table in tables:
        group.append(table)
        rows += table.num_rows
        if rows >= _MIN_ROW_GROUP_ROWS:
            yield pa.concat_tables(group)
            group, rows = [], 0
    if group:
        yield pa.concat_tables(group)


def write_pending(store: FileStore, batch: int, epoch: int, tables: Mapping[str, pa.Table]) -> None:
    """Write the rows of a batch; an earlier attempt of the same driver is replaced."""
    rows = [pack(table).to_pybytes() for table in tables.values()]
    kinds = pa.table({"kind": list(tables), "rows": pa.array(rows, pa.large_binary())})
    data = pack(kinds)
    path = f"{PENDING_FOLDER}/{batch:012d}-{epoch:06d}"
    store.write(path, [data, checksum(data).encode()], flush=True)


def read_pending(store: FileStore) -> dict[int, TablesByKind]:
    """Return the rows of all pending batches.

    Of drivers that ran the same batch, the last one could commit it.
    """
    paths = {_batch(name): f"{PENDING_FOLDER}/{name}" for name in store.list_names(PENDING_FOLDER)}
    return {batch: _read_pending_batch(store, path) for batch, path in paths.items()}


def _read_pending_batch(store: FileStore, path: str) -> TablesByKind:
    data = store.read(path)
    data, written = data[: -len(checksum(b""))], data[-len(checksum(b"")) :]
    if checksum(data).encode() != written.to_pybytes():
        raise _damage(store, path)
    return {row["kind"]: unpack(row["rows"]) for row in unpack(data).to_pylist()}


def _damage(store: FileStore, path: str) -> DamagedFileError:
    remedy = "restore it from a backup or delete the folder history; results do not need it"
    return store.damage(path, "its checksum does not match", remedy)


def delete_pending(store: FileStore, batches: Collection[int]) -> None:
    """Delete pending batches, whoever wrote them."""
    names = [name for name in store.list_names(PENDING_FOLDER) if _batch(name) in batches]
    store.delete(f"{PENDING_FOLDER}/{name}" for name in names)


def _batch(name: str) -> int:
    """Return the batch of a pending file: 000000000007-000001, or 000000000007 in 0.1."""
    return int(name.partition("-")[0])
