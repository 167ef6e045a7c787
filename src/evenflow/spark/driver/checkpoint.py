"""Opening a checkpoint: begin a new one, or see that an old one fits, and hold it alone."""

import fcntl
from typing import Any, BinaryIO
from uuid import uuid4

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.spark.protocol.ledger import Entry, Ledger
from evenflow.spark.protocol.registry import Registry
from evenflow.storage.file_store import FileStore

CHECKPOINT_FORMAT = 2


def open_checkpoint(ledger: Ledger, registry: Registry, plan: Plan, engine: str) -> bool:
    """Begin a new checkpoint, or check that an old one fits; tell whether it is new."""
    store = ledger.store
    meta = {"format": CHECKPOINT_FORMAT, "workers": plan.workers, "engine": engine}
    if store.exists("meta"):
        check_compatible(store.read_record("meta"), meta, store.uri)
        check_spark_offsets(ledger)
        return False
    store.write("pulse/.folder", [])
    ledger.write_registry(registry)
    ledger.write_plan(0, plan)
    ledger.write(Entry(0, registry.version, 0))
    # A new checkpoint in the place of an old one: processes must not take one for the other.
    store.write_record("meta", {**meta, "identity": uuid4().hex})
    return True


def check_compatible(found: Any, wanted: Any, uri: str) -> None:
    """Refuse a checkpoint that another set-up made."""
    if found["workers"] != wanted["workers"]:
        raise InputError(
            f"the checkpoint {uri} was made with {found['workers']} workers, not "
            f"{wanted['workers']}: keys and queries live by that number; start with "
            f"workers={found['workers']} or with a new checkpoint"
        )
    for part in ("format", "engine"):
        if found[part] != wanted[part]:
            raise InputError(
                f"the checkpoint {uri} was made with {part} {found[part]}, this is "
                f"{wanted[part]}: its state cannot be read; install what made it or start "
                "with a new checkpoint"
            )


def check_spark_offsets(ledger: Ledger) -> None:
    """Refuse if Spark's checkpoint and the ledger cannot be of one run."""
    names = ledger.store.list_names("spark/offsets")
    begun = max((int(name) for name in names if name.isdigit()), default=-1)
    head = ledger.batches()[-1]
    if begun not in (head - 1, head):
        raise InputError(
            f"the checkpoint {ledger.store.uri} is mixed: Spark began batch {begun}, the ledger "
            f"expects {head}; restore the whole folder from one copy"
        )


class CheckpointLock:
    """Keeps other drivers off a checkpoint, where its files are local."""

    def __init__(self, store: FileStore) -> None:
        self._file: BinaryIO | None = None
        if store.local_root is None:
            return
        store.local_root.mkdir(parents=True, exist_ok=True)
        self._file = (store.local_root / "lock").open("ab")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise InputError(
                f"the checkpoint {store.uri} is in use by another run; stop that first"
            ) from None

    def release(self) -> None:
        """Let another driver have it."""
        if self._file is not None:
            self._file.close()
