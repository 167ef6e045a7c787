"""Saving, loading and handing over state, the same for every kind of task."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from evenflow.model.arrays import Hashes, Indices
from evenflow.sql.rows import table_to_ipc
from evenflow.sql.tasks.hash_index import HashIndex
from evenflow.sql.tasks.segments import BEFORE_ALL_TIME_US, HashSelector, SegmentStore

STATE_VERSION = 1
_TRANSFER_SCHEMA = pa.schema(
    [("store", pa.string()), ("floor_us", pa.int64()), ("rows", pa.large_binary())]
)


@dataclass(frozen=True, slots=True)
class StepOutput:
    """What a batch gave: result rows, and per stream the rows too late or without a sane time."""

    rows: pa.Table
    late: Mapping[str, int] = field(default_factory=dict)
    poison: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SavedState:
    """A state: `manifest` names all its segments, `segments` are those not handed out before."""

    manifest: bytes
    segments: Mapping[str, pa.Table]


class Task(ABC):
    """One query's state on one worker. Batches come in order; after a failure, drop the task."""

    watermark_us: int = BEFORE_ALL_TIME_US

    @abstractmethod
    def step(self, rows: Mapping[str, pa.Table], watermark_us: int) -> StepOutput:
        """Take a batch's new rows of each stream, and give the results they and the time bring.

        `watermark_us` was known before the batch: no window that it completes may still get rows.
        """

    @property
    @abstractmethod
    def next_due_us(self) -> int | None:
        """The watermark that will bring results without new rows, if any will."""

    @abstractmethod
    def stores(self) -> Mapping[str, SegmentStore]:
        """Name what is kept."""

    def emitted_until_us(self) -> Mapping[str, int]:
        """Say up to which clock each store has been answered for."""
        return {}

    def restore_emitted_until(self, answered: Mapping[str, int]) -> None:  # noqa: B027 - most have none
        """Take on what `emitted_until_us` said when the state was saved."""

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Give back what the task holds in the engine."""

    @property
    def state_bytes(self) -> int:
        """Bytes of the state."""
        return sum(store.nbytes for store in self.stores().values())

    def key_bytes(self) -> tuple[Hashes, Indices]:
        """Return the keys that have state, by hash, and about how many bytes each has.

        A pass over the state: ask when a plan is to be made, not every batch.
        """
        parts = [store.key_bytes() for store in self.stores().values()]
        hashes, places = np.unique(np.concatenate([h for h, _ in parts]), return_inverse=True)
        sizes = np.bincount(places, np.concatenate([b for _, b in parts]), len(hashes))
        return hashes, sizes.astype(np.int64)

    def key_rows_and_bytes(self, keys: Hashes) -> tuple[Indices, Indices]:
        """Return how many rows each of the keys has, and about how many bytes they are.

        Costs what is asked for, not what is kept: each run is indexed once, as for joins.
        """
        rows, sizes = np.zeros((2, len(keys)), dtype=np.int64)
        for store in self.stores().values():
            index = HashIndex(store.key_columns or ())
            for run in store.runs:
                here = index.run_index(run).count(keys, run.first_live)
                rows += here
                sizes += here * run.live_rows.nbytes // len(run)
        return rows, sizes

    def grouped_row_counts(self, rows: int) -> tuple[list[pa.Array], Indices] | None:
        """Return the key of each group of new rows, a list of columns, and how many rows it has.

        None unless the last step has grouped all new rows anyway, as many as are given.
        """
        return None

    def save(self) -> SavedState:
        """Hand out the state; segments are immutable and named once and for all."""
        named: dict[str, object] = {}
        segments: dict[str, pa.Table] = {}
        for label, store in self.stores().items():
            named[label], fresh = store.save()
            segments |= fresh
        manifest = {
            "version": STATE_VERSION,
            "watermark_us": self.watermark_us,
            "answered_us": dict(self.emitted_until_us()),
            "stores": named,
        }
        return SavedState(json.dumps(manifest, separators=(",", ":")).encode(), segments)

    def load(self, manifest: bytes, read: Callable[[str], pa.Table]) -> None:
        """Take on a saved state; the task must be fresh."""
        saved = json.loads(manifest)
        if saved.get("version") != STATE_VERSION:
            raise ValueError(f"the state is of version {saved.get('version')}, not {STATE_VERSION}")
        self.watermark_us = saved["watermark_us"]
        self.restore_emitted_until(saved["answered_us"])
        for label, store in self.stores().items():
            store.load(saved["stores"].get(label, []), read)

    def release(self, select: HashSelector) -> bytes | None:
        """Take out the state of the keys whose hash is selected, for another task to accept."""
        return self._release(select)

    def release_all(self) -> bytes | None:
        """Take out the whole state."""
        return self._release(None)

    def accept(self, blob: bytes) -> None:
        """Take in what another task of this query released."""
        stores = self.stores()
        for entry in pa.ipc.open_stream(blob).read_all().to_pylist():
            rows = pa.ipc.open_stream(entry["rows"]).read_all()
            stores[entry["store"]].append(rows, entry["floor_us"])

    def _release(self, select: HashSelector | None) -> bytes | None:
        answered = self.emitted_until_us()
        entries = [
            {
                "store": label,
                "floor_us": answered.get(label, BEFORE_ALL_TIME_US),
                "rows": table_to_ipc(rows),
            }
            for label, store in self.stores().items()
            for rows in store.release(select)
        ]
        return (
            table_to_ipc(pa.Table.from_pylist(entries, schema=_TRANSFER_SCHEMA))
            if entries
            else None
        )
