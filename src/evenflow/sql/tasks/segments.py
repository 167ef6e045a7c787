"""Rows kept between batches: immutable runs ordered by time, merged now and then as in an LSM tree.

Appending, forgetting and saving cost what is new, not what is kept: a batch adds a run, runs of one
tier are merged four at a time, and a save hands out only runs that no save has handed out before.
Keys that leave do not make their runs be written again: a save names the hashes that are gone.
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

MERGE_FANOUT = 4
SMALLEST_TIER_ROWS = 1024
BEFORE_ALL_TIME_US = -(1 << 62)

MergeRows = Callable[[pa.Table], pa.Table]
HashSelector = Callable[[Hashes], Bools]


def _new_segment_name() -> str:
    return uuid4().hex


@dataclass(eq=False)
class SortedRun:
    """Rows ordered by `_t`; those before `first_live` are forgotten.

    `emitted_until_us` is the watermark up to which another task has already answered for these rows. `name`
    is that of the saved segment; `removed_keys` are hashes of keys whose rows have left since it was saved.
    Rows do not change, so what is known of them (`indexes`, see `index`) stays true.
    """

    rows: pa.Table
    times: Indices
    first_live: int = 0
    emitted_until_us: int = BEFORE_ALL_TIME_US
    name: str = field(default_factory=_new_segment_name)
    is_saved: bool = False
    removed_keys: dict[str, Hashes] = field(default_factory=dict)
    indexes: dict[tuple[str, ...], Any] = field(default_factory=dict)

    @classmethod
    def from_rows(cls, rows: pa.Table, floor_us: int = BEFORE_ALL_TIME_US) -> "SortedRun":
        """Order rows by time."""
        rows = rows.combine_chunks()
        times = row_times_us(rows)
        if len(times) > 1 and bool((times[1:] < times[:-1]).any()):
            order = np.argsort(times, kind="stable")
            rows, times = rows.take(pa.array(order)), times[order]
        return cls(rows, times, emitted_until_us=floor_us)

    @cached_property
    def _all_distinct_times(self) -> Indices:
        return self.times[np.flatnonzero(np.diff(self.times, prepend=BEFORE_ALL_TIME_US - 1))]

    def distinct_times(self) -> Indices:
        """The different times of its rows, found once."""
        first = self.times[self.first_live] if len(self) else BEFORE_ALL_TIME_US
        return self._all_distinct_times[np.searchsorted(self._all_distinct_times, first) :]

    @property
    def live_rows(self) -> pa.Table:
        """The rows that are not forgotten."""
        return self.rows.slice(self.first_live) if self.first_live else self.rows

    def __len__(self) -> int:
        return len(self.times) - self.first_live


# Saved runs that a task of this process holds. A task that was away for some batches, and is now
# rebuilt here, finds most of its runs with their indexes and reads only the new ones.
_cached_runs: WeakValueDictionary[tuple[str, ...], SortedRun] = WeakValueDictionary()


class SegmentStore:
    """Runs of rows of one schema with `_t` in microseconds; `key_columns`: the columns it is split by."""

    def __init__(self, key: tuple[str, ...] | None, combine: MergeRows | None = None) -> None:
        self.key_columns = key
        self.runs: list[SortedRun] = []
        self._merge_rows = combine
        self._saved_removals: set[str] = set()  # names of `gone` that a save has handed out

    def __len__(self) -> int:
        return sum(len(run) for run in self.runs)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows kept."""
        return sum(run.live_rows.nbytes for run in self.runs)

    def key_bytes(self) -> tuple[Hashes, Indices]:
        """Return the hash of each key kept and the bytes of its rows, taken as equally long."""
        found = [(np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64))]
        for run in self.runs:
            hashes, rows = np.unique(self._key_hashes(run.live_rows), return_counts=True)
            found.append((hashes, rows * run.live_rows.nbytes // len(run)))
        hashes, sizes = (np.concatenate(columns) for columns in zip(*found, strict=True))
        return hashes, sizes

    def append(self, rows: pa.Table, floor_us: int = BEFORE_ALL_TIME_US) -> SortedRun | None:
        """Add rows as a new run."""
        if len(rows) == 0:
            return None
        run = SortedRun.from_rows(rows, floor_us)
        self.runs.append(run)
        return run

    def drop_before(self, before_us: int) -> None:
        """Forget rows with a time below the bound."""
        for run in self.runs:
            run.first_live = max(run.first_live, int(np.searchsorted(run.times, before_us)))
        self.runs = [run for run in self.runs if len(run)]

    def compact(self) -> list[tuple[list[SortedRun], SortedRun]]:
        """Merge runs while the last few are of one tier.

        Return those that became one by being put one after the other, and what they became.
        """
        joined = []
        while len(self.runs) >= MERGE_FANOUT:
            last = self.runs[-MERGE_FANOUT:]
            if len({_tier(run) for run in last}) > 1:
                break
            rows = pa.concat_tables([run.live_rows for run in last])
            run = SortedRun.from_rows(self._merge_rows(rows) if self._merge_rows else rows)
            self.runs[-MERGE_FANOUT:] = [run]
            in_order = all(a.times[-1] <= b.times[b.first_live] for a, b in pairwise(last))
            if in_order and self._merge_rows is None:
                joined.append((last, run))
        return joined

    def rows_between(self, low_us: int, high_us: int) -> Iterator[tuple[SortedRun, pa.Table]]:
        """Give the rows with a time in [low, high), run by run."""
        for run in self.runs:
            first = max(run.first_live, int(np.searchsorted(run.times, low_us)))
            last = int(np.searchsorted(run.times, high_us))
            if last > first:
                yield run, run.rows.slice(first, last - first)

    def distinct_times(self) -> Indices:
        """Give the distinct times of all rows kept."""
        if not self.runs:
            return np.zeros(0, dtype=np.int64)
        return np.unique(np.concatenate([run.distinct_times() for run in self.runs]))

    def release(self, select: HashSelector | None) -> list[pa.Table]:
        """Take out the rows whose key's hash is selected, or all."""
        if select is None:
            return self.remove_rows(lambda rows: np.ones(len(rows), dtype=np.bool_))
        taken: list[pa.Table] = []
        kept: list[SortedRun | None] = []
        for run in self.runs:
            hashes = self._key_hashes(run.live_rows)
            chosen = select(hashes)
            rest = self._split_run(run, chosen, taken)
            if rest is not run and rest is not None and run.is_saved and len(rest) * 2 > len(run):
                rest.name, rest.is_saved = run.name, True
                rest.removed_keys = {
                    **run.removed_keys,
                    _new_segment_name(): np.unique(hashes[chosen]),
                }
            kept.append(rest)
        self.runs = [run for run in kept if run is not None]
        return taken

    def remove_rows(self, chosen_of: Callable[[pa.Table], Bools]) -> list[pa.Table]:
        """Take out the rows that are chosen."""
        taken: list[pa.Table] = []
        kept = [self._split_run(run, chosen_of(run.live_rows), taken) for run in self.runs]
        self.runs = [run for run in kept if run is not None]
        return taken

    def _split_run(self, run: SortedRun, chosen: Bools, taken: list[pa.Table]) -> SortedRun | None:
        if not chosen.any():
            return run
        taken.append(run.live_rows.filter(pa.array(chosen)))
        if chosen.all():
            return None
        return SortedRun.from_rows(run.live_rows.filter(pa.array(~chosen)), run.emitted_until_us)

    def _key_hashes(self, rows: pa.Table) -> Hashes:
        if not self.key_columns:
            raise ValueError("the query is not split by a key: release_all moves its state")
        return hash_keys(*(rows.column(name) for name in self.key_columns))

    def save(self) -> tuple[list[dict[str, object]], dict[str, pa.Table]]:
        """Name all runs, and hand out what was not handed out before."""
        fresh: dict[str, pa.Table] = {}
        named: list[dict[str, object]] = []
        for run in self.runs:
            if not run.is_saved:
                fresh[run.name] = run.live_rows
                run.is_saved = True
            for name in run.removed_keys:
                if name not in self._saved_removals:
                    fresh[name] = pa.table({"hash": run.removed_keys[name]})
            self._saved_removals |= set(run.removed_keys)
            low = int(run.times[run.first_live])
            entry = {"name": run.name, "from_us": low, "floor_us": run.emitted_until_us}
            named.append({**entry, "gone": list(run.removed_keys)})
            _cached_runs[run.name, *run.removed_keys] = run
        self._saved_removals &= {name for run in self.runs for name in run.removed_keys}
        return named, fresh

    def load(self, named: Iterable[Mapping[str, Any]], read: Callable[[str], pa.Table]) -> None:
        """Rebuild the runs a save named."""
        for entry in named:
            held = _cached_runs.get((entry["name"], *entry["gone"]))
            run = self._read_run(entry["name"], entry["gone"], read) if held is None else copy(held)
            run.first_live = int(np.searchsorted(run.times, entry["from_us"]))
            run.emitted_until_us = entry["floor_us"]
            _cached_runs[run.name, *run.removed_keys] = run
            self.runs.append(run)
            self._saved_removals |= set(run.removed_keys)

    def _read_run(
        self, name: str, leaving: list[str], read: Callable[[str], pa.Table]
    ) -> SortedRun:
        rows = read(name).combine_chunks()
        gone = {part: read(part).column("hash").to_numpy() for part in leaving}
        if gone:
            left = np.isin(self._key_hashes(rows), np.concatenate(list(gone.values())))
            rows = rows.filter(pa.array(~left))
        return SortedRun(rows, row_times_us(rows), name=name, is_saved=True, removed_keys=gone)


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
