"""The router sends every row of a stream to the workers that need it, as Arrow blobs.

A worker gets a stream once, however many of its queries read it: all rows if a whole query there
reads it, otherwise the rows whose keys are routed to it. Routing uses the same hash as the
planners (`evenflow.model`).
"""

import json
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model import Plan
from evenflow.model.arrays import Bools
from evenflow.model.codes import EnvelopeKind
from evenflow.model.time import event_times_us
from evenflow.spark.protocol.envelope import (
    CHUNK_FOLDER,
    ENVELOPE_SCHEMA,
    POISON_REST_COLUMN,
    for_query,
)
from evenflow.spark.protocol.ledger import Entry, Ledger
from evenflow.spark.protocol.registry import Hosted, Registry
from evenflow.spark.worker.combiner import Combiner, combined_queries
from evenflow.spark.worker.row_route import RowRoute, row_route
from evenflow.spark.worker.set_aside import SetAside, latest_time_us, separate_rows
from evenflow.storage.bundle import PartRef, checksum, pack
from evenflow.storage.file_store import FileStore

_CHUNK_BYTES = 8 << 20
_MIN_FILE_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class StreamDemand:
    """Who needs a stream: workers that need every row, and routes for the keyed queries."""

    full_stream_workers: frozenset[int]
    row_routes: tuple[RowRoute, ...]

    def is_exact_share(self, worker: int) -> bool:
        """Return whether a worker gets only the rows of the one route."""
        return worker not in self.full_stream_workers and len(self.row_routes) == 1


def stream_demand(
    registry: Registry, plan: Plan, entry: Entry, stream: str, served: Container[str] = ()
) -> StreamDemand:
    """Return who needs a stream in a batch; `served` are the uids of queries that have its rows."""
    full_stream_workers: set[int] = set()
    routes: dict[tuple[object, ...], RowRoute] = {}
    for query in registry.readers(stream):
        if query.uid in entry.quarantined or query.uid in entry.combined or query.uid in served:
            continue
        if query.name in plan.placement:
            full_stream_workers.add(plan.placement[query.name])
        else:
            route = row_route(query, stream, plan)
            routes[route.identity] = route
    return StreamDemand(frozenset(full_stream_workers), tuple(routes.values()))


def shares_by_key(rows: pa.Table, demand: StreamDemand) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of each worker that needs some of them; full-stream workers get none here."""
    routes, full = demand.row_routes, demand.full_stream_workers
    if len(routes) == 1:
        yield from (share for share in routes[0].shares(rows) if share[0] not in full)
        return
    needed: dict[int, Bools] = {}
    for route in routes:
        at, workers = route.targets(rows)
        for worker in np.flatnonzero(np.bincount(workers)).tolist():
            mask = needed.setdefault(worker, np.zeros(len(rows), dtype=np.bool_))
            mask[workers == worker if at is None else at[workers == worker]] = True
    for worker in sorted(needed.keys() - full):
        yield worker, rows.filter(pa.array(needed[worker]))


def select_needed(rows: pa.Table, schema: pa.Schema, columns: Sequence[str]) -> pa.Table:
    """Return the columns that the queries of a batch need, in the types of the stream."""
    missing = [column for column in columns if column not in rows.column_names]
    if missing:
        raise RuntimeError(f"Spark's query does not read column {missing[0]!r}; restart the run")
    return rows.select(columns).cast(pa.schema([schema.field(column) for column in columns]))


def restore_poison_rows(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return poison rows with all columns of the stream, also those that pruning removed."""
    if POISON_REST_COLUMN in rows.column_names:
        rest = rows[POISON_REST_COLUMN].combine_chunks().flatten()
        rows = rows.drop_columns([POISON_REST_COLUMN])
        for field, values in zip(rest.type, rest.flatten(), strict=True):
            rows = rows.append_column(field.name, values)
    return rows.select(schema.names).cast(schema)


