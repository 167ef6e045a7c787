"""Bundles: all that a worker writes in a batch, as parts of one file instead of hundreds.

A part is an Arrow stream or plain bytes, aligned so that it is used in place in a mapped file.
The file has no table of contents: a `PartRef` names a part and has its checksum. So the ledger
entry that commits a part also says what its bytes must be, and every read compares them.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa
import xxhash

from evenflow.storage.file_store import FileStore
from evenflow.storage.segment_cache import CACHED_FOLDERS, SegmentCache

_ALIGN_BYTES = 64


class PartRef(NamedTuple):
    """The place of a part, and the checksum of its bytes."""

    file: str
    offset: int
    length: int
    checksum: str


class Bundle:
    """Parts collected in memory for one file; an empty bundle writes nothing."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.size_bytes = 0
        self._parts: list[Any] = []

    def add(self, part: bytes | pa.Buffer) -> PartRef:
        """Append a part and return its place in the file."""
        buffer = pa.py_buffer(part)
        gap = -self.size_bytes % _ALIGN_BYTES
        ref = PartRef(self.file, self.size_bytes + gap, buffer.size, checksum(buffer))
        self._parts += [b"\0" * gap, buffer]
        self.size_bytes = ref.offset + ref.length
        return ref

    def write(self, store: FileStore, *, durable: bool = False) -> None:
        """Write the file to the disk, unless the bundle is empty; its name only if `durable`.

        The commit waits for the names of all files at once (`Ledger.write`).
        """
        if self._parts:
            store.write(self.file, self._parts, flush=True, durable=durable)
            if (cache := _cache_of(store, self.file)) is not None:
                cache.add(self.file, [(0, b"".join(self._parts))])


def pack(table: pa.Table, *, codec: str | None = None) -> pa.Buffer:
    """Return a table as an Arrow stream; only an uncompressed one can be used in place.

    >>> unpack(pack(pa.table({"x": [1, 2]})))["x"].to_pylist()
    [1, 2]
    """
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def unpack(blob: bytes | pa.Buffer) -> pa.Table:
    """Return the table in an Arrow stream, without copying its columns."""
    return pa.ipc.open_stream(pa.py_buffer(blob)).read_all()


def read_part(store: FileStore, ref: PartRef) -> pa.Buffer:
    """Return the bytes of a part, and only those; refuse them if one has changed."""
    if (part := _cached_part(store, ref)) is not None:
        return part
    part = check_part(store, ref, store.read_range(ref.file, ref.offset, ref.length))
    if (cache := _cache_of(store, ref.file)) is not None:
        cache.add(ref.file, [(ref.offset, part)])
    return part


def fetch_file(store: FileStore, ref: PartRef) -> None:
    """Copy the whole file of a part into the local cache, unless the part is there."""
    if (cache := _cache_of(store, ref.file)) is not None and _cached_part(store, ref) is None:
        cache.add(ref.file, [(0, store.read(ref.file))])


def fetch_parts(store: FileStore, refs: Iterable[PartRef]) -> None:
    """Copy parts into the local cache, if there is one, with few requests."""
    missing: dict[str, list[PartRef]] = {}
    for ref in refs:
        if _cache_of(store, ref.file) is not None and _cached_part(store, ref) is None:
            missing.setdefault(ref.file, []).append(ref)
    for file, wanted in missing.items():
        parts = store.read_ranges(file, [(ref.offset, ref.length) for ref in wanted])
        if (cache := _cache_of(store, file)) is not None:
            cache.add(file, [(r.offset, part) for r, part in zip(wanted, parts, strict=True)])


def _cache_of(store: FileStore, file: str) -> SegmentCache | None:
    return store.cache if file.startswith(CACHED_FOLDERS) else None


def _cached_part(store: FileStore, ref: PartRef) -> pa.Buffer | None:
    cache = _cache_of(store, ref.file)
    part = None if cache is None else cache.read(ref.file, ref.offset, ref.length)
    return part if part is not None and checksum(part) == ref.checksum else None


def check_part(store: FileStore, ref: PartRef, part: pa.Buffer) -> pa.Buffer:
    """Return the bytes that were read for a part; refuse them if one has changed."""
    if checksum(part) != ref.checksum:
        place = f"{ref.length} bytes at offset {ref.offset}"
        found = "its checksum does not match" if part.size == ref.length else "it is too short"
        raise store.damage(ref.file, f"{place}: {found}")
    return part


def checksum(data: bytes | pa.Buffer) -> str:
    """Return the XXH3 checksum of bytes.

    >>> checksum(b"evenflow")
    '8a745668129b8db0'
    """
    return str(xxhash.xxh3_64_hexdigest(data))
