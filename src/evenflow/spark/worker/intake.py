"""What a query takes in before its rows: hand-offs, subscriptions, kept state, a backfill.

All bytes are read here, outside the guard of any query, as a read error is not the query's fault.
"""

from collections import defaultdict
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from evenflow.model import KeySplit
from evenflow.spark.protocol.ledger import Entry
from evenflow.spark.worker.state_share import KeptShare
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
    kept           of a query that is resumed: each worker, and its saved task with its segments, or
                   a hand-off that it would have accepted
    kept_splits    the split keys of that query when its state was kept
    backfill       rows that it takes instead of new ones, by stream
    """

    handoffs: list[pa.Buffer] = field(default_factory=list)
    subscriptions: list[tuple[pa.Table, bool]] = field(default_factory=list)
    kept: list[tuple[int, KeptTask | pa.Buffer]] = field(default_factory=list)
    kept_splits: tuple[KeySplit, ...] = ()
    backfill: dict[str, list[pa.Table]] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """How much state it is."""
        kept = [s[0].stored_bytes if isinstance(s, tuple) else s.size for _, s in self.kept]
        return int(sum(kept) + sum(handoff.size for handoff in self.handoffs))

    def kept_share(self, open_task: Callable[[], Task], share: KeptShare) -> Iterator[bytes]:
        """Yield a worker's share of the kept state as hand-offs."""
        for worker, source in self.kept:
            task = open_task()
            try:
                if isinstance(source, tuple):
                    saved, segments = source
                    task.load(saved.manifest, segments.__getitem__)
                else:
                    task.accept(source.to_pybytes())
                blob = (
                    task.release_all()
                    if share.takes_all
                    else task.copy_state(partial(share.taken_from, worker))
                )
                if blob is not None:
                    yield blob
            finally:
                task.close()


def uids_with_intake(entry: Entry, worker: int) -> set[str]:
    """Return the queries that take in something on a worker, if they run there."""
    uids = {handoff.uid for handoff in entry.incoming if handoff.worker == worker}
    uids |= {change.uid for change in entry.subscription_changes}
    return uids | entry.resumed.keys() | entry.backfilling.keys()


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
            indexes = {w: read_index(store, ref)[1] for w, ref in kept.state_refs.items()}
            stored = kept.uid or uid
            saved = [(w, index[stored]) for w, index in indexes.items() if stored in index]
            intakes[uid].kept += [(w, (task, task.read_segments(store))) for w, task in saved]
            intakes[uid].kept += [(h.worker, read_bytes(store, h.state)) for h in kept.incoming]
            intakes[uid].kept_splits = kept.splits
    for uid, backfill in entry.backfilling.items():
        for part in backfill.parts if uid in uids else ():
            rows = intakes[uid].backfill.setdefault(part.stream, [])
            rows.append(read_table(store, part.rows))
    return dict(intakes)
