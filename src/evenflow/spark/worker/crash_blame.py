"""Which query ended the worker's process? Blame needs evidence of the query's own doing.

Anyone may kill a process, so a death alone proves nothing. There are two kinds of evidence:

- The process itself noted that the query's step overran its time limit.
- An attempt after the first notes each query before it runs. The query that it died in is the
  suspect; the next attempt runs the suspect first. If the process dies in it again, with no other
  query run before, the query is blamed. (Queries whose rows it reads directly must run before.)

Further attempts leave blamed queries out. Spark must allow four attempts: `local[2,4]`, or
`spark.task.maxFailures`. Every attempt has a note of its own. Only attempts of the same start of
Spark's query are compared, and none if Spark speculates: then two attempts may run at a time.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from evenflow.storage.file_store import FileStore

NOTE_FOLDER = "attempts"


@dataclass(frozen=True, slots=True)
class AttemptNote:
    """What an attempt leaves behind when its process ends.

    running  the query that runs; empty: none
    first    whether no other query ran before it in this attempt, but for those that had to
    overran  whether its step took longer than the time limit
    blamed   the queries that this attempt leaves out
    """

    running: str = ""
    first: bool = True
    overran: bool = False
    blamed: tuple[str, ...] = ()


class AttemptLog:
    """The notes on one worker's batch; lives in the worker task, for one attempt.

    `start_id` names the start of Spark's query; empty if its attempts must not be compared.
    `is_first` says that nobody has tried this batch before, so there are no notes to look for.
    """

    def __init__(
        self,
        store: FileStore,
        worker: int,
        batch: int,
        attempt: int = 0,
        start_id: str = "",
        *,
        is_first: bool = False,
    ) -> None:
        self._store, self._is_careful = store, attempt > 0 and start_id != ""
        folder, prefix = f"{NOTE_FOLDER}/{worker:05d}", f"{batch:012d}-"
        self._file = f"{folder}/{prefix}{start_id}-{attempt:05d}"
        names = [] if is_first else store.list_names(folder)
        notes = {
            name: store.read_record(f"{folder}/{name}", AttemptNote)
            for name in names
            if name.startswith(prefix) and f"{folder}/{name}" != self._file
        }
        self.suspect = ""
        blamed = {uid for note in notes.values() for uid in note.blamed}
        blamed |= {note.running for note in notes.values() if note.overran}
        for name, note in notes.items():
            if self._is_careful and name.startswith(f"{prefix}{start_id}-"):
                if note.running == self.suspect and note.first:
                    blamed.add(note.running)
                self.suspect = note.running
        self.blamed_uids = sorted(blamed - {""})
        self._lock = threading.Lock()
        self._is_written = False
        self._uids_before_suspect: frozenset[str] = frozenset()
        self._running = ""
        self._first_uid = ""

    def let_run_before_suspect(self, uids: Iterable[str]) -> None:
        """Do not count these as run before the suspect: it cannot run without them."""
        self._uids_before_suspect = frozenset(uids)

    def record_step(self, uid: str) -> None:
        """Note which query runs next (empty: none); on disk only if it may matter."""
        self._running = uid
        if uid and uid not in self._uids_before_suspect:
            self._first_uid = self._first_uid or uid
        if self._is_careful or self._is_written:
            self._write(overran=False)

    def record_overrun(self) -> None:
        """Note that the running step overran its limit; called by another thread."""
        self._is_written = True  # first: then the end of the step takes the note back
        if self._running:
            self._write(overran=True)

    def _write(self, *, overran: bool) -> None:
        with self._lock:
            first, blamed = self._running == self._first_uid, tuple(self.blamed_uids)
            note = AttemptNote(self._running, first, overran, blamed)
            self._store.write_record(self._file, note)


def delete_notes(store: FileStore, head: int) -> None:
    """Delete the notes on committed batches."""
    for worker in store.list_names(NOTE_FOLDER):
        folder = f"{NOTE_FOLDER}/{worker}"
        old = [name for name in store.list_names(folder) if name < f"{head:012d}"]
        store.delete(f"{folder}/{name}" for name in old)
