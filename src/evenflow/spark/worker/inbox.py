"""The inbox of a worker in a batch: the rows that were sent to it, by stream."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from evenflow.model.codes import EnvelopeKind
from evenflow.spark.protocol.envelope import Envelope
from evenflow.storage.bundle import PartRef, unpack
from evenflow.storage.file_store import FileStore
from evenflow.storage.stored_parts import read_bytes, read_table


@dataclass(frozen=True, slots=True)
class Inbox:
    """New rows, poison rows, and bytes received, each by stream."""

    rows: dict[str, pa.Table]
    poison: dict[str, pa.Table]
    shipped_bytes: dict[str, int]


def open_inbox(
    store: FileStore, envelopes: Iterable[Envelope], derived: Iterable[tuple[str, PartRef]]
) -> Inbox:
    """Concatenate the blobs of each stream, in an order that does not depend on arrival.

    `derived` are the streams that queries publish, with the files of their new rows.
    """
    rows: dict[str, list[pa.Table]] = defaultdict(list)
    poison: dict[str, list[pa.Table]] = defaultdict(list)
    shipped_bytes: Counter[str] = Counter()
    for envelope in sorted(envelopes, key=lambda e: (e.stream, e.kind, e.blob)):
        if envelope.kind == EnvelopeKind.FILE_REF:
            blob = read_bytes(store, PartRef(*json.loads(envelope.blob)))
        else:
            blob = pa.py_buffer(envelope.blob)
        if envelope.kind == EnvelopeKind.POISON:
            poison[envelope.stream].append(unpack(blob))
        else:
            rows[envelope.stream].append(unpack(blob))
            shipped_bytes[envelope.stream] += blob.size
    for stream, ref in derived:
        rows[stream].append(read_table(store, ref))
        shipped_bytes[stream] += ref.length
    return Inbox(_concatenate(rows), _concatenate(poison), dict(shipped_bytes))


def _concatenate(parts: dict[str, list[pa.Table]]) -> dict[str, pa.Table]:
    return {stream: pa.concat_tables(tables) for stream, tables in sorted(parts.items())}
