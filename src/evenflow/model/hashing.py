"""The stable hash h(k) behind every routing table, for keys of any type.

A key is hashed with XXH64, seed 42, and jump consistent hashing maps the hash to a worker. That is
Spark SQL's `xxhash64`, so a route can be checked in SQL: `xxhash64(key)` for strings and BIGINT.
Other types are widened first, so the width of a column does not change the hash of a key:

- integers, booleans, dates and timestamps (microseconds) to BIGINT, floats to DOUBLE;
- the columns of a composite key are hashed in turn, each seeded with the hash so far;
- a NULL leaves the hash so far unchanged.

Decimals of more than 18 digits are hashed by their 16 bytes instead. With jump hashing (Lamping and
Veach, 2014), adding worker n moves only keys that then belong to worker n.
"""

from collections.abc import Collection, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenflow.errors import InputError
from evenflow.jit import kernel
from evenflow.model.arrays import Hashes, Indices, Workers

SEED = np.uint64(42)
MASK_64 = (1 << 64) - 1

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)


def hash_keys(*columns: pa.Array | pa.ChunkedArray | NDArray[np.generic]) -> Hashes:
    """Hash rows of one or more key columns to 64 bits each.

    >>> [hex(h) for h in hash_keys(pa.array(["IBM", None]))]
    ['0x58675e3c211028d6', '0x2a']
    >>> bool((hash_keys(pa.array([7], pa.int8())) == hash_keys(np.array([7]))).all())
    True
    """
    if not columns:
        raise InputError("a key needs at least one column, got none")
    arrays = [_to_array(column) for column in columns]
    hashes = np.full(len(arrays[0]), SEED)
    for array in arrays:
        hashes = _hash_column(array, hashes)
    return hashes


def hash_contents(columns: Iterable[pa.Array | pa.ChunkedArray]) -> Hashes:
    """Hash the contents of rows: all their scalar columns, at least one.

    >>> one, two = hash_contents([pa.array(["IBM", "IBM"]), pa.array([[1], [2]]), pa.array([1, 2])])
    >>> bool(one == two)
    False
    """
    return hash_keys(*(column for column in columns if not pa.types.is_nested(column.type)))


def jump_hash(hashes: Hashes, workers: int) -> Workers:
    """Map hashes evenly to workers 0..n-1.

    >>> jump_hash(np.array([1, 2, 3], dtype=np.uint64), 1).tolist()
    [0, 0, 0]
    """
    if workers < 1:
        raise InputError(f"at least one worker is needed, got {workers}")
    return _jump_hash_kernel(hashes, workers)


def home_workers(hashes: Hashes, workers: int, drained: Collection[int] = ()) -> Workers:
    """Map hashes to the workers that are not drained.

    Keys of a drained worker are hashed again until they reach one that is not, so draining a worker
    moves only its keys, and activating it moves only those back.

    >>> home_workers(np.array([1, 2, 3], dtype=np.uint64), 2, drained={1}).tolist()
    [0, 0, 0]
    """
    homes = jump_hash(hashes, workers)
    if not drained:
        return homes
    is_drained = np.isin(np.arange(workers), list(drained))
    if is_drained.all():
        raise InputError(f"all {workers} workers are drained; at least one must take the keys")
    rows = np.flatnonzero(is_drained[homes])
    keys = hashes[rows]
    while len(rows):
        keys = _hash_words(keys, keys)
        homes[rows] = jump_hash(keys, workers)
        again = is_drained[homes[rows]]
        rows, keys = rows[again], keys[again]
    return homes


def jump_hash_reference(key: int, workers: int) -> int:
    """Jump hashing of one hash in plain Python: the oracle of the kernel in tests."""
    bucket, candidate = -1, 0
    while candidate < workers:
        bucket = candidate
        key = (key * 2862933555777941757 + 1) & MASK_64
        candidate = int((bucket + 1) * (float(1 << 31) / float((key >> 33) + 1)))
    return bucket


def _to_array(column: pa.Array | pa.ChunkedArray | NDArray[np.generic]) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column if isinstance(column, pa.Array) else pa.array(column)


