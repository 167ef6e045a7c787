"""The checkpoint of a run: its files, held by one driver at a time."""

import fcntl
import uuid
from typing import Any, BinaryIO

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.spark.protocol.ledger import Entry, Ledger
from evenflow.spark.protocol.registry import Registry
from evenflow.spark.protocol.results_index import ResultsIndex
from evenflow.sql import STATE_VERSION
from evenflow.storage.bundle import Bundle, PartRef, pack
from evenflow.storage.file_store import FileStore

CHECKPOINT_FORMAT = 3
_LAST_RELEASE_OF_FORMAT = {1: "0.1", 2: "0.1"}


class Checkpoint:
    """The files of one run: ledger, results index and wake-ups of Spark.

    Driver process, from `Flow.start` until the run ends. Any thread may read; entries are written
    by the committer only.
    """

    def __init__(self, store: FileStore, workers: int) -> None:
        self.store = store
        self.workers = workers
        self.ledger = Ledger(store)
        self.results_index = ResultsIndex(self.ledger)
        self.identity = ""  # differs between checkpoints that were created at the same place
        self._lock: CheckpointLock | None = None

    def open(self, registry: Registry, plan: Plan) -> bool:
        """Lock the checkpoint and create it, or check that it fits; return whether it is new."""
        self._lock = CheckpointLock(self.store)
        self.store.delete_temporary()
        meta = checkpoint_meta(plan.workers)
        is_new = not self.store.exists("meta")
        if is_new:
            self.store.write("pulse/.folder", [])
            self.ledger.write_registry(registry)
            self.ledger.write_plan(0, plan)
            first = Entry(batch=0, registry_version=registry.version, plan_number=0)
            self.ledger.write(first)
            self.store.write_record("meta", {**meta, "identity": uuid.uuid4().hex})
        written = self.store.read_record("meta", dict[str, Any])
        check_compatible(written, meta, self.store.uri)
        if not is_new:
            _check_spark_offsets(self.ledger)
        self.identity = str(written["identity"])
        return is_new

    def close(self) -> None:
        """Let another driver open the checkpoint."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def is_open(self) -> bool:
        """Whether this driver holds the checkpoint."""
        return self._lock is not None

    def head(self) -> Entry:
        """Return the entry of the next batch."""
        return self.ledger.entry(self.ledger.batches()[-1])

    def registry(self) -> Registry:
        """Return what is hosted in the next batch."""
        return self.ledger.registry(self.head().registry_version)

    def wake(self) -> None:
        """Make Spark run a batch even if no rows arrive."""
        head = self.ledger.batches()[-1]
        self.store.write(f"pulse/{head:012d}-{uuid.uuid4().hex[:12]}", [b"\n"])

    def store_rows(self, rows: pa.Table) -> PartRef:
        """Store rows that a command refers to, durably."""
        head = self.ledger.batches()[-1]
        bundle = Bundle(f"exchange/{head:012d}-command-{uuid.uuid4().hex[:12]}")
        part = bundle.add(pack(rows))
        bundle.write(self.store, durable=True)
        return part


def checkpoint_meta(workers: int) -> dict[str, Any]:
    """Return what a checkpoint of this version with so many workers says about itself."""
    return {"format": CHECKPOINT_FORMAT, "workers": workers, "state_format": STATE_VERSION}


def check_compatible(written: Any, expected: Any, uri: str) -> None:
    """Refuse a checkpoint of another format, number of workers or format of state."""
    if written["format"] != expected["format"]:
        release = _LAST_RELEASE_OF_FORMAT.get(written["format"])
        finish = (
            f"install that version (pip install 'evenflow=={release}.*') and run it to the end"
            if release
            else "use the version of Evenflow that wrote it"
        )
        raise InputError(
            f"the checkpoint {uri} has format {written['format']}, written by Evenflow "
            f"{release or 'of another version'}; this version reads format {expected['format']}: "
            f"{finish}, or start with a new checkpoint"
        )
    if written["workers"] != expected["workers"]:
        raise InputError(
            f"the checkpoint {uri} has {written['workers']} workers, not {expected['workers']}, "
            f"and keys are placed by that number; start with workers={written['workers']} or with "
            "a new checkpoint"
        )
    if written["state_format"] != expected["state_format"]:
        raise InputError(
            f"the checkpoint {uri} has state of format {written['state_format']}; this version "
            f"reads format {expected['state_format']}: use the version of Evenflow that wrote it, "
            "or start with a new checkpoint"
        )


def _check_spark_offsets(ledger: Ledger) -> None:
    """Refuse if Spark's checkpoint and the ledger cannot be from the same run."""
    names = ledger.store.list_names("spark/offsets")
    started = max((int(name) for name in names if name.isdigit()), default=-1)
    head = ledger.batches()[-1]
    if started not in (head - 1, head):
        raise InputError(
            f"the checkpoint {ledger.store.uri} mixes two runs: Spark started batch {started}, the "
            f"ledger expects {head}; restore the whole folder from one copy"
        )


class CheckpointLock:
    """A file lock that keeps other drivers on this machine off a local checkpoint."""

    def __init__(self, store: FileStore) -> None:
        self._file: BinaryIO | None = None
        if store.local_root is None:
            return
        store.create_root()
        self._file = (store.local_root / "lock").open("ab")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise InputError(
                f"the checkpoint {store.uri} is in use by another run; stop that run first"
            ) from None

    def release(self) -> None:
        """Unlock."""
        if self._file is not None:
            self._file.close()
