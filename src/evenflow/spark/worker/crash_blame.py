"""Which query killed its process? Found by repeating the batch with care.

A first attempt that dies tells nothing, and someone else may have killed it. The next one notes
what it is about to do before each step; if that dies too, the step it noted is guilty, and further
attempts leave that query out. Spark must allow at least three attempts: `local[2,4]`.
"""

from typing import Any

from evenflow.storage.file_store import FileStore


class AttemptLog:
    """The notes of one worker's attempts at one batch."""

    def __init__(self, store: FileStore, slot: int, batch: int, attempt: int) -> None:
        self.store, self.batch, self.attempt = store, batch, attempt
        self.file = f"attempts/{slot:05d}"
        self.blamed_uids: list[str] = []
        # Attempts are counted anew when the driver starts again, the notes stay.
        if self.store.exists(self.file):
            noted = self.store.read_record(self.file, dict[str, Any])
            if noted["batch"] == batch:
                self.blamed_uids = [uid for uid in (*noted["guilty"], noted["running"]) if uid]

    def record_step(self, uid: str) -> None:
        """Say what comes next, if there is reason for care; empty: nothing."""
        if self.attempt:
            record = {"batch": self.batch, "guilty": self.blamed_uids, "running": uid}
            self.store.write_record(self.file, record)
