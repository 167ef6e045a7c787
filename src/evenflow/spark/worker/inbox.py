"""What a worker is sent in a batch: blobs of rows, put together by stream."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from evenflow.spark.worker.router import FILE_REF, POISON
from evenflow.storage.bundle import PartRef, read_part, unpack
from evenflow.storage.file_store import FileStore


@dataclass(frozen=True, slots=True)
class Envelope:
    """A blob of rows for this worker."""

    kind: str
    stream: str
    blob: bytes


@dataclass(frozen=True, slots=True)
class Inbox:
    """New rows by stream, rows set aside by stream, and the bytes of each stream."""

    rows: dict[str, pa.Table]
    poison: dict[str, pa.Table]
    shipped_bytes: dict[str, int]


def open_inbox(
    store: FileStore, envelopes: Iterable[Envelope], derived: Iterable[tuple[str, PartRef]]
) -> Inbox:
    """Put the blobs of each stream together, in an order that does not depend on arrival.

    `derived` are rows that queries published, which stand in files.
    """
    rows: dict[str, list[pa.Table]] = defaultdict(list)
    poison: dict[str, list[pa.Table]] = defaultdict(list)
    shipped: Counter[str] = Counter()
    for envelope in sorted(envelopes, key=lambda e: (e.stream, e.kind, e.blob)):
        blob = _blob(store, envelope)
        if envelope.kind == POISON:
            poison[envelope.stream].append(unpack(blob))
        else:
            rows[envelope.stream].append(unpack(blob))
            shipped[envelope.stream] += blob.size
    for stream, ref in derived:
        rows[stream].append(unpack(read_part(store, ref)))
        shipped[stream] += ref.length
    return Inbox(_concatenate(rows), _concatenate(poison), dict(shipped))


def _blob(store: FileStore, envelope: Envelope) -> pa.Buffer:
    if envelope.kind == FILE_REF:
        return read_part(store, PartRef(*json.loads(envelope.blob)))
    return pa.py_buffer(envelope.blob)


def _concatenate(parts: dict[str, list[pa.Table]]) -> dict[str, pa.Table]:
    return {stream: pa.concat_tables(tables) for stream, tables in sorted(parts.items())}
