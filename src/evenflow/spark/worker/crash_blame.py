"""Which query ended the worker's process? Repeated attempts at the batch find out.

A first attempt that dies proves nothing: anyone may have killed the process. The next attempt
records each step before it runs; if that attempt dies too, the recorded query is blamed and
further attempts leave it out. Spark must allow at least three attempts: `local[2,4]`.
"""

from typing import Any

from evenflow.storage.file_store import FileStore


class AttemptLog:
    """The blamed queries of one worker's batch; lives in the worker task, for one attempt."""

    def __init__(self, store: FileStore, worker: int, batch: int, attempt: int) -> None:
        self.store, self.batch, self.attempt = store, batch, attempt
        self.file = f"attempts/{worker:05d}"
        self.blamed_uids: list[str] = []
        # Also read at attempt 0: a restarted driver counts attempts from 0 again.
        if self.store.exists(self.file):
            record = self.store.read_record(self.file, dict[str, Any])
            if record["batch"] == batch:
                self.blamed_uids = [uid for uid in (*record["blamed"], record["running"]) if uid]

    def record_step(self, uid: str) -> None:
        """Write which query runs next (empty: none), unless this is the first attempt."""
        if self.attempt:
            record = {"batch": self.batch, "blamed": self.blamed_uids, "running": uid}
            self.store.write_record(self.file, record)
