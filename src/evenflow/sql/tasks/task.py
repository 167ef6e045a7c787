"""Tasks: the interface, and saving, loading and transferring state, the same for every kind."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model.arrays import Hashes, Indices
from evenflow.model.time import NO_WATERMARK_US
from evenflow.sql.tasks.hash_index import HashIndex
from evenflow.sql.tasks.segments import HashSelector, SegmentStore
from evenflow.storage.bundle import pack, unpack

STATE_VERSION = 2
PartialRows = Mapping[int, pa.Table]  # id of an aggregate's feed -> its partial rows
NO_PARTIALS: PartialRows = {}
_TRANSFER_SCHEMA = pa.schema(
    [("store", pa.string()), ("emitted_until_us", pa.int64()), ("rows", pa.large_binary())]
)


@dataclass(frozen=True, slots=True)
class StepOutput:
    """The result rows of a batch, and per stream how many rows were late or had no valid time."""

    rows: pa.Table
    late: Mapping[str, int] = field(default_factory=dict)
    poison: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SavedState:
    """A saved state: `manifest` names all segments, `segments` has those that are new."""

    manifest: bytes
    segments: Mapping[str, pa.Table]


class Task(ABC):
    """One query's state on one worker, used by one thread of the worker process.

    It lives until its query ends or its state moves, or until a step fails: then it must be
    dropped. Batches come in order.
    """

    watermark_us: int = NO_WATERMARK_US

    @abstractmethod
    def step(
        self, rows: Mapping[str, pa.Table], watermark_us: int, partials: PartialRows = NO_PARTIALS
    ) -> StepOutput:
        """Process a batch: new rows of each stream, and the watermark known before the batch.

        Rows for windows that the watermark completes are late. `partials` are new rows that
        `QueryTask.combine` has already summed up elsewhere.
        """

    @property
    @abstractmethod
    def next_due_us(self) -> int | None:
        """The watermark at which there will be results without new rows, if there is one."""

    @abstractmethod
    def stores(self) -> Mapping[str, SegmentStore]:
        """Return the stores of the state by their labels in a manifest."""

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
        """Return how many rows each of the keys has, and about how many bytes.

        The cost grows with the keys, not with the state: each run is indexed once, as for joins.
        """
        rows, sizes = np.zeros((2, len(keys)), dtype=np.int64)
        for store in self.stores().values():
            index = HashIndex(store.key_columns or ())
            for run in store.runs:
                run_rows = index.run_index(run).count(keys, run.first_live)
                rows += run_rows
                sizes += run_rows * run.live_rows.nbytes // len(run)
        return rows, sizes

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
        for label, store in self.stores().items():
            stores[label], new_segments = store.save()
            segments |= new_segments
        manifest = {
            "version": STATE_VERSION,
            "watermark_us": self.watermark_us,
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
        self.restore_emitted_until(saved["emitted_until_us"])
        for label, store in self.stores().items():
            store.load(saved["stores"].get(label, []), read)

    def release(self, select: HashSelector | None) -> bytes | None:
        """Remove the state of the selected keys, and return it for another task to accept."""
        emitted = self.emitted_until_us()
        entries = [
            {
                "store": label,
                "emitted_until_us": emitted.get(label, NO_WATERMARK_US),
                "rows": pack(rows).to_pybytes(),
            }
            for label, store in self.stores().items()
            for rows in store.release(select)
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
        stores = self.stores()
        for entry in unpack(blob).to_pylist():
            stores[entry["store"]].append(unpack(entry["rows"]), entry["emitted_until_us"])


def filter_and_count(
    rows: pa.Table, mask: pa.ChunkedArray, stream: str, dropped: dict[str, int]
) -> pa.Table:
    """Return the rows that a mask selects; note in `dropped` the largest number left out."""
    count = len(rows) - (pc.sum(mask).as_py() or 0)
    if count == 0:
        return rows
    dropped[stream] = max(dropped.get(stream, 0), count)
    return rows.filter(mask)
