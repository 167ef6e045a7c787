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

FAN = 4
SMALLEST = 1024
NEVER = -(1 << 62)

Combine = Callable[[pa.Table], pa.Table]
Select = Callable[[Hashes], Bools]


def _new_name() -> str:
    return uuid4().hex


@dataclass(eq=False)
class Run:
    """Rows ordered by `_t`; those before `start` are forgotten.

    `floor_us` is the watermark up to which another task has already answered for these rows. `name`
    is that of the saved segment; `gone` are hashes of keys whose rows have left since it was saved.
    Rows do not change, so what is known of them (`indexes`, see `index`) stays true.
    """

    rows: pa.Table
    times: Indices
    start: int = 0
    floor_us: int = NEVER
    name: str = field(default_factory=_new_name)
    saved: bool = False
    gone: dict[str, Hashes] = field(default_factory=dict)
    indexes: dict[tuple[str, ...], Any] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: pa.Table, floor_us: int = NEVER) -> "Run":
        """Order rows by time."""
        rows = rows.combine_chunks()
        times = column_times(rows)
        if len(times) > 1 and bool((times[1:] < times[:-1]).any()):
            order = np.argsort(times, kind="stable")
            rows, times = rows.take(pa.array(order)), times[order]
        return cls(rows, times, floor_us=floor_us)

    @cached_property
    def _distinct(self) -> Indices:
        return self.times[np.flatnonzero(np.diff(self.times, prepend=NEVER - 1))]

    def distinct(self) -> Indices:
        """The different times of its rows, found once."""
        first = self.times[self.start] if len(self) else NEVER
        return self._distinct[np.searchsorted(self._distinct, first) :]

    @property
    def live(self) -> pa.Table:
        """The rows that are not forgotten."""
        return self.rows.slice(self.start) if self.start else self.rows

    def __len__(self) -> int:
        return len(self.times) - self.start


# Saved runs that a task of this process holds. A task that was away for some batches, and is now
# rebuilt here, finds most of its runs with their indexes and reads only the new ones.
_held: WeakValueDictionary[tuple[str, ...], Run] = WeakValueDictionary()


