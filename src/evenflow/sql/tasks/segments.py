"""Rows kept between batches: immutable runs ordered by time, merged as in an LSM tree.

The cost of appending, dropping and saving grows with new rows, not with all rows: a batch adds a
run, four runs of one tier are merged into one, and a save returns only new runs. A run is not saved
again when some whole keys move away: the save lists the hashes of the removed keys instead.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model import hash_keys
from evenflow.model.arrays import Bools, Hashes, Indices
from evenflow.model.time import NO_WATERMARK_US

MERGE_FANOUT = 4
SMALLEST_TIER_ROWS = 1024

MergeRows = Callable[[pa.Table], pa.Table]
HashSelector = Callable[[Hashes], Bools]
RowSelector = Callable[[Hashes, pa.Table], Bools]  # of rows, given the hashes of their keys


def _new_segment_name() -> str:
    return uuid4().hex


@dataclass(eq=False)
class SortedRun:
    """Rows ordered by `_t`; those before `first_live` are dropped.

    The windows that end up to `emitted_until_us` have already been emitted by another task.
    `removed_keys` are the hashes of keys whose rows were removed since the segment `name` was
    saved. Rows never change, so `indexes` (see `hash_index`) stay valid.
    """

    rows: pa.Table
    times: Indices
    first_live: int = 0
    emitted_until_us: int = NO_WATERMARK_US
    name: str = field(default_factory=_new_segment_name)
    is_saved: bool = False
    removed_keys: dict[str, Hashes] = field(default_factory=dict)
    indexes: dict[tuple[str, ...], Any] = field(default_factory=dict)

    @classmethod
    def from_rows(cls, rows: pa.Table, emitted_until_us: int = NO_WATERMARK_US) -> "SortedRun":
        """Order rows by time."""
        rows = rows.combine_chunks()
        times = row_times_us(rows)
        if len(times) > 1 and bool((times[1:] < times[:-1]).any()):
            order = np.argsort(times, kind="stable")
            rows, times = rows.take(pa.array(order)), times[order]
        return cls(rows, times, emitted_until_us=emitted_until_us)

    @cached_property
    def _all_distinct_times(self) -> Indices:
        return self.times[np.flatnonzero(np.diff(self.times, prepend=NO_WATERMARK_US - 1))]

    def distinct_times(self) -> Indices:
        """Return the distinct times of its rows, computed once."""
        first = self.times[self.first_live] if len(self) else NO_WATERMARK_US
        return self._all_distinct_times[np.searchsorted(self._all_distinct_times, first) :]

    @property
    def live_rows(self) -> pa.Table:
        """The rows that are not dropped."""
        return self.rows.slice(self.first_live) if self.first_live else self.rows

    def __len__(self) -> int:
        return len(self.times) - self.first_live


# Saved runs that a task of this process holds. A task that was elsewhere for some batches and is
# loaded here again reuses them with their indexes, and reads only new ones.
_cached_runs: WeakValueDictionary[tuple[str, ...], SortedRun] = WeakValueDictionary()


class SegmentStore:
    """Runs of rows of one schema with `_t` in microseconds, split over workers by `key_columns`."""

    def __init__(
        self, key_columns: tuple[str, ...] | None, merge_rows: MergeRows | None = None
    ) -> None:
        self.key_columns = key_columns
        self.runs: list[SortedRun] = []
        self._merge_rows = merge_rows
        self._saved_removals: set[str] = set()  # names of removed keys that were saved

    def __len__(self) -> int:
        return sum(len(run) for run in self.runs)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return sum(run.live_rows.nbytes for run in self.runs)

    def keys(self) -> Hashes:
        """Return the hashes of the keys of all rows."""
        hashes = [self.key_hashes(run.live_rows) for run in self.runs]
        return np.unique(np.concatenate([np.zeros(0, dtype=np.uint64), *hashes]))

    def append(self, rows: pa.Table, emitted_until_us: int = NO_WATERMARK_US) -> SortedRun | None:
        """Add rows as a new run."""
        if len(rows) == 0:
            return None
        run = SortedRun.from_rows(rows, emitted_until_us)
        self.runs.append(run)
        return run

    def drop_before(self, before_us: int) -> None:
        """Drop rows with an earlier time."""
        for run in self.runs:
            run.first_live = max(run.first_live, int(np.searchsorted(run.times, before_us)))
        self.runs = [run for run in self.runs if len(run)]

    def compact(self) -> list[tuple[list[SortedRun], SortedRun]]:
        """Merge the last runs while they are of one tier.

        Return the runs that were merged by concatenation, and the merged run.
        """
        concatenated = []
        while len(self.runs) >= MERGE_FANOUT:
            last = self.runs[-MERGE_FANOUT:]
            if len({_tier(run) for run in last}) > 1:
                break
            rows = pa.concat_tables([run.live_rows for run in last])
            run = SortedRun.from_rows(self._merge_rows(rows) if self._merge_rows else rows)
            self.runs[-MERGE_FANOUT:] = [run]
            in_order = all(a.times[-1] <= b.times[b.first_live] for a, b in pairwise(last))
            if in_order and self._merge_rows is None:
                concatenated.append((last, run))
        return concatenated

    def rows_between(self, low_us: int, high_us: int) -> Iterator[tuple[SortedRun, pa.Table]]:
        """Yield the rows with a time in [low_us, high_us), run by run."""
        for run in self.runs:
            first = max(run.first_live, int(np.searchsorted(run.times, low_us)))
            last = int(np.searchsorted(run.times, high_us))
            if last > first:
                yield run, run.rows.slice(first, last - first)

    def distinct_times(self) -> Indices:
        """Return the distinct times of all rows."""
        if not self.runs:
            return np.zeros(0, dtype=np.int64)
        return np.unique(np.concatenate([run.distinct_times() for run in self.runs]))

    def release(self, select: HashSelector | None) -> list[pa.Table]:
        """Remove and return the rows whose key's hash is selected, or all."""
        if select is None:
            removed, self.runs = [run.live_rows for run in self.runs], []
            return removed
        return self._release_rows(lambda keys, _: select(keys))

    def _release_rows(self, select: RowSelector) -> list[pa.Table]:
        removed: list[pa.Table] = []
        remaining = []
        for run in self.runs:
            hashes = self.key_hashes(run.live_rows)
            selected = select(hashes, run.live_rows)
            rest = _split_run(run, selected, removed)
            if rest is not run and rest is not None and run.is_saved and len(rest) * 2 > len(run):
                moved = np.unique(hashes[selected])
                if not np.isin(moved, hashes[~selected]).any():  # whole keys
                    rest.name, rest.is_saved = run.name, True
                    rest.removed_keys = {**run.removed_keys, _new_segment_name(): moved}
            remaining.append(rest)
        self.runs = [run for run in remaining if run is not None]
        return removed

    def keep_rows(self, select: RowSelector) -> None:
        """Keep only the selected rows."""
        self._release_rows(lambda keys, rows: ~select(keys, rows))

    def copy_rows(self, select: RowSelector) -> list[pa.Table]:
        """Return the selected rows; they stay."""
        copies = []
        for run in self.runs:
            selected = select(self.key_hashes(run.live_rows), run.live_rows)
            if selected.any():
                copies.append(run.live_rows.filter(pa.array(selected)))
        return copies

    def remove_rows(self, select: Callable[[pa.Table], Bools]) -> list[pa.Table]:
        """Remove and return the selected rows."""
        removed: list[pa.Table] = []
        remaining = [_split_run(run, select(run.live_rows), removed) for run in self.runs]
        self.runs = [run for run in remaining if run is not None]
        return removed

    def key_hashes(self, rows: pa.Table) -> Hashes:
        """Hash the keys of rows."""
        if not self.key_columns:
            raise ValueError("the query has no key; move its state with release_all")
        return hash_keys(*(rows.column(name) for name in self.key_columns))

    def save(self) -> tuple[list[dict[str, object]], dict[str, pa.Table]]:
        """Return the entries of all runs for a manifest, and the segments that are new."""
        segments: dict[str, pa.Table] = {}
        entries: list[dict[str, object]] = []
        for run in self.runs:
            if not run.is_saved:
                segments[run.name] = run.live_rows
                run.is_saved = True
            for name, hashes in run.removed_keys.items():
                if name not in self._saved_removals:
                    segments[name] = pa.table({"hash": hashes})
            self._saved_removals |= set(run.removed_keys)
            entries.append(
                {
                    "name": run.name,
                    "from_us": int(run.times[run.first_live]),
                    "emitted_until_us": run.emitted_until_us,
                    "removed_keys": list(run.removed_keys),
                }
            )
            _cached_runs[run.name, *run.removed_keys] = run
        self._saved_removals &= {name for run in self.runs for name in run.removed_keys}
        return entries, segments

    def load(self, entries: Iterable[Mapping[str, Any]], read: Callable[[str], pa.Table]) -> None:
        """Load the runs of a manifest."""
        for entry in entries:
            name, removals = entry["name"], entry["removed_keys"]
            cached = _cached_runs.get((name, *removals))
            run = self._read_run(name, removals, read) if cached is None else copy(cached)
            run.first_live = int(np.searchsorted(run.times, entry["from_us"]))
            run.emitted_until_us = entry["emitted_until_us"]
            _cached_runs[run.name, *run.removed_keys] = run
            self.runs.append(run)
            self._saved_removals |= set(run.removed_keys)

    def _read_run(
        self, name: str, removals: list[str], read: Callable[[str], pa.Table]
    ) -> SortedRun:
        rows = read(name).combine_chunks()
        removed = {part: read(part).column("hash").to_numpy() for part in removals}
        if removed:
            is_removed = np.isin(self.key_hashes(rows), np.concatenate(list(removed.values())))
            rows = rows.filter(pa.array(~is_removed))
        return SortedRun(rows, row_times_us(rows), name=name, is_saved=True, removed_keys=removed)


def _split_run(run: SortedRun, selected: Bools, removed: list[pa.Table]) -> SortedRun | None:
    """Move the selected rows of a run to `removed`; return the run of the remaining rows."""
    if not selected.any():
        return run
    removed.append(run.live_rows.filter(pa.array(selected)))
    if selected.all():
        return None
    return SortedRun.from_rows(run.live_rows.filter(pa.array(~selected)), run.emitted_until_us)


def row_times_us(rows: pa.Table) -> Indices:
    """Return the times of rows."""
    if len(rows) == 0:
        return np.zeros(0, dtype=np.int64)
    times: Indices = pc.cast(rows.column("_t"), pa.int64()).to_numpy()
    return times


def _tier(run: SortedRun) -> int:
    tier, size = 0, SMALLEST_TIER_ROWS
    while len(run) > size:
        tier, size = tier + 1, size * MERGE_FANOUT
    return tier
