"""Find the buffered rows that can match new ones: a sorted index of 64-bit hashes and times.

The index of a run has the positions of its rows, ordered by (hash, time). Each new row is a request
(hash, earliest time, latest time). Overlapping requests for one hash are merged, so each buffered
row is fetched at most once. Hashes are uniform, so a directory of their first bits leads to within
a few entries of a hash.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.jit import kernel
from evenflow.model import hash_keys
from evenflow.model.arrays import Hashes, Indices
from evenflow.sql.tasks.segments import SortedRun

_INSERTION_SORT_MAX = 32


@dataclass(frozen=True, slots=True)
class RunIndex:
    """The index of one run: sorted hashes, the times and positions of their rows, the directory.

    Hashes that start with the bits b are at `directory[b]` to `directory[b + 1]`.
    """

    hashes: Hashes
    times: Indices
    positions: Indices
    directory: Indices
    shift: np.uint64

    @classmethod
    def build(cls, run: SortedRun, hashes: Hashes, positions: Indices | None = None) -> "RunIndex":
        """Build the index of all rows of a run, or of those at some positions, ordered by time."""
        bits = directory_bits(len(hashes))
        # The sort is stable, so the result is ordered by (hash, time).
        ordered, order, directory = sort_hashes(hashes, bits)
        positions = order if positions is None else positions[order]
        return cls(ordered, run.times[positions], positions, directory, np.uint64(64 - bits))

    def find(self, keys: Hashes, low: Indices, high: Indices) -> Indices:
        """Return the entries that match requests, which are sorted by hash."""
        return find_entries(self.hashes, self.times, self.directory, self.shift, keys, low, high)

    def count(self, keys: Hashes, start: int) -> Indices:
        """Count the rows of each key at the position `start` or after it."""
        return count_rows(self.hashes, self.positions, self.directory, self.shift, keys, start)


class HashIndex:
    """An index of a store by some of its columns; each run holds its part in `indexes`."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns

    def fetch(
        self, runs: list[SortedRun], hashes: Hashes, low: Indices, high: Indices
    ) -> list[pa.Table]:
        """Return the rows of the runs with one of the hashes and a time in its [low, high]."""
        requests = merge_spans(hashes, low, high)
        tables = []
        for run in runs:
            index = self.run_index(run)
            entries = index.find(*requests)
            if len(entries):
                tables.append(run.rows.take(pa.array(index.positions[entries])))
        return tables

    def merge_run_indexes(self, parts: list[SortedRun], merged: SortedRun) -> None:
        """Build the index of concatenated runs from their indexes, if all have one."""
        if any(self.columns not in run.indexes for run in parts):
            return
        hashes, positions, offset = [], [], 0
        for run in parts:
            index: RunIndex = run.indexes[self.columns]
            run_hashes, run_positions = index.hashes, index.positions
            if run.first_live:
                live = run_positions >= run.first_live
                run_hashes, run_positions = run_hashes[live], run_positions[live]
            hashes.append(run_hashes)
            positions.append(run_positions + (offset - run.first_live))
            offset += len(run)
        merged.indexes[self.columns] = RunIndex.build(
            merged, np.concatenate(hashes), np.concatenate(positions)
        )

    def run_index(self, run: SortedRun) -> RunIndex:
        """Return the index of one run, built on first use."""
        if self.columns not in run.indexes:
            hashes = hash_keys(*(run.rows.column(name) for name in self.columns))
            run.indexes[self.columns] = RunIndex.build(run, hashes)
        index: RunIndex = run.indexes[self.columns]
        return index


def merge_spans(hashes: Hashes, low: Indices, high: Indices) -> tuple[Hashes, Indices, Indices]:
    """Merge overlapping spans of equal hashes."""
    if len(low) and (low[1:] < low[:-1]).any():
        order = np.argsort(low, kind="stable")
        hashes, low, high = hashes[order], low[order], high[order]
    ordered, positions, _ = sort_hashes(hashes, directory_bits(len(hashes)))
    return _merge_sorted_spans(ordered, low[positions], high[positions])


@kernel
def sort_hashes(hashes: Hashes, bits: int) -> tuple[Hashes, Indices, Indices]:
    """Return the sorted hashes, the position each had, and the directory; the sort is stable.

    Hashes that start with the bits b are at `directory[b]` to `directory[b + 1]`. Such a bucket is
    small, as hashes are uniform, unless a key has many rows: then it is sorted by merging.
    """
    shift, number = np.uint64(64 - bits), 1 << bits
    directory = np.zeros(number + 1, dtype=np.int64)
    for row in range(len(hashes)):
        directory[(hashes[row] >> shift) + np.uint64(1)] += 1
    for bucket in range(number):
        directory[bucket + 1] += directory[bucket]
    ordered = np.empty_like(hashes)
    places = np.empty(len(hashes), dtype=np.int64)
    free = directory[:-1].copy()
    for row in range(len(hashes)):
        bucket = hashes[row] >> shift
        ordered[free[bucket]], places[free[bucket]] = hashes[row], row
        free[bucket] += 1
    for bucket in range(number):
        first, last = directory[bucket], directory[bucket + 1]
        if last - first > _INSERTION_SORT_MAX:
            if (ordered[first + 1 : last] >= ordered[first : last - 1]).all():
                continue  # usually it is one key
            order = np.argsort(ordered[first:last], kind="mergesort")
            ordered[first:last] = ordered[first:last][order]
            places[first:last] = places[first:last][order]
            continue
        for row in range(first + 1, last):
            value, place, to = ordered[row], places[row], row
            while to > first and ordered[to - 1] > value:
                ordered[to], places[to] = ordered[to - 1], places[to - 1]
                to -= 1
            ordered[to], places[to] = value, place
    return ordered, places, directory