class Store:
    """Runs of rows of one schema with `_t` in microseconds; `key`: the columns it is split by."""

    def __init__(self, key: tuple[str, ...] | None, combine: Combine | None = None) -> None:
        self.key = key
        self.runs: list[Run] = []
        self._combine = combine
        self._written: set[str] = set()  # names of `gone` that a save has handed out

    def __len__(self) -> int:
        return sum(len(run) for run in self.runs)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows kept."""
        return sum(run.live.nbytes for run in self.runs)

    def key_bytes(self) -> tuple[Hashes, Indices]:
        """Return the hash of each key kept and the bytes of its rows, taken as equally long."""
        found = [(np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64))]
        for run in self.runs:
            hashes, rows = np.unique(self._hashes(run.live), return_counts=True)
            found.append((hashes, rows * run.live.nbytes // len(run)))
        hashes, sizes = (np.concatenate(columns) for columns in zip(*found, strict=True))
        return hashes, sizes

    def append(self, rows: pa.Table, floor_us: int = NEVER) -> Run | None:
        """Add rows as a new run."""
        if len(rows) == 0:
            return None
        run = Run.of(rows, floor_us)
        self.runs.append(run)
        return run

    def forget(self, before_us: int) -> None:
        """Forget rows with a time below the bound."""
        for run in self.runs:
            run.start = max(run.start, int(np.searchsorted(run.times, before_us)))
        self.runs = [run for run in self.runs if len(run)]

    def compact(self) -> list[tuple[list[Run], Run]]:
        """Merge runs while the last few are of one tier.

        Return those that became one by being put one after the other, and what they became.
        """
        joined = []
        while len(self.runs) >= FAN:
            last = self.runs[-FAN:]
            if len({_tier(run) for run in last}) > 1:
                break
            rows = pa.concat_tables([run.live for run in last])
            run = Run.of(self._combine(rows) if self._combine else rows)
            self.runs[-FAN:] = [run]
            in_order = all(a.times[-1] <= b.times[b.start] for a, b in pairwise(last))
            if in_order and self._combine is None:
                joined.append((last, run))
        return joined

    def between(self, low_us: int, high_us: int) -> Iterator[tuple[Run, pa.Table]]:
        """Give the rows with a time in [low, high), run by run."""
        for run in self.runs:
            first = max(run.start, int(np.searchsorted(run.times, low_us)))
            last = int(np.searchsorted(run.times, high_us))
            if last > first:
                yield run, run.rows.slice(first, last - first)

    def times(self) -> Indices:
        """Give the distinct times of all rows kept."""
        if not self.runs:
            return np.zeros(0, dtype=np.int64)
        return np.unique(np.concatenate([run.distinct() for run in self.runs]))

    def release(self, select: Select | None) -> list[pa.Table]:
        """Take out the rows whose key's hash is selected, or all."""
        if select is None:
            return self.take_out(lambda rows: np.ones(len(rows), dtype=np.bool_))
        taken: list[pa.Table] = []
        kept: list[Run | None] = []
        for run in self.runs:
            hashes = self._hashes(run.live)
            chosen = select(hashes)
            rest = self._part(run, chosen, taken)
            if rest is not run and rest is not None and run.saved and len(rest) * 2 > len(run):
                rest.name, rest.saved = run.name, True
                rest.gone = {**run.gone, _new_name(): np.unique(hashes[chosen])}
            kept.append(rest)
        self.runs = [run for run in kept if run is not None]
        return taken

    def take_out(self, chosen_of: Callable[[pa.Table], Bools]) -> list[pa.Table]:
        """Take out the rows that are chosen."""
        taken: list[pa.Table] = []
        kept = [self._part(run, chosen_of(run.live), taken) for run in self.runs]
        self.runs = [run for run in kept if run is not None]
        return taken

    def _part(self, run: Run, chosen: Bools, taken: list[pa.Table]) -> Run | None:
        if not chosen.any():
            return run
        taken.append(run.live.filter(pa.array(chosen)))
        if chosen.all():
            return None
        return Run.of(run.live.filter(pa.array(~chosen)), run.floor_us)

    def _hashes(self, rows: pa.Table) -> Hashes:
        if not self.key:
            raise ValueError("the query is not split by a key: release_all moves its state")
        return hash_keys(*(rows.column(name) for name in self.key))

    def save(self) -> tuple[list[dict[str, object]], dict[str, pa.Table]]:
        """Name all runs, and hand out what was not handed out before."""
        fresh: dict[str, pa.Table] = {}
        named: list[dict[str, object]] = []
        for run in self.runs:
            if not run.saved:
                fresh[run.name] = run.live
                run.saved = True
            for name in run.gone:
                if name not in self._written:
                    fresh[name] = pa.table({"hash": run.gone[name]})
            self._written |= set(run.gone)
            low = int(run.times[run.start])
            entry = {"name": run.name, "from_us": low, "floor_us": run.floor_us}
            named.append({**entry, "gone": list(run.gone)})
            _held[run.name, *run.gone] = run
        self._written &= {name for run in self.runs for name in run.gone}
        return named, fresh

    def load(self, named: Iterable[Mapping[str, Any]], read: Callable[[str], pa.Table]) -> None:
        """Rebuild the runs a save named."""
        for entry in named:
            held = _held.get((entry["name"], *entry["gone"]))
            run = self._read(entry["name"], entry["gone"], read) if held is None else copy(held)
            run.start = int(np.searchsorted(run.times, entry["from_us"]))
            run.floor_us = entry["floor_us"]
            _held[run.name, *run.gone] = run
            self.runs.append(run)
            self._written |= set(run.gone)

    def _read(self, name: str, leaving: list[str], read: Callable[[str], pa.Table]) -> Run:
        rows = read(name).combine_chunks()
        gone = {part: read(part).column("hash").to_numpy() for part in leaving}
        if gone:
            left = np.isin(self._hashes(rows), np.concatenate(list(gone.values())))
            rows = rows.filter(pa.array(~left))
        return Run(rows, column_times(rows), name=name, saved=True, gone=gone)


def column_times(rows: pa.Table) -> Indices:
    """Return the times of rows."""
    if len(rows) == 0:
        return np.zeros(0, dtype=np.int64)
    times: Indices = pc.cast(rows.column("_t"), pa.int64()).to_numpy()
    return times


def _tier(run: Run) -> int:
    tier, size = 0, SMALLEST
    while len(run) > size:
        tier, size = tier + 1, size * FAN
    return tier