def route_source(
    ledger: Ledger,
    stream: str,
    batches: Iterable[pa.RecordBatch],
    batch: int,
    combiner: Combiner | None = None,
    max_ahead_us: int | None = None,
    clock_us: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Turn a source's rows into envelopes; rows more than `max_ahead_us` ahead are set aside.

    Without a `combiner`, queries that the entry combines get their rows one by one.
    """
    entry = ledger.entry(batch)
    registry = ledger.registry(entry.registry_version)
    plan = ledger.plan(entry.plan_number)
    demand = stream_demand(registry, plan, entry, stream)
    combined = combined_queries(registry, entry, stream)
    full_stream_workers = sorted(demand.full_stream_workers)
    spec, columns = registry.streams[stream], registry.needed_columns(stream)
    set_aside, latest_us = SetAside(), None
    for chunk in _gather_chunks(batches):
        if not (full_stream_workers or demand.row_routes or combined):
            continue
        if max_ahead_us is not None and latest_us is None:
            latest_us = latest_time_us(ledger.store, batch, max_ahead_us, clock_us)
        valid, aside, invalid, ahead = separate_rows(chunk, spec.time, latest_us)
        if len(aside):
            rows = restore_poison_rows(aside, spec.schema)
            set_aside.add(rows, invalid=invalid, ahead=ahead)
        valid = select_needed(valid, spec.schema, columns)
        if full_stream_workers and valid.num_rows:
            yield _broadcast(ledger.store, full_stream_workers, stream, pack(valid), batch)
        for worker, share in shares_by_key(valid, demand):
            yield _envelope([worker], EnvelopeKind.ROWS, stream, pack(share))
        if combined and valid.num_rows:
            yield _clock_envelope(stream, valid[spec.time])
        for query in combined:
            partials = combiner.combine(query, valid) if combiner is not None else None
            if partials is None:
                shares = _query_shares(query, stream, plan, valid)
                yield from _envelopes(EnvelopeKind.QUERY_ROWS, stream, shares)
            else:
                yield from _envelopes(EnvelopeKind.PARTIAL, stream, partials)
    if combiner is not None:
        yield from _envelopes(EnvelopeKind.PARTIAL, stream, combiner.rest())
    if set_aside.invalid or set_aside.ahead:
        blob = pack(set_aside.to_table(spec.schema))
        yield _envelope([0], EnvelopeKind.POISON, stream, blob)


def _query_shares(
    query: Hosted, stream: str, plan: Plan, rows: pa.Table
) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of one query for each worker, labelled for it."""
    rows = for_query(rows, query.uid)
    if query.name in plan.placement:
        yield plan.placement[query.name], rows
    else:
        yield from row_route(query, stream, plan).shares(rows)


def _clock_envelope(stream: str, times: pa.ChunkedArray) -> pa.RecordBatch:
    latest = json.dumps(pc.max(event_times_us(times)).as_py()).encode()
    return _envelope([0], EnvelopeKind.CLOCK, stream, pa.py_buffer(latest))


def _envelopes(
    kind: EnvelopeKind, stream: str, shares: Iterable[tuple[int, pa.Table]]
) -> Iterator[pa.RecordBatch]:
    for worker, rows in shares:
        if rows.num_rows:
            # Spark compresses the shuffle fast, not small; partial rows are few and worth more.
            codec = "zstd" if kind == EnvelopeKind.PARTIAL else None
            yield _envelope([worker], kind, stream, pack(rows, codec=codec))


def _gather_chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Gather small record batches, so that a blob is worth its envelope."""
    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        if gathered and batch.schema != gathered[0].schema:  # rows to set aside have all columns
            yield pa.Table.from_batches(gathered).combine_chunks()
            gathered, size = [], 0
        gathered.append(batch)
        size += batch.nbytes
        if size >= _CHUNK_BYTES:
            yield pa.Table.from_batches(gathered).combine_chunks()
            gathered, size = [], 0
    if gathered:
        yield pa.Table.from_batches(gathered).combine_chunks()


def _broadcast(
    store: FileStore, workers: list[int], stream: str, blob: pa.Buffer, batch: int
) -> pa.RecordBatch:
    """Send one blob to several workers; a large one is written to a file and sent by reference.

    The file is named by its content, so a second attempt writes the same file. On remote storage
    the shuffle is faster.
    """
    if len(workers) == 1 or blob.size < _MIN_FILE_BYTES or store.local_root is None:
        return _envelope(workers, EnvelopeKind.ROWS, stream, blob)
    file = f"{CHUNK_FOLDER}/{batch:012d}-{blake2b(blob, digest_size=16).hexdigest()}"
    store.write(file, [blob])
    ref = json.dumps(PartRef(file, 0, blob.size, checksum(blob))).encode()
    return _envelope(workers, EnvelopeKind.FILE_REF, stream, pa.py_buffer(ref))


def _envelope(workers: list[int], kind: str, stream: str, blob: pa.Buffer) -> pa.RecordBatch:
    number = len(workers)
    # One blob is not copied.
    ends = pa.py_buffer(np.array([0, blob.size], np.int32))
    blobs = pa.Array.from_buffers(pa.binary(), 1, [None, ends, blob])
    if number > 1:
        blobs = pa.concat_arrays([blobs] * number)
    columns = [
        pa.array(workers, pa.int32()),
        pa.array([kind] * number),
        pa.array([stream] * number),
    ]
    return pa.RecordBatch.from_arrays([*columns, blobs], schema=ENVELOPE_SCHEMA)
