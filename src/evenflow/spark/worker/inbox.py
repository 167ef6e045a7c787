"""The inbox of a worker in a batch: what was sent to it, by stream or by query."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa

from evenflow.model.codes import EnvelopeKind
from evenflow.spark.protocol.envelope import Envelope, query_and_feed
from evenflow.storage.bundle import PartRef, unpack
from evenflow.storage.file_store import FileStore
from evenflow.storage.stored_parts import read_bytes, read_table

Key = TypeVar("Key", str, int, tuple[str, str])


@dataclass(frozen=True, slots=True)
class Inbox:
    """New rows, what was set aside, bytes received and latest event times, each by stream.

    query_rows  (query uid, stream) -> rows for this query only
    partials    query uid -> id of an aggregate's feed -> partial rows
    """

    rows: dict[str, pa.Table] = field(default_factory=dict)
    poison: dict[str, list[pa.Table]] = field(default_factory=dict)
    shipped_bytes: dict[str, int] = field(default_factory=dict)
    latest_us: dict[str, int] = field(default_factory=dict)
    query_rows: dict[tuple[str, str], pa.Table] = field(default_factory=dict)
    partials: dict[str, dict[int, pa.Table]] = field(default_factory=dict)


def open_inbox(
    store: FileStore, envelopes: Iterable[Envelope], derived: Iterable[tuple[str, PartRef]]
) -> Inbox:
    """Concatenate the blobs of each stream, in an order that does not depend on arrival.

    `derived` are the streams that queries publish, with the files of their new rows.
    """
    rows: dict[str, list[pa.Table]] = defaultdict(list)
    poison: dict[str, list[pa.Table]] = defaultdict(list)
    query_rows: dict[tuple[str, str], list[pa.Table]] = defaultdict(list)
    partials: dict[str, dict[int, list[pa.Table]]] = defaultdict(lambda: defaultdict(list))
    shipped_bytes: Counter[str] = Counter()
    latest_us: dict[str, int] = {}
    for envelope in sorted(envelopes, key=lambda e: (e.stream, e.kind, e.blob)):
        kind, stream = envelope.kind, envelope.stream
        if kind == EnvelopeKind.CLOCK:
            time_us = int(json.loads(envelope.blob))
            latest_us[stream] = max(latest_us.get(stream, time_us), time_us)
            continue
        if kind == EnvelopeKind.FILE_REF:
            blob = read_bytes(store, PartRef(*json.loads(envelope.blob)))
        else:
            blob = pa.py_buffer(envelope.blob)
        table = unpack(blob)
        if kind == EnvelopeKind.POISON:
            poison[stream].append(table)
            continue
        shipped_bytes[stream] += blob.size
        if kind == EnvelopeKind.PARTIAL:
            uid, feed = query_and_feed(table)
            partials[uid][feed].append(table)
        elif kind == EnvelopeKind.QUERY_ROWS:
            query_rows[query_and_feed(table)[0], stream].append(table)
        else:
            rows[stream].append(table)
    for stream, ref in derived:
        rows[stream].append(read_table(store, ref))
        shipped_bytes[stream] += ref.length
    return Inbox(
        rows=_concatenate(rows),
        poison=dict(sorted(poison.items())),
        shipped_bytes=dict(shipped_bytes),
        latest_us=latest_us,
        query_rows=_concatenate(query_rows),
        partials={uid: _concatenate(by_feed) for uid, by_feed in sorted(partials.items())},
    )


def _concatenate(parts: dict[Key, list[pa.Table]]) -> dict[Key, pa.Table]:
    return {key: pa.concat_tables(tables) for key, tables in sorted(parts.items())}
