"""The keys that a task shares with other workers: which of their rows count here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from evenflow.model import KeySplit, hash_keys
from evenflow.model.arrays import Bools, Hashes
from evenflow.model.hashing import hash_contents


@dataclass(frozen=True, slots=True)
class TaskSplits:
    """The split keys of a query as one of their owners sees them in one batch.

    keys     the split keys that `worker` owns
    leaving  hash -> the worker that merges the key's panes from the next batch on, if it is another
    """

    worker: int = -1
    keys: tuple[KeySplit, ...] = ()
    leaving: Mapping[int, int] = field(default_factory=dict)

    @property
    def leaving_hashes(self) -> Hashes:
        """The keys of `leaving`."""
        return np.array(list(self.leaving), dtype=np.uint64)


NO_SPLITS = TaskSplits()


def rows_of_owner(
    rows: pa.Table, key: tuple[str, ...], splits: Sequence[KeySplit], worker: int
) -> pa.Table:
    """Return the rows without those of the split keys that belong to other owners.

    A row belongs to one owner by its content and the owners in force, so of all owners, which have
    the same rows, exactly one keeps it.
    """
    hashes = hash_keys(*(rows.column(name) for name in key))
    mine: Bools = np.ones(len(rows), dtype=np.bool_)
    for split in splits:
        at = np.flatnonzero(hashes == np.uint64(split.key_hash))
        if len(at):
            contents = rows.take(pa.array(at)).columns
            mine[at] = split.owners_of(hash_contents(contents)) == worker
    return rows if mine.all() else rows.filter(pa.array(mine))
