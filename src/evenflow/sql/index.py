"""Find the kept rows that can match new ones: a sorted index of 64-bit hashes and times.

For a run of rows ordered by time, the index is the rows' positions ordered by (hash, time). New
rows ask for (hash, time from, time to); askers of one hash with overlapping spans are answered
together, so each kept row is fetched at most once.
"""

import numpy as np
import pyarrow as pa

from evenflow.jit import kernel
from evenflow.model import hash_keys
from evenflow.model.arrays import Hashes, Indices
from evenflow.sql.store import Run


class Index:
    """An index over the runs of a store by some of its columns."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns
        self._runs: dict[int, tuple[Run, tuple[Hashes, Indices, Indices]]] = {}

    def fetch(self, runs: list[Run], hashes: Hashes, low: Indices, high: Indices) -> list[pa.Table]:
        """Fetch the rows of the runs that the askers want."""
        asked = merge_spans(hashes, low, high)
        found = []
        for run in runs:
            ordered, times, positions = self._of(run)
            hit = _find(ordered, times, *asked)
            if len(hit):
                found.append(run.rows.take(pa.array(positions[hit])))
        return found

    def merge(self, parts: list[Run], merged: Run) -> None:
        """Make the index of a run that is others one after the other out of theirs."""
        if any(id(run) not in self._runs for run in parts):
            return
        hashes, positions, offset = [], [], 0
        for run in parts:
            ordered, _, places = self._runs[id(run)][1]
            if run.start:
                live = places >= run.start
                ordered, places = ordered[live], places[live]
            hashes.append(ordered)
            positions.append(places + (offset - run.start))
            offset += len(run)
        together, places = np.concatenate(hashes), np.concatenate(positions)
        order = np.argsort(together, kind="stable")  # which only merges what is in order already
        places = places[order]
        self._runs[id(merged)] = (merged, (together[order], merged.times[places], places))

    def keep_only(self, runs: list[Run]) -> None:
        """Forget the index of runs that are gone."""
        self._runs = {id(run): self._runs[id(run)] for run in runs if id(run) in self._runs}

    def _of(self, run: Run) -> tuple[Hashes, Indices, Indices]:
        _, entry = self._runs.get(id(run), (run, None))
        if entry is None:
            hashes = hash_keys(*(run.rows.column(name) for name in self.columns))
            # Rows are in order of time already, so a stable sort orders by (hash, time).
            positions = np.argsort(hashes, kind="stable")
            entry = (hashes[positions], run.times[positions], positions)
            self._runs[id(run)] = (run, entry)  # the run is held, so its id stays its own
        return entry


def merge_spans(hashes: Hashes, low: Indices, high: Indices) -> tuple[Hashes, Indices, Indices]:
    """Join overlapping spans of equal hashes."""
    order = np.lexsort((low, hashes))
    return _merge(hashes[order], low[order], high[order])


@kernel
def _merge(hashes: Hashes, low: Indices, high: Indices) -> tuple[Hashes, Indices, Indices]:
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
def _seek(hashes: Hashes, times: Indices, key: np.uint64, time: np.int64, first: int) -> int:
    """Return the first place from `first` on whose (hash, time) is not below the wanted.

    Askers come in order, so the place is near: gallop to it, then halve.
    """
    last, stride = first, 1
    while last < len(hashes) and (
        hashes[last] < key or (hashes[last] == key and times[last] < time)
    ):
        first, last, stride = last + 1, last + stride, stride * 2
    last = min(last, len(hashes))
    while first < last:
        middle = (first + last) // 2
        if hashes[middle] < key or (hashes[middle] == key and times[middle] < time):
            first = middle + 1
        else:
            last = middle
    return first


@kernel
def _find(hashes: Hashes, times: Indices, keys: Hashes, lows: Indices, highs: Indices) -> Indices:
    """List the places in the index that the spans cover."""
    begins = np.empty(len(keys), dtype=np.int64)
    ends = np.empty(len(keys), dtype=np.int64)
    total, at = 0, 0
    for row in range(len(keys)):
        at = _seek(hashes, times, keys[row], lows[row], at)
        begins[row] = at
        if at < len(hashes) and hashes[at] == keys[row]:
            at = _seek(hashes, times, keys[row], highs[row] + 1, at)
        ends[row] = at
        total += ends[row] - begins[row]
    found = np.empty(total, dtype=np.int64)
    at = 0
    for row in range(len(keys)):
        for place in range(begins[row], ends[row]):
            found[at] = place
            at += 1
    return found


def find_plain(hashes: Hashes, times: Indices, wanted: list[tuple[int, int, int]]) -> list[int]:
    """List the same places in plain Python: the kernels' oracle."""
    return [
        place
        for place, (key, time) in enumerate(zip(hashes.tolist(), times.tolist(), strict=True))
        if any(key == k and low <= time <= high for k, low, high in wanted)
    ]
