"""Batches that are not in Parquet yet: a file each, the one thing that a border waits for.

Writing seven kinds of Parquet takes a border several times as long as one file of Arrow does.
"""

from collections.abc import Iterable, Mapping

import pyarrow as pa

from evenflow.history.encode import Tables
from evenflow.store import Store

FOLDER = "history/recent"


def write(store: Store, batch: int, tables: Mapping[str, pa.Table]) -> None:
    """Write the rows of a batch, in place of those of an attempt that did not count."""
    rows = [_packed(table).to_pybytes() for table in tables.values()]
    kinds = pa.table({"kind": list(tables), "rows": pa.array(rows, pa.large_binary())})
    store.write(_name(batch), [_packed(kinds)])


def read(store: Store) -> dict[int, Tables]:
    """Return what is there, by batch."""
    return {int(name): _read(store, int(name)) for name in store.names(FOLDER)}


def delete(store: Store, batches: Iterable[int]) -> None:
    """Remove batches."""
    store.delete(_name(batch) for batch in batches)


def _read(store: Store, batch: int) -> Tables:
    kinds = _unpacked(store.read(_name(batch)))
    return {row["kind"]: _unpacked(pa.py_buffer(row["rows"])) for row in kinds.to_pylist()}


def _packed(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _unpacked(rows: pa.Buffer) -> pa.Table:
    return pa.ipc.open_stream(rows).read_all()


def _name(batch: int) -> str:
    return f"{FOLDER}/{batch:012d}"
