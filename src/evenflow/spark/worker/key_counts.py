"""What the keys of a keyed query cost on one worker: their rows, results and state.

Workers count in time proportional to the batch's rows. The heaviest keys are listed one by one,
the others summed up, so the size of a report does not depend on the number of keys.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.jit import kernel
from evenflow.model import hash_keys
from evenflow.model.arrays import Bools, Floats, Hashes, Indices
from evenflow.model.codes import QueryKind
from evenflow.spark.protocol.key_counts import KeyCounts
from evenflow.sql import Task

MAX_LISTED_KEYS = 512
_ONE_PER_ROW = np.zeros(0, dtype=np.int64)
# Kinds that compare each row with the stored rows of its key.
_PAIRING_KINDS = frozenset({QueryKind.JOIN, QueryKind.JOIN_AGGREGATE, QueryKind.TEMPLATE})
_MAX_NAME_LENGTH = 100


def count_keys(
    kind: str,
    rows: Mapping[str, pa.Table],
    columns: Mapping[str, tuple[str, ...]],
    task: Task,
    rows_out: int,
    always_listed: Hashes,
    rows_in: int | None = None,
) -> KeyCounts:
    """Count a batch's rows by key; the heaviest keys and `always_listed` are listed one by one.

    `rows_in` is given if the router combined rows: their number before that.
    """
    raw_rows = sum(map(len, rows.values()))
    grouped = task.grouped_row_counts(raw_rows if rows_in is None else rows_in)
    if grouped is not None and rows_in is not None:
        grouped = grouped[0], _ONE_PER_ROW  # a partial row of the router costs as much as a row
    if grouped is None:
        key_values = [[rows[s][c].combine_chunks() for c in columns[s]] for s in rows]
    else:  # the query has grouped its rows: there is less to count
        key_values = [grouped[0]]
    row_hashes = [hash_keys(*values) for values in key_values]
    hashes, stream_rows, first_row = count_hashes(
        row_hashes[0] if len(row_hashes) == 1 else np.concatenate(row_hashes),
        _ONE_PER_ROW if grouped is None else grouped[1],
        np.cumsum([len(found) for found in row_hashes]),
    )
    key_rows = stream_rows[:, 0] if len(row_hashes) == 1 else stream_rows.sum(axis=1)
    stored = task.key_state(hashes) if kind in _PAIRING_KINDS else None
    pairs: Floats = np.zeros(0)
    if stored is not None:
        new_rows = dict(zip(rows, stream_rows.T, strict=True))
        pairs = task.examined_pairs(hashes, {s: found[0] for s, found in stored.items()}, new_rows)
    produced = _estimate_produced(kind, len(columns), key_rows, pairs, rows_out)
    is_listed, idle = heaviest_keys(key_rows, produced, MAX_LISTED_KEYS), always_listed
    if len(always_listed):
        is_listed |= np.isin(hashes, always_listed)
        idle = np.setdiff1d(always_listed, hashes[is_listed])  # not of all: sorting takes longer
    listed, rest = np.flatnonzero(is_listed), ~is_listed
    none = np.zeros(len(idle), dtype=np.int64)
    keys = np.concatenate([hashes[listed], idle])
    if stored is None:
        state_bytes = task.key_rows_and_bytes(keys)[1]
    else:
        idle_bytes = task.key_rows_and_bytes(idle)[1] if len(idle) else none
        sizes = sum((found[1][listed] for found in stored.values()), np.zeros(len(listed)))
        state_bytes = np.concatenate([sizes, idle_bytes])
    unexplained = rows_out - float(produced.sum()) if kind != QueryKind.JOIN_AGGREGATE else 0.0
    return KeyCounts(
        hashes=keys,
        rows_in=np.concatenate([key_rows[listed], none]),
        stream_rows=np.concatenate(
            [stream_rows[listed], np.zeros((len(idle), stream_rows.shape[1]), dtype=np.int64)]
        ),
        produced=np.concatenate([produced[listed], none]),
        state_bytes=state_bytes.astype(np.float64),
        names=_key_names(key_values, np.concatenate([first_row[listed], none - 1])),
        rest_keys=len(hashes) - len(listed),
        rest_rows_in=int(key_rows[rest].sum()),
        rest_produced=float(produced[rest].sum()) + max(0.0, unexplained),
        rest_state_bytes=max(0.0, float(task.state_bytes - state_bytes.sum())),
    )


def _estimate_produced(
    kind: str, streams: int, rows_in: Indices, pairs: Floats, rows_out: int
) -> Floats:
    """Estimate the rows that each key produced; their sum is the query's number of results.

    A self-join or a template compares a row with all stored rows of its key. These pairs are
    counted whether or not they match: each costs time, and the cost of a key must not depend on
    other keys. With several streams only some pairs are compared, so results are distributed over
    keys by their pairs. A join_aggregate aggregates its matches, so they never show as results.
    """
    weight: Floats
    if kind in _PAIRING_KINDS:
        weight = pairs
        if kind == QueryKind.JOIN_AGGREGATE or streams == 1:
            return weight
    else:
        weight = np.asarray(
            rows_in > 0 if kind == QueryKind.AGGREGATE else rows_in, dtype=np.float64
        )
    total = float(weight.sum())
    return np.multiply(weight, rows_out / total) if total else weight


def heaviest_keys(rows_in: Indices, produced: Floats, most: int) -> Bools:
    """Mark the `most` keys with the largest share of the rows in or of the rows produced.

    Whatever a row in and a row produced cost, a key's share of the cost is at most the larger of
    its two shares. All larger shares sum to at most 2, so no unmarked key has more than
    2 / (most + 1) of the cost.
    """
    shares = np.maximum(rows_in / max(1, rows_in.sum()), produced / (produced.sum() or 1.0))
    is_heavy = np.ones(len(shares), dtype=np.bool_)
    if len(shares) > most:
        is_heavy[np.argpartition(-shares, most)[most:]] = False
    return is_heavy


def _key_names(key_values: Iterable[list[pa.Array]], rows: Indices) -> pa.Array:
    """Return the keys of rows as text; rows are numbered through all streams, -1 is empty text."""
    texts, positions, begin = [], [], 0
    for columns in key_values:
        in_stream = np.flatnonzero((rows >= begin) & (rows < begin + len(columns[0])))
        if len(in_stream):
            chosen = pa.array(rows[in_stream] - begin)
            parts = [_to_text(column.take(chosen)) for column in columns]
            text = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, ", ")
            texts.append(pc.utf8_slice_codeunits(text, 0, _MAX_NAME_LENGTH))
            positions.append(in_stream)
        begin += len(columns[0])
    idle = np.flatnonzero(rows < 0)
    if len(idle) or not texts:
        texts.append(pa.array([""] * len(idle), pa.string()))
        positions.append(idle)
    names = pa.concat_arrays(texts)
    return names if len(texts) == 1 else names.take(np.argsort(np.concatenate(positions)))


def _to_text(values: pa.Array) -> pa.Array:
    try:
        texts = values.cast(pa.string())
        return pc.fill_null(texts, "NULL") if texts.null_count else texts
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # bytes, structs
        return pa.array([str(value) for value in values.to_pylist()])


@kernel
def count_hashes(
    hashes: Hashes, weights: Indices, ends: Indices
) -> tuple[Hashes, Indices, Indices]:
    """Return each hash once, how often it occurs, and its first row; in order of appearance.

    Rows up to each of `ends` are counted in a column of their own. With `weights`, a row counts as
    its weight instead of as one. Memory grows with the number of different hashes, not with the
    rows.
    """
    buckets = np.full(2048, -1, dtype=np.int64)
    keys = np.empty(len(buckets) // 2, dtype=np.uint64)
    total = np.zeros((len(ends), len(keys)), dtype=np.int64)
    first = np.empty(len(keys), dtype=np.int64)
    row, count = 0, 0
    for part in range(len(ends)):
        end = ends[part]
        row, count = _count_until_full(
            hashes, weights, row, end, buckets, keys, total[part], first, count
        )
        while row < end:
            buckets = np.full(4 * len(buckets), -1, dtype=np.int64)
            keys, first = _grow(keys), _grow(first)
            more = np.zeros((len(ends), len(keys)), dtype=np.int64)
            more[:, :count] = total
            total = more
            for key in range(count):
                buckets[_find_bucket(buckets, keys, keys[key])] = key
            row, count = _count_until_full(
                hashes, weights, row, end, buckets, keys, total[part], first, count
            )
    return keys[:count], total[:, :count].T, first[:count]


@kernel
def _count_until_full(
    hashes: Hashes,
    weights: Indices,
    row: int,
    end: int,
    buckets: Indices,
    keys: Hashes,
    total: Indices,
    first: Indices,
    count: int,
) -> tuple[int, int]:
    """Count from `row` to `end`, or until `keys` is full; return the next row and number of keys.

    A loop that also grows the arrays is four times slower.
    """
    while row < end:
        at = _find_bucket(buckets, keys, hashes[row])
        if buckets[at] < 0:
            if count == len(keys):
                return row, count
            buckets[at] = count
            keys[count], first[count] = hashes[row], row
            count += 1
        total[buckets[at]] += weights[row] if len(weights) else 1
        row += 1
    return row, count


@kernel
def _grow(values: Any) -> Any:
    wide = np.empty(4 * len(values), dtype=values.dtype)
    wide[: len(values)] = values
    return wide


@kernel
def _find_bucket(buckets: Indices, keys: Hashes, key: np.uint64) -> int:
    """Return the bucket of a key, or the free one to put it in."""
    mask = np.uint64(len(buckets) - 1)
    at = key & mask
    while buckets[at] >= 0 and keys[buckets[at]] != key:
        at = (at + np.uint64(1)) & mask
    return int(at)


def count_hashes_reference(
    hashes: Hashes, weights: Indices, ends: Indices
) -> dict[int, tuple[list[int], int]]:
    """Count the same in plain Python, as the kernel's oracle: hash -> (how often, first row)."""
    counts: dict[int, tuple[list[int], int]] = {}
    for row, key in enumerate(hashes.tolist()):
        total, _ = counts.setdefault(key, ([0] * len(ends), row))
        part = sum(row >= end for end in ends.tolist())
        total[part] += int(weights[row]) if len(weights) else 1
    return counts
