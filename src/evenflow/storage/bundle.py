"""Many Arrow tables in one file: what a worker writes in a batch costs one file, not hundreds.

Parts stand one after the other, each an Arrow stream or plain bytes, aligned so that a mapped
file is used in place. A `PartRef` names a part; the file itself has no table of contents.
"""

from typing import Any, NamedTuple

import pyarrow as pa

from evenflow.storage.file_store import FileStore

_ALIGN_BYTES = 64


class PartRef(NamedTuple):
    """Where a part stands."""

    file: str
    offset: int
    length: int


class Bundle:
    """Parts gathered for one file, written at once; an empty bundle writes nothing."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.size_bytes = 0
        self._parts: list[Any] = []

    def add(self, part: bytes | pa.Buffer) -> PartRef:
        """Append a part and return where it will stand."""
        buffer = pa.py_buffer(part)
        ref = PartRef(self.file, self.size_bytes, buffer.size)
        gap = -buffer.size % _ALIGN_BYTES
        self._parts += [buffer, b"\0" * gap]
        self.size_bytes += buffer.size + gap
        return ref

    def write(self, store: FileStore, *, durable: bool = False) -> None:
        """Write the file, if there is anything to write; `durable` waits for the disk."""
        if self._parts:
            store.write(self.file, self._parts, durable=durable)


def pack(table: pa.Table, *, compress: bool = False) -> pa.Buffer:
    """Return a table as an Arrow stream; compressed for keeping, plain for use in place.

    >>> unpack(pack(pa.table({"x": [1, 2]})))["x"].to_pylist()
    [1, 2]
    """
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4" if compress else None)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def unpack(blob: bytes | pa.Buffer) -> pa.Table:
    """Return the table in an Arrow stream, without copying its columns."""
    return pa.ipc.open_stream(pa.py_buffer(blob)).read_all()


def read_part(store: FileStore, ref: PartRef) -> pa.Buffer:
    """Return the bytes of a part."""
    return store.read(ref.file).slice(ref.offset, ref.length)
