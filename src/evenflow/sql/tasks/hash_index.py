"""Find the kept rows that can match new ones: a sorted index of 64-bit hashes and times.

For a run of rows ordered by time, the index is the rows' positions ordered by (hash, time). New
rows ask for (hash, time from, time to); askers of one hash with overlapping spans are answered
together, so each kept row is fetched at most once. Hashes are spread evenly, so a directory of
their first bits leads to within a few places of where a hash must stand.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.jit import kernel
from evenflow.model import hash_keys
from evenflow.model.arrays import Hashes, Indices
from evenflow.sql.ordering import directory_bits, sort_hashes
from evenflow.sql.tasks.segments import SortedRun


@dataclass(frozen=True, slots=True)
class RunIndex:
    """The index of one run: hashes in order, the rows' times and positions, and the directory.

    Hashes that begin with the bits b stand from `directory[b]` to `directory[b + 1]`.
    """

    hashes: Hashes
    times: Indices
    positions: Indices
    directory: Indices
    shift: np.uint64

    @classmethod
    def build(cls, run: SortedRun, hashes: Hashes, positions: Indices | None = None) -> "RunIndex":
        """Make the index of a run's rows, in order of time, or of those at some positions."""
        bits = directory_bits(len(hashes))
        # Equal hashes stay as they stand, so (hash, time) is in order.
        ordered, places, directory = sort_hashes(hashes, bits)
        positions = places if positions is None else positions[places]
        return cls(ordered, run.times[positions], positions, directory, np.uint64(64 - bits))

    def find(self, keys: Hashes, low: Indices, high: Indices) -> Indices:
        """List the places that askers in order of their hashes want."""
        return find_places(self.hashes, self.times, self.directory, self.shift, keys, low, high)

    def count(self, keys: Hashes, start: int) -> Indices:
        """Count the rows of each key, leaving out those before `start`."""
        return count_rows(self.hashes, self.positions, self.directory, self.shift, keys, start)


class HashIndex:
    """An index over the runs of a store by some of its columns; each run carries its part."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns

    def fetch(
        self, runs: list[SortedRun], hashes: Hashes, low: Indices, high: Indices
    ) -> list[pa.Table]:
        """Fetch the rows of the runs that the askers want."""
        asked = merge_spans(hashes, low, high)
        found = []
        for run in runs:
            entry = self.run_index(run)
            hit = entry.find(*asked)
            if len(hit):
                found.append(run.rows.take(pa.array(entry.positions[hit])))
        return found

    def merge_run_indexes(self, parts: list[SortedRun], merged: SortedRun) -> None:
        """Make the index of a run that is others one after the other out of theirs."""
        if any(self.columns not in run.indexes for run in parts):
            return
        hashes, positions, offset = [], [], 0
        for run in parts:
            entry: RunIndex = run.indexes[self.columns]
            ordered, places = entry.hashes, entry.positions
            if run.first_live:
                live = places >= run.first_live
                ordered, places = ordered[live], places[live]
            hashes.append(ordered)
            positions.append(places + (offset - run.first_live))
            offset += len(run)
        together, places = np.concatenate(hashes), np.concatenate(positions)
        merged.indexes[self.columns] = RunIndex.build(merged, together, places)

    def run_index(self, run: SortedRun) -> RunIndex:
        """Return the part of one run, made when it is first asked for."""
        if self.columns not in run.indexes:
            hashes = hash_keys(*(run.rows.column(name) for name in self.columns))
            run.indexes[self.columns] = RunIndex.build(run, hashes)
        entry: RunIndex = run.indexes[self.columns]
        return entry


def merge_spans(hashes: Hashes, low: Indices, high: Indices) -> tuple[Hashes, Indices, Indices]:
    """Join overlapping spans of equal hashes."""
    if len(low) and (low[1:] < low[:-1]).any():
        order = np.argsort(low, kind="stable")
        hashes, low, high = hashes[order], low[order], high[order]
    ordered, places, _ = sort_hashes(hashes, directory_bits(len(hashes)))
    return _merge_sorted_spans(ordered, low[places], high[places])


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
    """Return the first place of an ordered span whose value is not below the wanted."""
    while first < last:
        middle = (first + last) // 2
        if values[middle] < wanted:
            first = middle + 1
        else:
            last = middle
    return first


@kernel
def _end_of_equal_hashes(hashes: Hashes, at: int, last: int) -> int:
    """Return where the equal hashes that begin at a place end, if they do before the last."""
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
def count_rows(
    hashes: Hashes,
    positions: Indices,
    directory: Indices,
    shift: np.uint64,
    keys: Hashes,
    start: int,
) -> Indices:
    """Count the positions from `start` on of each key; those of one key ascend."""
    found = np.zeros(len(keys), dtype=np.int64)
    for row in range(len(keys)):
        key = keys[row]
        last = directory[(key >> shift) + np.uint64(1)]
        at = _first_at_least(hashes, directory[key >> shift], last, key)
        if at < last and hashes[at] == key:
            end = _end_of_equal_hashes(hashes, at, last)
            found[row] = end - (
                at if positions[at] >= start else _first_at_least(positions, at, end, start)
            )
    return found


@kernel
def find_places(
    hashes: Hashes,
    times: Indices,
    directory: Indices,
    shift: np.uint64,
    keys: Hashes,
    lows: Indices,
    highs: Indices,
) -> Indices:
    """List the places in the index that the spans cover."""
    begins = np.empty(len(keys), dtype=np.int64)
    ends = np.empty(len(keys), dtype=np.int64)
    total = 0
    for row in range(len(keys)):
        key = keys[row]
        last = directory[(key >> shift) + np.uint64(1)]
        at = _first_at_least(hashes, directory[key >> shift], last, key)
        end = _end_of_equal_hashes(hashes, at, last) if at < last and hashes[at] == key else at
        begins[row] = _first_at_least(times, at, end, lows[row])
        ends[row] = _first_at_least(times, begins[row], end, highs[row] + 1)
        total += ends[row] - begins[row]
    found = np.empty(total, dtype=np.int64)
    at = 0
    for row in range(len(keys)):
        for place in range(begins[row], ends[row]):
            found[at] = place
            at += 1
    return found


def find_places_plain(
    hashes: Hashes, times: Indices, wanted: list[tuple[int, int, int]]
) -> list[int]:
    """List the same places in plain Python: the kernels' oracle."""
    return [
        place
        for place, (key, time) in enumerate(zip(hashes.tolist(), times.tolist(), strict=True))
        if any(key == k and low <= time <= high for k, low, high in wanted)
    ]
