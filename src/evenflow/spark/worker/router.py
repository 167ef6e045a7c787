"""The router: every row of a stream to the workers that need it, as Arrow blobs.

A worker gets a stream once, however many of its queries read it: all rows if a whole query
there reads it, else the rows whose keys are routed to it. F(key) is the planners' own
(`evenflow.model`), so what a plan says is what the router does.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model import Plan, RoutingTable, hash_keys
from evenflow.model.arrays import Workers
from evenflow.spark.driver.column_pruning import restore_poison_rows, select_needed
from evenflow.spark.protocol.ledger import Entry, Ledger
from evenflow.spark.protocol.registry import Hosted, Registry, StreamSpec
from evenflow.storage.bundle import PartRef, pack
from evenflow.storage.file_store import FileStore

ENVELOPE_COLUMNS = "slot int, kind string, name string, blob binary"
EMPTY_ENVELOPE_COLUMNS = (
    "0 AS slot",
    "value AS kind",
    "value AS name",
    "CAST(value AS BINARY) AS blob",
)
# What an envelope holds: rows, where rows stand in a file, rows set aside.
ROWS, FILE_REF, POISON = "rows", "filed", "poison"
CHUNK_FOLDER = "chunks"
ENVELOPE_SCHEMA = pa.schema(
    [("slot", pa.int32()), ("kind", pa.string()), ("name", pa.string()), ("blob", pa.binary())]
)
_CHUNK_BYTES = 8 << 20
_MIN_FILE_BYTES = 64 << 10
# 1900-01-01 and 2200-01-01: a time outside is a mistake, and would stop the watermark for good.
EARLIEST_EVENT_TIME_US, LATEST_EVENT_TIME_US = -2_208_988_800_000_000, 7_258_118_400_000_000


@dataclass(frozen=True, slots=True)
class RowSplit:
    """Rows split by key columns over a routing table."""

    columns: tuple[str, ...]
    table: RoutingTable
    workers: int
    drained: frozenset[int] = frozenset()

    def route(self, rows: pa.Table) -> Workers:
        """Return the worker of each row."""
        hashes = hash_keys(*(rows[column] for column in self.columns))
        return self.table.route(hashes, self.workers, self.drained)


@dataclass(frozen=True, slots=True)
class StreamDemand:
    """Who needs a stream: workers that need every row, and splits for the keyed queries."""

    full_stream_workers: frozenset[int]
    row_splits: tuple[RowSplit, ...]

    def is_exact_share(self, slot: int) -> bool:
        """Tell whether what a worker gets is just the one split's share."""
        return slot not in self.full_stream_workers and len(self.row_splits) == 1


def row_split(query: Hosted, stream: str, plan: Plan) -> RowSplit:
    """Return how a keyed query's rows of a stream are split."""
    if query.inferred is None:
        raise ValueError(f"{query.name} cannot be keyed")
    return RowSplit(query.inferred[stream], plan.tables[query.name], plan.workers, plan.drained)


def stream_demand(registry: Registry, plan: Plan, entry: Entry, stream: str) -> StreamDemand:
    """Return who needs a stream in a batch."""
    whole: set[int] = set()
    splits: dict[tuple[object, ...], RowSplit] = {}
    for query in registry.readers(stream):
        if query.uid in entry.quarantined:
            continue
        if query.name in plan.placement:
            whole.add(plan.placement[query.name])
        else:
            split = row_split(query, stream, plan)
            table = split.table
            splits[split.columns, table.hashes.tobytes(), table.owners.tobytes()] = split
    return StreamDemand(frozenset(whole), tuple(splits.values()))


def split_by_key(rows: pa.Table, need: StreamDemand) -> Iterator[tuple[int, pa.Table]]:
    """Split rows by key over the workers that need a part of them."""
    if not need.row_splits:
        return
    workers = need.row_splits[0].workers
    routes = [split.route(rows) for split in need.row_splits]
    if len(routes) == 1:
        # Sixteen bits make NumPy sort by radix: one pass over the rows.
        order = np.argsort(routes[0].astype(np.uint16), kind="stable")
        dealt = rows.take(order)
        ends = np.bincount(routes[0], minlength=workers).cumsum()
        for slot in range(workers):
            begin = int(ends[slot - 1]) if slot else 0
            if slot not in need.full_stream_workers and ends[slot] > begin:
                yield slot, dealt.slice(begin, int(ends[slot]) - begin)
        return
    for slot in range(workers):
        wanted = np.logical_or.reduce([route == slot for route in routes])
        if slot not in need.full_stream_workers and wanted.any():
            yield slot, rows.filter(pa.array(wanted))