def _hash_column(array: pa.Array, seeds: Hashes) -> Hashes:
    """Continue the hashes with one more column; NULL rows keep theirs."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _hash_column(array.dictionary_decode(), seeds)
    if pa.types.is_null(kind):
        return seeds
    if pa.types.is_struct(kind):
        hashes = seeds
        for field in array.flatten():
            hashes = _hash_column(field, hashes)
        return hashes
    if _is_bytes(kind):
        hashes = _hash_bytes(*_value_bytes(array), seeds)
    else:
        hashes = _hash_words(_value_words(array), seeds)
    if array.null_count:
        nulls = array.is_null().to_numpy(zero_copy_only=False)
        hashes = np.where(nulls, seeds, hashes)
    return hashes


def _is_bytes(kind: pa.DataType) -> bool:
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    is_view = pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)
    is_wide = pa.types.is_decimal(kind) and kind.precision > 18
    return bool(is_text or is_binary or is_view or is_wide or pa.types.is_fixed_size_binary(kind))


def _value_bytes(array: pa.Array) -> tuple[NDArray[np.uint8], Indices]:
    """Return the bytes of all values and the offset of each."""
    kind = array.type
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_decimal(kind):
        width = kind.byte_width
        offsets = np.arange(array.offset, array.offset + len(array) + 1, dtype=np.int64) * width
        return np.frombuffer(array.buffers()[1], dtype=np.uint8), offsets
    wide = array.cast(pa.large_string() if pa.types.is_string_view(kind) else pa.large_binary())
    _, starts, data = wide.buffers()
    offsets = np.frombuffer(starts, dtype=np.int64)[wide.offset : wide.offset + len(wide) + 1]
    content = np.frombuffer(data, dtype=np.uint8) if data else np.zeros(0, dtype=np.uint8)
    return content, offsets


def _value_words(array: pa.Array) -> Hashes:
    """Return the values as 64-bit words, which do not depend on the width of the column."""
    kind = array.type
    if pa.types.is_decimal(kind):
        array = array.cast(pa.decimal128(kind.precision, kind.scale))
        kind = array.type
        pairs = np.frombuffer(array.buffers()[1], dtype=np.uint64).reshape(-1, kind.byte_width // 8)
        return np.ascontiguousarray(pairs[array.offset : array.offset + len(array), 0])
    if pa.types.is_floating(kind):
        doubles = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        canonical = np.where(np.isnan(doubles), np.nan, doubles + 0.0)
        return canonical.view(np.uint64)
    if pa.types.is_timestamp(kind):
        array = array.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
    elif pa.types.is_date(kind):
        array = array.cast(pa.date32()).cast(pa.int32())
    elif pa.types.is_time(kind) or pa.types.is_duration(kind):
        array = array.view(pa.int64() if kind.bit_width == 64 else pa.int32())
    elif pa.types.is_uint64(kind):
        return np.asarray(array.fill_null(0), dtype=np.uint64)
    elif not (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise InputError(
            f"a column of type {kind} cannot be a key; use a scalar type or a struct of scalars"
        )
    whole = pc.fill_null(array.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return np.asarray(whole, dtype=np.int64).view(np.uint64)


@kernel
def _rotate(value: np.uint64, bits: int) -> np.uint64:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@kernel
def _avalanche(value: np.uint64) -> np.uint64:
    value = (value ^ (value >> np.uint64(33))) * _P2
    value = (value ^ (value >> np.uint64(29))) * _P3
    return value ^ (value >> np.uint64(32))


@kernel
def _mix_word(value: np.uint64, word: np.uint64) -> np.uint64:
    value = value ^ (_rotate(word * _P2, 31) * _P1)
    return _rotate(value, 27) * _P1 + _P4


@kernel
def _hash_words(words: Hashes, seeds: Hashes) -> Hashes:
    hashes = np.empty_like(seeds)
    for row in range(len(words)):
        hashes[row] = _avalanche(_mix_word(seeds[row] + _P5 + np.uint64(8), words[row]))
    return hashes


@kernel
def _read_word(data: NDArray[np.uint8], at: np.uint64, width: int) -> np.uint64:
    """Assemble `width` little-endian bytes."""
    word = np.uint64(0)
    for byte in range(width):
        word |= np.uint64(data[at + np.uint64(byte)]) << np.uint64(8 * byte)
    return word


@kernel
def _hash_bytes(data: NDArray[np.uint8], offsets: Indices, seeds: Hashes) -> Hashes:
    hashes = np.empty_like(seeds)
    one, four, eight, all_lanes = np.uint64(1), np.uint64(4), np.uint64(8), np.uint64(32)
    for row in range(len(seeds)):
        # Unsigned positions: signed ones may count from the end, and checking that is slower.
        at, end, seed = np.uint64(offsets[row]), np.uint64(offsets[row + 1]), seeds[row]
        length = end - at
        if length >= all_lanes:
            lanes = (seed + _P1 + _P2, seed + _P2, seed, seed - _P1)
            a, b, c, d = lanes
            while at + all_lanes <= end:
                a = _rotate(a + _read_word(data, at, 8) * _P2, 31) * _P1
                b = _rotate(b + _read_word(data, at + eight, 8) * _P2, 31) * _P1
                c = _rotate(c + _read_word(data, at + np.uint64(16), 8) * _P2, 31) * _P1
                d = _rotate(d + _read_word(data, at + np.uint64(24), 8) * _P2, 31) * _P1
                at += all_lanes
            value = _rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)
            for lane in (a, b, c, d):
                value = (value ^ (_rotate(lane * _P2, 31) * _P1)) * _P1 + _P4
        else:
            value = seed + _P5
        value += length
        while at + eight <= end:
            value = _mix_word(value, _read_word(data, at, 8))
            at += eight
        if at + four <= end:
            value = _rotate(value ^ (_read_word(data, at, 4) * _P1), 23) * _P2 + _P3
            at += four
        while at < end:
            value = _rotate(value ^ (np.uint64(data[at]) * _P5), 11) * _P1
            at += one
        hashes[row] = _avalanche(value)
    return hashes


@kernel
def _jump_hash_kernel(hashes: Hashes, workers: int) -> Workers:
    buckets = np.empty(len(hashes), dtype=np.int32)
    for row in range(len(hashes)):
        key = hashes[row]
        bucket = np.int64(-1)
        candidate = np.int64(0)
        while candidate < workers:
            bucket = candidate
            key = key * np.uint64(2862933555777941757) + np.uint64(1)
            scale = 2147483648.0 / np.float64((key >> np.uint64(33)) + np.uint64(1))
            candidate = np.int64(np.float64(bucket + 1) * scale)
        buckets[row] = bucket
    return buckets