def sort_hashes_plain(hashes: Hashes, bits: int) -> tuple[Hashes, Indices, Indices]:
    """Return the same by NumPy's sort; tests compare the kernel with it."""
    places = np.argsort(hashes, kind="stable")
    firsts = (hashes >> np.uint64(64 - bits)).astype(np.int64)
    counts = np.bincount(firsts, minlength=1 << bits)
    return hashes[places], places, np.concatenate([[0], np.cumsum(counts)])


def directory_bits(number: int) -> int:
    """Return the number of bits for a small directory with a few hashes per bucket."""
    return min(max(number.bit_length() - 3, 1), 18)


@kernel
def _merge_sorted_spans(
    hashes: Hashes, low: Indices, high: Indices
) -> tuple[Hashes, Indices, Indices]:
    keys, lows, highs = np.empty_like(hashes), np.empty_like(low), np.empty_like(high)
    count = 0
    for row in range(len(hashes)):
        same = count > 0 and keys[count - 1] == hashes[row]
        if same and low[row] <= highs[count - 1]:
            highs[count - 1] = max(highs[count - 1], high[row])
        else:
            keys[count], lows[count], highs[count] = hashes[row], low[row], high[row]
            count += 1
    return keys[:count], lows[:count], highs[:count]


@kernel
def _first_at_least(values: Any, first: int, last: int, wanted: Any) -> int:
    """Return the first index in [first, last) whose value is at least the wanted one."""
    while first < last:
        middle = (first + last) // 2
        if values[middle] < wanted:
            first = middle + 1
        else:
            last = middle
    return first


@kernel
def _end_of_equal_hashes(hashes: Hashes, at: int, last: int) -> int:
    """Return the end of the hashes equal to the one at an index, at most `last`."""
    end, stride = at, 1
    while end < last and hashes[end] == hashes[at]:  # gallop: a hot key has many rows
        end, stride = end + stride, stride * 2
    begin, end = at, min(end, last)
    while begin < end:
        middle = (begin + end) // 2
        if hashes[middle] == hashes[at]:
            begin = middle + 1
        else:
            end = middle
    return end


@kernel
def _equal_hashes(
    hashes: Hashes, directory: Indices, shift: np.uint64, key: np.uint64
) -> tuple[int, int]:
    """Return the first and the end of the entries of a key."""
    last = directory[(key >> shift) + np.uint64(1)]
    first = _first_at_least(hashes, directory[key >> shift], last, key)
    if first == last or hashes[first] != key:
        return first, first
    return first, _end_of_equal_hashes(hashes, first, last)


@kernel
def count_rows(
    hashes: Hashes,
    positions: Indices,
    directory: Indices,
    shift: np.uint64,
    keys: Hashes,
    start: int,
) -> Indices:
    """Count the positions of each key from `start` on; positions of one key ascend."""
    counts = np.zeros(len(keys), dtype=np.int64)
    for row in range(len(keys)):
        first, end = _equal_hashes(hashes, directory, shift, keys[row])
        if first < end and positions[first] < start:
            first = _first_at_least(positions, first, end, start)
        counts[row] = end - first
    return counts


@kernel
def find_entries(
    hashes: Hashes,
    times: Indices,
    directory: Indices,
    shift: np.uint64,
    keys: Hashes,
    lows: Indices,
    highs: Indices,
) -> Indices:
    """Return the entries of the index that the spans cover."""
    begins = np.empty(len(keys), dtype=np.int64)
    ends = np.empty(len(keys), dtype=np.int64)
    total = 0
    for row in range(len(keys)):
        first, end = _equal_hashes(hashes, directory, shift, keys[row])
        begins[row] = _first_at_least(times, first, end, lows[row])
        ends[row] = _first_at_least(times, begins[row], end, highs[row] + 1)
        total += ends[row] - begins[row]
    entries = np.empty(total, dtype=np.int64)
    at = 0
    for row in range(len(keys)):
        for entry in range(begins[row], ends[row]):
            entries[at] = entry
            at += 1
    return entries


def find_entries_plain(
    hashes: Hashes, times: Indices, requests: list[tuple[int, int, int]]
) -> list[int]:
    """Return the same entries in plain Python; tests compare the kernel with it."""
    return [
        entry
        for entry, (key, time) in enumerate(zip(hashes.tolist(), times.tolist(), strict=True))
        if any(key == k and low <= time <= high for k, low, high in requests)
    ]
