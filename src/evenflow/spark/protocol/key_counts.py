"""Key counts: what the keys of a keyed query cost on one worker in one batch, as reported."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from evenflow.model.arrays import Floats, Hashes, Indices
from evenflow.storage.bundle import pack, unpack

_SCHEMA = pa.schema(
    [
        ("hash", pa.uint64()),  # NULL for the rest
        ("keys", pa.int64()),
        ("rows_in", pa.int64()),
        ("produced", pa.float64()),
        ("state_bytes", pa.float64()),
        ("name", pa.string()),  # for the rest, the uid of the query
        ("stream_rows", pa.list_(pa.int64())),  # empty for the rest
    ]
)


@dataclass(frozen=True, slots=True, eq=False)
class KeyCounts:
    """The keys of one keyed query on one worker in one batch.

    rows_in      rows of the key
    produced     results of these rows, or pairs examined for a match: an estimate
    state_bytes  bytes stored for the key
    stream_rows  rows of the key (row) of each stream of the query (column)
    names        values of the key as text; empty if the batch had no row of it
    rest_*       the same for all other keys together; `rest_keys` counts those with rows
    """

    hashes: Hashes
    rows_in: Indices
    produced: Floats
    state_bytes: Floats
    stream_rows: Indices
    names: pa.Array
    rest_keys: int = 0
    rest_rows_in: int = 0
    rest_produced: float = 0.0
    rest_state_bytes: float = 0.0

    @property
    def total_produced(self) -> float:
        """The sum over all keys."""
        return float(self.produced.sum()) + self.rest_produced


def encode_key_counts(counts: Mapping[str, KeyCounts]) -> bytes:
    """Encode the counts of a worker: one record batch per query, its last row is the rest."""
    batches = []
    for uid, keys in counts.items():
        number, streams = keys.stream_rows.shape
        ends = np.append(np.arange(number + 1) * streams, number * streams).astype(np.int32)
        is_rest = np.arange(number + 1) == number
        columns = (
            pa.array(np.append(keys.hashes, np.uint64(0)), mask=is_rest),
            np.where(is_rest, keys.rest_keys, 1),
            np.append(keys.rows_in, keys.rest_rows_in),
            np.append(keys.produced, keys.rest_produced),
            np.append(keys.state_bytes, keys.rest_state_bytes),
            pa.concat_arrays([keys.names, pa.array([uid])]),
        )
        arrays = [pa.array(v, f.type) for v, f in zip(columns, _SCHEMA, strict=False)]
        arrays.append(pa.ListArray.from_arrays(ends, keys.stream_rows.ravel()))
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA))
    if not batches:
        return b""
    packed: bytes = pack(pa.Table.from_batches(batches)).to_pybytes()
    return packed


def decode_key_counts(packed: bytes) -> dict[str, KeyCounts]:
    """Read back what `encode_key_counts` wrote."""
    counts = {}
    for batch in unpack(packed).to_batches() if packed else ():
        number = batch.num_rows - 1
        rest = batch.slice(number).to_pylist()[0]
        listed = batch.slice(0, number)
        counts[rest["name"]] = KeyCounts(
            hashes=listed["hash"].to_numpy(),
            rows_in=listed["rows_in"].to_numpy(),
            produced=listed["produced"].to_numpy(),
            state_bytes=listed["state_bytes"].to_numpy(),
            stream_rows=_stream_rows(listed["stream_rows"]),
            names=listed["name"],
            rest_keys=rest["keys"],
            rest_rows_in=rest["rows_in"],
            rest_produced=rest["produced"],
            rest_state_bytes=rest["state_bytes"],
        )
    return counts


def _stream_rows(lists: pa.ListArray) -> Indices:
    """Return the lists, which have one length, as the rows of an array."""
    flat: Indices = lists.flatten().to_numpy()
    return flat.reshape(len(lists), len(flat) // max(1, len(lists)))
