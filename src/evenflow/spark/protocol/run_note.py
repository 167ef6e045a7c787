"""A note in the checkpoint: which process runs the flow, and where it is served."""

import os
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path

from evenflow.storage.file_store import FileStore

_FILE = "run"


@dataclass(frozen=True, slots=True)
class RunNote:
    """The last run of a checkpoint.

    process_started  when the kernel started the process, in its clock ticks; None: not known
    url              address of its service while it is served
    first_batch      the first batch that this run commits
    """

    pid: int = field(default_factory=os.getpid)
    host: str = field(default_factory=socket.gethostname)
    process_started: int | None = field(default_factory=lambda: process_start(os.getpid()))
    started_at: float = field(default_factory=time.time)
    ended_at: float | None = None
    url: str | None = None
    first_batch: int = 0

    @property
    def is_local(self) -> bool:
        """Whether the process is, or was, on this machine."""
        return self.host == socket.gethostname()

    @property
    def is_running(self) -> bool:
        """Whether its process is there: on this machine, and not another one with its number."""
        if self.ended_at is not None or not self.is_local or not _exists(self.pid):
            return False
        return process_start(self.pid) == self.process_started


def process_start(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot.

    None if it has ended, also if its parent has not noticed yet, and where /proc is missing.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def write_run_note(store: FileStore, note: RunNote) -> None:
    """Write the note of the run that holds the checkpoint."""
    store.write_record(_FILE, note)


def read_run_note(store: FileStore) -> RunNote | None:
    """Return the note of the last run; None for a checkpoint that an earlier version wrote."""
    return store.read_record(_FILE, RunNote) if store.exists(_FILE) else None
