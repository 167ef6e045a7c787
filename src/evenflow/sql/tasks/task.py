"""Tasks: the interface, and saving, loading and transferring state, the same for every kind."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model.arrays import Bools, Floats, Hashes, Indices
from evenflow.model.time import NO_WATERMARK_US
from evenflow.sql.split_plan import SplitPolicy
from evenflow.sql.tasks.hash_index import HashIndex
from evenflow.sql.tasks.segments import HashSelector, SegmentStore
from evenflow.sql.tasks.split_keys import NO_SPLITS, TaskSplits
from evenflow.sql.tasks.waiting_rows import LABEL, NO_WAITING_ROWS, WaitingRows
from evenflow.storage.bundle import pack, unpack

STATE_VERSION = 2
PartialRows = Mapping[int, pa.Table]  # id of an aggregate's feed -> its partial rows
NO_PARTIALS: PartialRows = {}
# Of rows of a store, given its label, the hashes of their keys, and the rows.
StoreSelector = Callable[[str, Hashes, pa.Table], Bools]
_TRANSFER_SCHEMA = pa.schema(
    [("store", pa.string()), ("emitted_until_us", pa.int64()), ("rows", pa.large_binary())]
)


@dataclass(frozen=True, slots=True)
class StepOutput:
    """The result rows of a batch, and per stream how many rows were late or had no valid time.

    `process_cpu_seconds` is the CPU time of a process that only this query has.
    """

    rows: pa.Table
    late: Mapping[str, int] = field(default_factory=dict)
    poison: Mapping[str, int] = field(default_factory=dict)
    process_cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SavedState:
    """A saved state: `manifest` names all segments, `segments` has those that are new."""

    manifest: bytes
    segments: Mapping[str, pa.Table]


class Task(ABC):
    """One query's state on one worker, used by one thread of the worker process.

    It lives until its query ends or its state moves, or until a step fails: then it must be
    dropped. Batches come in order. `splits` are the keys that it shares with other workers in the
    next step, `waiting` the rows that wait while its query is slowed: they are part of what is
    saved and moved, but not of `stores`.
    """

    watermark_us: int = NO_WATERMARK_US
    splits: TaskSplits = NO_SPLITS
    waiting: WaitingRows = NO_WAITING_ROWS
    watermark_resets: int = 0  # how often a user has set the watermark back
    batch: int = 0  # of the next step; the version of results in update mode

    def reset_watermark(self, watermark_us: int) -> None:
        """Set the watermark back, so that rows after it count again.

        Windows that were emitted too early stay emitted: rows that come for them now give another
        result of the same window.
        """
        self.watermark_us = min(self.watermark_us, watermark_us)

    @abstractmethod
    def step(
        self, rows: Mapping[str, pa.Table], watermark_us: int, partials: PartialRows = NO_PARTIALS
    ) -> StepOutput:
        """Process a batch: new rows of each stream, and the watermark known before the batch.

        Rows for windows that the watermark completes are late. `partials` are new rows that
        `QueryTask.combine` has already summed up elsewhere.
        """

    def in_result_order(self, rows: pa.Table) -> pa.Table:
        """Return the results of two steps in one batch in the order that the query gives them."""
        return rows

    @property
    @abstractmethod
    def next_due_us(self) -> int | None:
        """The watermark at which there will be results without new rows, if there is one."""

    @abstractmethod
    def stores(self) -> Mapping[str, SegmentStore]:
        """Return the stores of the state by their labels in a manifest."""

    def _all_stores(self) -> dict[str, SegmentStore]:
        return {**self.stores(), **self.waiting.stores()}

    def _labelled_store(self, label: str) -> SegmentStore:
        if label.startswith(LABEL):
            return self.waiting.store(label.removeprefix(LABEL))
        return self.stores()[label]

    def outgoing(self) -> Mapping[str, SegmentStore]:
        """Return rows of the last step that belong to the stores of other workers, by label."""
        return {}

    def split_policy(self, label: str, stream: str) -> SplitPolicy:
        """Return where a store has the rows of a key that is split by a stream."""
        raise ValueError(f"the keys of this query cannot be split, got {stream!r} for {label!r}")

    def emitted_until_us(self) -> Mapping[str, int]:
        """Return the event time up to which the windows of each store have been emitted."""
        return {}

    def restore_emitted_until(self, saved: Mapping[str, int]) -> None:  # noqa: B027 - optional
        """Restore what `emitted_until_us` returned when the state was saved."""

    def close(self) -> None:  # noqa: B027 - optional
        """Drop the task's tables in the engine."""

    @property
    def state_bytes(self) -> int:
        """Bytes of the state."""
        return sum(store.nbytes for store in self.stores().values())

    def key_bytes(self) -> tuple[Hashes, Indices]:
        """Return the hashes of the keys that have state, and about how many bytes each has.

        It reads the whole state: call it to compute a plan, not in every batch.
        """
        keys = np.unique(np.concatenate([store.keys() for store in self.stores().values()]))
        return keys, self.key_rows_and_bytes(keys)[1]

    def key_rows_and_bytes(self, keys: Hashes) -> tuple[Indices, Indices]:
        """Return how many rows each of the keys has, and about how many bytes."""
        found = self.key_state(keys).values()
        none = np.zeros(len(keys), dtype=np.int64)
        return sum((rows for rows, _ in found), none), sum((size for _, size in found), none)

    def key_state(self, keys: Hashes) -> dict[str, tuple[Indices, Indices]]:
        """Return the rows of each of the keys, and about how many bytes they have, by store.

        The cost grows with the keys, not with the state: each run is indexed once, as for joins.
        """
        state = {}
        for label, store in self.stores().items():
            rows, sizes = np.zeros((2, len(keys)), dtype=np.int64)
            index = HashIndex(store.key_columns or ())
            for run in store.runs:
                run_rows = index.run_index(run).count(keys, run.first_live)
                rows += run_rows
                sizes += run_rows * run.live_rows.nbytes // len(run)
            state[label] = rows, sizes
        return state

    def examined_pairs(
        self, keys: Hashes, stored_rows: Mapping[str, Indices], new_rows: Mapping[str, Indices]
    ) -> Floats:
        """Estimate how many pairs of rows each of the keys had examined in the last step.

        `stored_rows` are the rows of each key by store, `new_rows` those of the step by stream.
        """
        none = np.zeros(len(keys), dtype=np.int64)
        rows, stored = sum(new_rows.values(), none), sum(stored_rows.values(), none)
        return np.multiply(rows, stored, dtype=np.float64)

    def grouped_row_counts(self, rows: int) -> tuple[list[pa.Array], Indices] | None:
        """Return the key of each group of the last step's rows, as columns, and its row count.

        None unless the last step grouped all of its `rows` new rows.
        """
        return None

    def partial_row_count(self) -> int:
        """Return how many partial rows the last step added, 0 if rows cannot be combined."""
        return 0

    def save(self) -> SavedState:
        """Save the state; segments are immutable, and each save returns only new ones."""
        stores: dict[str, object] = {}
        segments: dict[str, pa.Table] = {}
        for label, store in self._all_stores().items():
            stores[label], new_segments = store.save()
            segments |= new_segments
        manifest = {
            "version": STATE_VERSION,
            "watermark_us": self.watermark_us,
            "watermark_resets": self.watermark_resets,
            "emitted_until_us": dict(self.emitted_until_us()),
            "stores": stores,
        }
        return SavedState(json.dumps(manifest, separators=(",", ":")).encode(), segments)

    def load(self, manifest: bytes, read: Callable[[str], pa.Table]) -> None:
        """Load a saved state into this task, which must be new."""
        saved = json.loads(manifest)
        if saved.get("version") != STATE_VERSION:
            raise ValueError(
                f"the state has version {saved.get('version')}, expected {STATE_VERSION}; "
                "start with a new checkpoint"
            )
        self.watermark_us = saved["watermark_us"]
        self.watermark_resets = saved.get("watermark_resets", 0)
        self.restore_emitted_until(saved["emitted_until_us"])
        waiting = [label for label in saved["stores"] if label.startswith(LABEL)]
        for label in (*self.stores(), *waiting):
            self._labelled_store(label).load(saved["stores"].get(label, []), read)

    def release(self, select: HashSelector | None) -> bytes | None:
        """Remove the state of the selected keys, and return it for another task to accept."""
        released = ((label, store.release(select)) for label, store in self._all_stores().items())
        return self._pack_transfer(released)

    def copy_state(self, select: StoreSelector) -> bytes | None:
        """Return the selected rows of all stores for another task to accept, and keep them."""
        return self._pack_transfer(
            (label, store.copy_rows(partial(select, label)))
            for label, store in self._all_stores().items()
        )

    def keep_state(self, select: StoreSelector) -> None:
        """Keep only the selected rows of all stores."""
        for label, store in self._all_stores().items():
            store.keep_rows(partial(select, label))

    def take_outgoing(self, keys: Hashes) -> bytes | None:
        """Remove and return rows of some keys that belong to the stores of another worker."""
        return self._pack_transfer(
            (label, store.release(lambda found: np.isin(found, keys)))
            for label, store in self.outgoing().items()
        )

    def _pack_transfer(self, released: Iterable[tuple[str, list[pa.Table]]]) -> bytes | None:
        emitted = self.emitted_until_us()
        entries = [
            {
                "store": label,
                "emitted_until_us": emitted.get(label, NO_WATERMARK_US),
                "rows": pack(rows).to_pybytes(),
            }
            for label, tables in released
            for rows in tables
        ]
        if not entries:
            return None
        blob: bytes = pack(pa.Table.from_pylist(entries, schema=_TRANSFER_SCHEMA)).to_pybytes()
        return blob

    def release_all(self) -> bytes | None:
        """Remove the whole state, also of a query without a key, and return it."""
        return self.release(None)

    def accept(self, blob: bytes) -> None:
        """Add state that another task of this query released."""
        for entry in unpack(blob).to_pylist():
            self._labelled_store(entry["store"]).append(
                unpack(entry["rows"]), entry["emitted_until_us"]
            )


def filter_and_count(
    rows: pa.Table, mask: pa.ChunkedArray, stream: str, dropped: dict[str, int]
) -> pa.Table:
    """Return the rows that a mask selects; note in `dropped` the largest number left out."""
    count = len(rows) - (pc.sum(mask).as_py() or 0)
    if count == 0:
        return rows
    dropped[stream] = max(dropped.get(stream, 0), count)
    return rows.filter(mask)
