"""Price the keys of a keyed query: merge what its workers counted, weigh it with the cost model.

A split key was counted by all its owners. It is priced as it would be on one worker: rows that were
divided add up, rows that every owner had count once, and so do pairs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model import KeySplit, KeyStats
from evenflow.model.arrays import Floats, Hashes, Indices, Workers
from evenflow.model.hashing import SEED
from evenflow.spark.protocol.key_counts import KeyCounts
from evenflow.spark.protocol.registry import Hosted


def key_stats(
    query: Hosted,
    splits: Sequence[KeySplit],
    counts: Mapping[int, KeyCounts],
    weights: Floats,
    state: Floats,
    before: KeyStats | None,
) -> KeyStats:
    """Merge and price the key counts of all workers; fixed cost belongs to the rest.

    `weights` are those of the cost model, `state` the bytes of the query on each worker.
    """
    fixed, per_row_in, per_row_produced = weights.tolist()
    rest_keys = np.zeros(len(state), dtype=np.int64)
    rest_cost, rest_fixed = np.zeros(len(state)), np.zeros(len(state))
    rest_state = state.copy()  # all of it on workers that had nothing to do
    for worker, c in counts.items():
        rest_keys[worker], rest_state[worker] = c.rest_keys, c.rest_state_bytes
        rest_fixed[worker] = fixed
        rest_cost[worker] = fixed + per_row_in * c.rest_rows_in + per_row_produced * c.rest_produced
    keys = _CountedKeys.concatenate(counts, len(query.streams))
    for split in splits:
        keys = keys.merged(query, split)
    keys = keys.taken(np.argsort(keys.hashes))
    split_by, shared_rows = _best_streams(query, splits, keys)
    return KeyStats(
        hashes=keys.hashes,
        owner=keys.owner,
        cost=per_row_in * keys.rows_in + per_row_produced * keys.produced,
        state_bytes=keys.state_bytes,
        names=_key_names(keys.hashes, keys.names, before),
        rest_keys=rest_keys,
        rest_cost=rest_cost,
        rest_state_bytes=rest_state,
        rest_fixed_cost=rest_fixed,
        rows=keys.rows_in,
        shared_cost=per_row_in * shared_rows,
        split_by=split_by,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _CountedKeys:
    """The listed keys of all workers: arrays with an entry, or a row, per key."""

    hashes: Hashes
    owner: Workers
    produced: Floats
    state_bytes: Floats
    stream_rows: Indices
    names: pa.Array

    @classmethod
    def concatenate(cls, counts: Mapping[int, KeyCounts], streams: int) -> "_CountedKeys":
        parts = list(counts.values())
        return cls(
            hashes=np.concatenate([c.hashes for c in parts]),
            owner=np.repeat(np.array(list(counts), np.int32), [len(c.hashes) for c in parts]),
            produced=np.concatenate([c.produced for c in parts]),
            state_bytes=np.concatenate([c.state_bytes for c in parts]),
            stream_rows=np.concatenate(
                [c.stream_rows.reshape(len(c.hashes), streams) for c in parts]
            ),
            names=pa.concat_arrays([c.names for c in parts]),
        )

    @property
    def rows_in(self) -> Indices:
        total: Indices = self.stream_rows.sum(axis=1)
        return total

    def taken(self, at: Indices) -> "_CountedKeys":
        return _CountedKeys(
            self.hashes[at], self.owner[at], self.produced[at], self.state_bytes[at],
            self.stream_rows[at], self.names.take(pa.array(at)),
        )  # fmt: skip

    def merged(self, query: Hosted, split: KeySplit) -> "_CountedKeys":
        """Return the keys with all counts of a split key merged into one."""
        is_split = self.hashes == np.uint64(split.key_hash)
        if not is_split.any():
            return self
        found, others = self.taken(np.flatnonzero(is_split)), self.taken(np.flatnonzero(~is_split))
        divided = _divided_columns(query, split.fragmented, split.key_hash)
        once, added = found.stream_rows.max(axis=0), found.stream_rows.sum(axis=0)
        names = [name for name in found.names.to_pylist() if name]
        # Owners that have all rows have the same state; otherwise each has its part.
        state = found.state_bytes.sum() if divided.any() else found.state_bytes.max()
        return _CountedKeys(
            hashes=np.append(others.hashes, np.uint64(split.key_hash)),
            owner=np.append(others.owner, np.int32(split.home)),
            produced=np.append(others.produced, found.produced.sum()),
            state_bytes=np.append(others.state_bytes, state),
            stream_rows=np.vstack([others.stream_rows, np.where(divided, added, once)]),
            names=pa.concat_arrays([others.names, pa.array(names[:1] or [""], pa.string())]),
        )


def _divided_columns(query: Hosted, stream: str, key_hash: int) -> Indices:
    """Return 1 for each stream whose rows are divided if a key is split by a stream, else 0."""
    if key_hash == int(SEED):  # NULL, of which no row is copied
        return np.ones(len(query.streams), dtype=np.int64)
    return np.array([s in query.divided[stream] for s in query.streams], dtype=np.int64)


def _best_streams(
    query: Hosted, splits: Sequence[KeySplit], keys: _CountedKeys
) -> tuple[tuple[str, ...], Floats]:
    """Return the stream to split each key by, and its rows that every owner would then have.

    It is the one that leaves the fewest such rows, or the present one of a key that is split.
    """
    if not query.divided:
        return ("",) * len(keys.hashes), np.zeros(len(keys.hashes))
    streams = list(query.divided)
    copied = np.array([1 - _divided_columns(query, stream, 0) for stream in streams])
    shared = keys.stream_rows @ copied.T
    best = shared.argmin(axis=1)
    for split in splits:
        best[keys.hashes == np.uint64(split.key_hash)] = streams.index(split.fragmented)
    rows: Floats = shared[np.arange(len(best)), best].astype(np.float64)
    rows[keys.hashes == SEED] = 0.0
    return tuple(streams[at] for at in best.tolist()), rows


def _key_names(hashes: Hashes, texts: pa.Array, before: KeyStats | None) -> tuple[str, ...]:
    """Name keys without rows as in the previous batch, else by their hash."""
    names = texts.to_pylist()
    for key in np.flatnonzero(pc.equal(texts, "")).tolist():
        names[key] = f"#{int(hashes[key]):016x}"
        if before is not None:
            place = int(np.searchsorted(before.hashes, hashes[key]))
            if place < len(before.hashes) and before.hashes[place] == hashes[key]:
                names[key] = before.names[place]
    return tuple(names)
