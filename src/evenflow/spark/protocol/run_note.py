"""A note in the checkpoint: which process runs the flow, and where it is served."""

import os
import socket
import time
from dataclasses import dataclass, field

from evenflow.storage.file_store import FileStore

_FILE = "run"


@dataclass(frozen=True, slots=True)
class RunNote:
    """The last run of a checkpoint; `url` is the address of its service while it is served."""

    pid: int = field(default_factory=os.getpid)
    host: str = field(default_factory=socket.gethostname)
    started_at: float = field(default_factory=time.time)
    url: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether the process is, or was, on this machine."""
        return self.host == socket.gethostname()


def write_run_note(store: FileStore, note: RunNote) -> None:
    """Write the note of the run that holds the checkpoint."""
    store.write_record(_FILE, note)


def read_run_note(store: FileStore) -> RunNote | None:
    """Return the note of the last run; None for a checkpoint that an earlier version wrote."""
    return store.read_record(_FILE, RunNote) if store.exists(_FILE) else None
