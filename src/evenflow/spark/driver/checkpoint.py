"""The checkpoint of a run: its files, held by one driver at a time."""

import fcntl
import os
import socket
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, BinaryIO

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.spark.driver.direct_reads import find_direct_reads
from evenflow.spark.driver.next_backfills import begin_backfills
from evenflow.spark.driver.spark_folder import SparkFolder
from evenflow.spark.protocol.ledger import Entry, Ledger, SubscriptionChange
from evenflow.spark.protocol.registry import Registry
from evenflow.spark.protocol.results_index import ResultsIndex
from evenflow.sql import STATE_VERSION
from evenflow.storage.bundle import Bundle, PartRef, pack
from evenflow.storage.file_store import FileStore

CHECKPOINT_FORMAT = 5
_LAST_RELEASE_OF_FORMAT = {1: "0.1", 2: "0.1"}


class Checkpoint:
    """The files of one run: ledger, results index, and the folder in which Spark works.

    Driver process, from `Flow.start` until the run ends. Any thread may read; entries are written
    by the committer only.
    """

    def __init__(self, store: FileStore, workers: int) -> None:
        self.store = store
        self.workers = workers
        self.ledger = Ledger(store)
        self.results_index = ResultsIndex(self.ledger)
        self.spark_folder = SparkFolder(store)
        self.identity = ""  # differs between checkpoints that were created at the same place
        self._lock: CheckpointLock | None = None

    def open(
        self,
        registry: Registry,
        plan: Plan,
        subscriptions: Iterable[tuple[str, pa.Table]] = (),
        check: Callable[[Registry], None] = lambda _: None,
    ) -> bool:
        """Take the checkpoint over, or create it; return whether it is new.

        From then on, a driver that had it before cannot commit any more. So what it hosts is given
        to `check` before, which raises if it does not fit.
        """
        self._lock = CheckpointLock(self.store)
        self.store.delete_temporary()
        meta = checkpoint_meta(plan.workers)
        is_created = self._create_meta({**meta, "identity": uuid.uuid4().hex})
        written = self.store.read_record("meta", dict[str, Any])
        check_compatible(written, meta, self.store.uri)
        self.identity = str(written["identity"])
        first, last = None, self.ledger.last_entry()
        if last is not None:
            check(self.ledger.registry(last.registry_version))
        else:
            # Without entries, another driver created it: that one may be just starting, too.
            self.ledger.epoch = 0 if is_created else 1
            first = self._first_entry(registry, plan, subscriptions)
        driver = f"{socket.gethostname()}, process {os.getpid()}, {uuid.uuid4().hex[:12]}"
        entry, is_new = self.ledger.take_over(driver, first)
        self.spark_folder.open(entry.spark_files, entry.batch)
        return is_new

    def _create_meta(self, meta: dict[str, Any]) -> bool:
        """Create the file that makes a folder a checkpoint; return whether it was missing."""
        if self.store.exists("meta"):
            return False
        try:
            self.store.create_record("meta", meta)
        except FileExistsError:
            return False
        try:
            self.store.create_record("meta", {**meta, "again": True})
        except FileExistsError:
            return True
        raise InputError(
            f"the storage of {self.store.uri} overwrites a file that must only be created, so it "
            "cannot keep two runs apart; use one that supports conditional writes (If-None-Match)"
        )

    def _first_entry(
        self, registry: Registry, plan: Plan, subscriptions: Iterable[tuple[str, pa.Table]]
    ) -> Entry:
        ledger = self.ledger
        registry = replace(registry, version=ledger.next_number(registry.version))
        number = ledger.next_number(-1)
        ledger.write_registry(registry)
        ledger.write_plan(number, plan)
        changes = [
            SubscriptionChange(registry.queries[name].uid, self._store_rows(rows, 0), True)
            for name, rows in subscriptions
        ]
        entry = Entry(
            batch=0,
            epoch=ledger.epoch,
            registry_version=registry.version,
            plan_number=number,
            subscription_changes=tuple(changes),
        )
        entry = begin_backfills(self.store, entry, registry, plan)
        return replace(entry, direct_reads=find_direct_reads(entry, registry, plan))

    def close(self) -> None:
        """Let another driver open the checkpoint."""
        self.spark_folder.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def is_open(self) -> bool:
        """Whether this driver holds the checkpoint."""
        return self._lock is not None

    def head(self) -> Entry:
        """Return the entry of the next batch."""
        if self.ledger.head is None:
            raise RuntimeError("open the checkpoint first")
        return self.ledger.head

    def registry(self) -> Registry:
        """Return what is hosted in the next batch."""
        return self.ledger.registry(self.head().registry_version)

    def wake(self) -> None:
        """Make Spark run a batch even if no rows arrive."""
        self.spark_folder.wake(f"{self.head().batch:012d}-{uuid.uuid4().hex[:12]}")

    def store_rows(self, rows: pa.Table) -> PartRef:
        """Store rows that a command refers to, durably."""
        return self._store_rows(rows, self.head().batch)

    def _store_rows(self, rows: pa.Table, batch: int) -> PartRef:
        bundle = Bundle(f"exchange/{batch:012d}-command-{uuid.uuid4().hex[:12]}")
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