def event_times_us(rows: pa.Table, spec: StreamSpec) -> pa.ChunkedArray:
    """Return event times as microseconds."""
    kind = rows.schema.field(spec.time).type
    return rows[spec.time].cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())


def separate_poison(rows: pa.Table, spec: StreamSpec) -> tuple[pa.Table, pa.Table]:
    """Return the rows whose event time can be used, and the others."""
    times = event_times_us(rows, spec)
    ends = pc.min_max(times)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if not times.null_count and (
        low is None or (low >= EARLIEST_EVENT_TIME_US and high < LATEST_EVENT_TIME_US)
    ):
        return rows, rows.slice(0, 0)
    inside = pc.and_(
        pc.greater_equal(times, EARLIEST_EVENT_TIME_US), pc.less(times, LATEST_EVENT_TIME_US)
    )
    good = pc.fill_null(inside, False)
    return rows.filter(good), rows.filter(pc.invert(good))


def route_source(
    ledger: Ledger, stream: str, batches: Iterable[pa.RecordBatch], batch: int
) -> Iterator[pa.RecordBatch]:
    """Turn a source's rows into envelopes."""
    entry = ledger.entry(batch)
    registry = ledger.registry(entry.registry_version)
    need = stream_demand(registry, ledger.plan(entry.plan_number), entry, stream)
    spec, columns = registry.streams[stream], registry.needed_columns(stream)
    for chunk in _gather_chunks(batches):
        if not (need.full_stream_workers or need.row_splits):
            continue
        good, poison = separate_poison(chunk, spec)
        if poison.num_rows:
            yield _envelope([0], POISON, stream, pack(restore_poison_rows(poison, spec.schema)))
        good = select_needed(good, spec.schema, columns)
        if need.full_stream_workers and good.num_rows:
            yield _broadcast(
                ledger.store, sorted(need.full_stream_workers), stream, pack(good), batch
            )
        for slot, share in split_by_key(good, need):
            yield _envelope([slot], ROWS, stream, pack(share))


def _gather_chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Gather small record batches, so that a blob is worth its envelope."""
    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            gathered.append(batch)
            size += batch.nbytes
        if size >= _CHUNK_BYTES:
            yield pa.Table.from_batches(gathered).combine_chunks()
            gathered, size = [], 0
    if gathered:
        yield pa.Table.from_batches(gathered).combine_chunks()


def _broadcast(
    store: FileStore, slots: list[int], stream: str, blob: pa.Buffer, batch: int
) -> pa.RecordBatch:
    """Send one blob to several workers: a large one is written once, and only named to each.

    The file is named by its content, so a second attempt names the same.
    """
    if len(slots) == 1 or blob.size < _MIN_FILE_BYTES:
        return _envelope(slots, ROWS, stream, blob)
    file = f"{CHUNK_FOLDER}/{batch:012d}-{blake2b(blob, digest_size=16).hexdigest()}"
    store.write(file, [blob])
    where = json.dumps(PartRef(file, 0, blob.size)).encode()
    return _envelope(slots, FILE_REF, stream, pa.py_buffer(where))


def _envelope(slots: list[int], kind: str, stream: str, blob: pa.Buffer) -> pa.RecordBatch:
    number = len(slots)
    values = (slots, [kind] * number, [stream] * number)
    arrays = [pa.array(v, field.type) for v, field in zip(values, ENVELOPE_SCHEMA, strict=False)]
    # One blob is not copied.
    ends = pa.py_buffer(np.array([0, blob.size], np.int32))
    blobs = pa.Array.from_buffers(pa.binary(), 1, [None, ends, blob])
    if number > 1:
        blobs = pa.concat_arrays([blobs] * number)
    return pa.RecordBatch.from_arrays([*arrays, blobs], schema=ENVELOPE_SCHEMA)
