"""A worker's state: tasks that live in the Python process, and the files they can be rebuilt from.

A task writes only what is new, as immutable segments. The state of a worker after a batch is an
index that names the segments of all its tasks; its place (a `PartRef`) is what the ledger commits. A
process that still holds just that state uses it as it is, any other one maps the segments.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from evenflow.sql import Task
from evenflow.storage.bundle import Bundle, PartRef, pack, read_part, unpack
from evenflow.storage.file_store import FileStore


@dataclass(slots=True)
class CachedTask:
    """A task and what of it is on disk."""

    task: Task
    manifest: bytes = b""
    segments: dict[str, PartRef] = field(default_factory=dict)


@dataclass(slots=True)
class WorkerState:
    """All tasks of one worker, as of one committed index; `index_record` is what the index says."""

    index: PartRef | None = None
    tasks: dict[str, CachedTask] = field(default_factory=dict)
    index_record: bytes = b""

    def save_task(self, uid: str, bundle: Bundle) -> None:
        """Add what is new of one task to the bundle."""
        kept = self.tasks[uid]
        saved = kept.task.save()
        known = dict(kept.segments)
        known.update((name, bundle.add(pack(t))) for name, t in saved.segments.items())
        kept.segments = referenced_segments(saved.manifest, known)
        kept.manifest = saved.manifest

    def save_index(self, bundle: Bundle) -> None:
        """Add the index that names everything, unless it is as before: then the state is whole."""
        named = {
            uid: [kept.manifest.decode(), {name: list(ref) for name, ref in kept.segments.items()}]
            for uid, kept in sorted(self.tasks.items())
        }
        record = json.dumps(named, separators=(",", ":")).encode()
        if self.index is None or record != self.index_record:
            self.index, self.index_record = bundle.add(record), record

    def drop_task(self, uid: str) -> None:
        """Forget a task."""
        kept = self.tasks.pop(uid, None)
        if kept is not None:
            kept.task.close()

    def live_files(self) -> tuple[str, ...]:
        """Return the files this state needs."""
        files = {ref.file for kept in self.tasks.values() for ref in kept.segments.values()}
        if self.index is not None:
            files.add(self.index.file)
        return tuple(sorted(files))


def load_worker_state(
    store: FileStore, index: PartRef, cached: WorkerState, open_task: Callable[[str], Task | None]
) -> tuple[WorkerState, dict[str, Exception]]:
    """Rebuild a worker's state; what cannot be loaded is reported, the rest is there.

    `cached` is an earlier state, whose tasks are used if nothing has changed for them, and closed
    if not. `open_task` gives an empty task, or None for a query that is no longer hosted.
    """
    record = read_part(store, index).to_pybytes()
    state, broken = WorkerState(index, index_record=record), {}
    for uid, (manifest, segments) in json.loads(record).items():
        refs = {name: PartRef(*ref) for name, ref in segments.items()}
        known = cached.tasks.get(uid)
        if known is not None and (known.manifest, known.segments) == (manifest.encode(), refs):
            state.tasks[uid] = cached.tasks.pop(uid)
            continue
        try:
            task = open_task(uid)
            if task is None:
                continue
            task.load(manifest.encode(), _segment_reader(store, refs))
        except Exception as error:
            broken[uid] = error
        else:
            state.tasks[uid] = CachedTask(task, manifest.encode(), refs)
        finally:
            cached.drop_task(uid)  # only now, so that what both hold was not read again
    for uid in list(cached.tasks):
        cached.drop_task(uid)
    return state, broken


def _segment_reader(store: FileStore, refs: Mapping[str, PartRef]) -> Callable[[str], pa.Table]:
    return lambda name: unpack(read_part(store, refs[name]))


def referenced_segments(manifest: bytes, known: Mapping[str, PartRef]) -> dict[str, PartRef]:
    """Return those of the known segments that a manifest names, wherever it names them.

    >>> known = {"a": PartRef("f", 0, 1), "b": PartRef("f", 1, 1)}
    >>> referenced_segments(b'{"stores": [{"name": "a"}]}', known)
    {'a': PartRef(file='f', offset=0, length=1)}
    """
    found: dict[str, PartRef] = {}

    def walk(value: object) -> None:
        if isinstance(value, str) and value in known:
            found[value] = known[value]
        elif isinstance(value, dict):
            walk(list(value.values()))
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(json.loads(manifest))
    return found
