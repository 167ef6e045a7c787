"""A worker's state: tasks that live in the Python process, and the files they are rebuilt from.

A task writes only what is new, as immutable segments. After a batch the state of a worker is an
index that names the segments of all its tasks, and the ledger commits the `PartRef` of this index.
A process that still caches that state continues with it; any other process maps the segments.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from evenflow.errors import StorageError
from evenflow.spark.protocol.ledger import Ledger
from evenflow.spark.protocol.registry import Hosted, Registry
from evenflow.spark.protocol.step_limits import MAX_SECONDS
from evenflow.sql import Task
from evenflow.storage.bundle import Bundle, PartRef, pack
from evenflow.storage.file_store import FileStore
from evenflow.storage.stored_parts import fetch_index, fetch_segments, read_bytes, read_table


class TaskRuntime(Protocol):
    """Opens tasks; each Python process has one (`SqlRuntime`, or a fake in tests)."""

    @property
    def outdated_state_bytes(self) -> int:
        """How much state of workers that moved to another process is kept here."""

    def open_task(self, query: Hosted, registry: Registry, ledger: Ledger) -> Task:
        """Return an empty task of a query."""

    def time_limit(
        self, on_overrun: Callable[[], None], seconds: float = MAX_SECONDS
    ) -> AbstractContextManager[None]:
        """Limit the time of a query's code; `on_overrun` is called before the process ends."""

    def stop_watchdog(self) -> None:
        """Stop the time limit of the process, before code that is not a query's."""


@dataclass(slots=True)
class CachedTask:
    """A task, and its manifest and segments on disk, with their bytes."""

    task: Task
    manifest: bytes = b""
    segments: dict[str, PartRef] = field(default_factory=dict)
    stored_bytes: int = 0


@dataclass(slots=True)
class WorkerState:
    """All tasks of one worker, as of one committed index; `index_record` is the index itself.

    Lives in a Python process of Spark, between the batches that this process runs for the worker.
    `batch` is the last of them.
    """

    index: PartRef | None = None
    tasks: dict[str, CachedTask] = field(default_factory=dict)
    index_record: bytes = b""
    batch: int = -1

    def save_task(self, uid: str, bundle: Bundle) -> None:
        """Add the new segments of a task to the bundle."""
        cached = self.tasks[uid]
        saved = cached.task.save()
        known = dict(cached.segments)
        known.update((name, bundle.add(pack(rows))) for name, rows in saved.segments.items())
        cached.segments = referenced_segments(saved.manifest, known)
        cached.manifest = saved.manifest
        cached.stored_bytes = sum(ref.length for ref in cached.segments.values())

    def save_index(self, bundle: Bundle) -> None:
        """Add the index of all tasks to the bundle, unless it is the same as before."""
        index = {
            uid: [task.manifest.decode(), {name: list(ref) for name, ref in task.segments.items()}]
            for uid, task in sorted(self.tasks.items())
        }
        record = json.dumps(index, separators=(",", ":")).encode()
        if self.index is None or record != self.index_record:
            self.index, self.index_record = bundle.add(record), record

    def drop_task(self, uid: str) -> None:
        """Close and remove a task, if there is one; a task that failed may not close."""
        if (cached := self.tasks.pop(uid, None)) is not None:
            with suppress(Exception):
                cached.task.close()

    def close(self) -> None:
        """Close and remove all tasks."""
        for uid in list(self.tasks):
            self.drop_task(uid)

    @property
    def size_bytes(self) -> int:
        """The size of its segments and of its index."""
        return len(self.index_record) + sum(each.stored_bytes for each in self.tasks.values())

    def live_files(self) -> tuple[str, ...]:
        """Return the files this state needs."""
        files = {ref.file for cached in self.tasks.values() for ref in cached.segments.values()}
        if self.index is not None:
            files.add(self.index.file)
        return tuple(sorted(files))


@dataclass(frozen=True, slots=True)
class SavedTask:
    """A task as an index names it: its manifest, and where its segments are."""

    manifest: bytes
    segments: dict[str, PartRef]

    @property
    def stored_bytes(self) -> int:
        """The size of its segments."""
        return sum(ref.length for ref in self.segments.values())

    def read_segments(self, store: FileStore) -> dict[str, pa.Table]:
        """Read the segments, outside the guard of any query."""
        return {name: read_table(store, ref) for name, ref in self.segments.items()}


def read_index(store: FileStore, index: PartRef) -> tuple[bytes, dict[str, SavedTask]]:
    """Read the index of a worker's state: as it is stored, and its tasks by query uid."""
    fetch_index(store, index)
    record = read_bytes(store, index).to_pybytes()
    try:
        saved = json.loads(record)
    except ValueError as error:
        raise StorageError(
            f"{store.uri}/{index.file} is damaged: {error}; restore it from a copy and start again"
        ) from error
    return record, {
        uid: SavedTask(manifest.encode(), {name: PartRef(*ref) for name, ref in segments.items()})
        for uid, (manifest, segments) in saved.items()
    }


def load_worker_state(
    store: FileStore,
    index: PartRef,
    cached: WorkerState,
    load_task: Callable[[str, SavedTask], Task | None],
) -> WorkerState:
    """Rebuild a worker's state.

    `cached` is an earlier state: its unchanged tasks are reused, the others closed. `load_task`
    returns a task with its saved state, or None for a query that is not hosted or fails.
    """
    record, saved_tasks = read_index(store, index)
    state = WorkerState(index, index_record=record)
    for uid, saved in saved_tasks.items():
        known = cached.tasks.get(uid)
        if known is not None and SavedTask(known.manifest, known.segments) == saved:
            state.tasks[uid] = cached.tasks.pop(uid)
    changed = {uid: saved for uid, saved in saved_tasks.items() if uid not in state.tasks}
    fetch_segments(store, (ref for saved in changed.values() for ref in saved.segments.values()))
    for uid, saved in changed.items():
        if (task := load_task(uid, saved)) is not None:
            state.tasks[uid] = CachedTask(task, saved.manifest, saved.segments, saved.stored_bytes)
        cached.drop_task(uid)  # only now, so that segments of both are not mapped twice
    cached.close()
    return state


def referenced_segments(manifest: bytes, known: Mapping[str, PartRef]) -> dict[str, PartRef]:
    """Return the known segments whose name is a string anywhere in a manifest, which is JSON.

    >>> known = {"a": PartRef("f", 0, 1, "x"), "b": PartRef("f", 1, 1, "y")}
    >>> referenced_segments(b'{"stores": [{"name": "a"}]}', known)
    {'a': PartRef(file='f', offset=0, length=1, checksum='x')}
    """
    strings = set(manifest.decode().split('"'))  # names of segments do not contain quotes
    return {name: ref for name, ref in known.items() if name in strings}
