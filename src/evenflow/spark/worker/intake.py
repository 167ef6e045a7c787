"""What a query takes in before its rows: hand-offs, subscriptions, the state it resumes from.

All bytes are read here, outside the guard of any query, as a read error is not the query's fault.
"""

from collections import defaultdict
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from evenflow.model.arrays import Bools, Hashes
from evenflow.spark.protocol.ledger import Entry
from evenflow.spark.worker.worker_state import SavedTask, read_index
from evenflow.sql import Task
from evenflow.storage.file_store import FileStore
from evenflow.storage.stored_parts import read_bytes, read_table

KeptTask = tuple[SavedTask, dict[str, pa.Table]]


@dataclass(slots=True)
class Intake:
    """The intake of one query on one worker.

    handoffs       state that other workers gave to this one
    subscriptions  rows, and whether the subscriptions begin (else they end)
    kept           saved tasks with their segments, and hand-offs, of all workers, of a query that
                   is resumed
    """

    handoffs: list[pa.Buffer] = field(default_factory=list)
    subscriptions: list[tuple[pa.Table, bool]] = field(default_factory=list)
    kept: list[KeptTask | pa.Buffer] = field(default_factory=list)

    def kept_share(
        self, open_task: Callable[[], Task], select: Callable[[Hashes], Bools] | None
    ) -> Iterator[bytes]:
        """Yield the selected keys of the kept state (None: all of it) as hand-offs."""
        for source in self.kept:
            task = open_task()
            try:
                if isinstance(source, tuple):
                    saved, segments = source
                    task.load(saved.manifest, segments.__getitem__)
                else:
                    task.accept(source.to_pybytes())
                if (blob := task.release(select)) is not None:
                    yield blob
            finally:
                task.close()


def uids_with_intake(entry: Entry, worker: int) -> set[str]:
    """Return the queries that take in something on a worker, if they run there."""
    uids = {handoff.uid for handoff in entry.incoming if handoff.worker == worker}
    return uids | {change.uid for change in entry.subscription_changes} | entry.resumed.keys()


def read_intakes(
    store: FileStore, entry: Entry, worker: int, uids: Container[str]
) -> dict[str, Intake]:
    """Read what the queries take in on a worker."""
    intakes: dict[str, Intake] = defaultdict(Intake)
    for handoff in entry.incoming:
        if handoff.worker == worker and handoff.uid in uids:
            intakes[handoff.uid].handoffs.append(read_bytes(store, handoff.state))
    for change in entry.subscription_changes:
        if change.uid in uids:
            rows = read_table(store, change.rows)
            intakes[change.uid].subscriptions.append((rows, change.subscribe))
    for uid, kept in entry.resumed.items():
        if uid in uids:
            indexes = [read_index(store, ref)[1] for ref in kept.state_refs.values()]
            saved = [index[uid] for index in indexes if uid in index]
            intakes[uid].kept += [(task, task.read_segments(store)) for task in saved]
            intakes[uid].kept += [read_bytes(store, handoff.state) for handoff in kept.incoming]
    return dict(intakes)
