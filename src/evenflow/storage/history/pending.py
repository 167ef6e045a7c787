"""Batches that are not in Parquet yet: a file each, the one thing that a border waits for.

Writing seven kinds of Parquet takes a border several times as long as one file of Arrow does.
"""

from collections.abc import Iterable, Mapping

import pyarrow as pa

from evenflow.storage.file_store import FileStore
from evenflow.storage.history.encode import TablesByKind

PENDING_FOLDER = "history/recent"


def write_pending(store: FileStore, batch: int, tables: Mapping[str, pa.Table]) -> None:
    """Write the rows of a batch, in place of those of an attempt that did not count."""
    rows = [_to_ipc_bytes(table).to_pybytes() for table in tables.values()]
    kinds = pa.table({"kind": list(tables), "rows": pa.array(rows, pa.large_binary())})
    store.write(_path(batch), [_to_ipc_bytes(kinds)])


def read_pending(store: FileStore) -> dict[int, TablesByKind]:
    """Return what is there, by batch."""
    return {int(name): _read_batch(store, int(name)) for name in store.list_names(PENDING_FOLDER)}


def delete_pending(store: FileStore, batches: Iterable[int]) -> None:
    """Remove batches."""
    store.delete(_path(batch) for batch in batches)


def _read_batch(store: FileStore, batch: int) -> TablesByKind:
    kinds = _from_ipc_bytes(store.read(_path(batch)))
    return {row["kind"]: _from_ipc_bytes(pa.py_buffer(row["rows"])) for row in kinds.to_pylist()}


def _to_ipc_bytes(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _from_ipc_bytes(rows: pa.Buffer) -> pa.Table:
    return pa.ipc.open_stream(rows).read_all()


def _path(batch: int) -> str:
    return f"{PENDING_FOLDER}/{batch:012d}"
