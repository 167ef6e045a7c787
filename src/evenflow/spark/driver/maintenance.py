"""Maintenance: clean up, merge results and remove old ones, beside the batches."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable

from evenflow.model.retention import Retention
from evenflow.spark.driver.checkpoint import Checkpoint
from evenflow.spark.driver.cleanup import clean_up, delete_unreferenced
from evenflow.spark.driver.merge_results import (
    BLOCK_FOLDER,
    LIST_FOLDER,
    MERGED_FOLDER,
    ResultsMerger,
    next_span,
    removable,
)
from evenflow.spark.driver.next_backfills import delete_backfill
from evenflow.spark.protocol.ledger import BLOCK_BATCHES, RETAINED_ENTRIES, Entry
from evenflow.storage.fault_points import fault_point

SWEEP_EVERY_BATCHES = 64
MERGES_AT_A_TIME = 16  # bounds how long a list is in the making

_log = logging.getLogger(__name__)


class Maintenance:
    """Keeps the files of a checkpoint few and as old as they may be.

    Driver process, on its own thread while the run lasts (tests call `work` instead). A new list of
    blocks is proposed to the committer; only when an entry has committed it, what it replaces is
    deleted. So a crash, or a driver that may no longer commit, changes nothing.
    """

    def __init__(self, checkpoint: Checkpoint, keep: Retention | None = None) -> None:
        self.checkpoint, self.index = checkpoint, checkpoint.results_index
        self.store = checkpoint.store
        self.keep = keep or Retention()
        self.error: Exception | None = None  # of the last pass
        self._proposed: str | None = None
        self._committed: str | None = None  # the list whose obsolete files are deleted
        self._swept = 0  # the batch of the last sweep
        self._cleaned: Entry | None = None  # the head at the last clean-up
        self._retry_at = 0  # after an error: the batch to try again at
        self._finished_backfills: deque[str] = deque()  # whose rows are still stored
        self._head: Entry | None = None
        self._wake = threading.Condition()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def open(self, head: Entry) -> None:
        """Delete what an earlier driver left; lists everything, before the first batch."""
        delete_unreferenced(self.checkpoint, head)
        self._swept, self._cleaned = head.batch, head
        listed = self.index.block_list(head)
        indexes = [n for n in self.store.list_names("results/index") if int(n[:12]) < listed.end]
        self.store.delete(f"results/index/{name}" for name in indexes)
        number = listed.number
        for folder in (MERGED_FOLDER, BLOCK_FOLDER, LIST_FOLDER):
            names = [n for n in self.store.list_names(folder) if int(n[:12]) > number]
            self.store.delete(f"{folder}/{name}" for name in names)
        self._delete_obsolete(head)

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="evenflow-maintenance", daemon=True)
        self._thread.start()

    def notify(self, head: Entry, finished_backfills: Iterable[str] = ()) -> None:
        """Tell the thread of a commit, and of backfills that are no longer needed."""
        with self._wake:
            self._head = head
            self._finished_backfills.extend(finished_backfills)
            self._wake.notify()

    def close(self) -> None:
        """End the thread after the pass it is in."""
        with self._wake:
            self._is_closed = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join()

    def next_block_list(self, entry: Entry) -> str | None:
        """Return the list of blocks for the entry after this one."""
        return self._proposed or entry.block_list

    def work(self, head: Entry, pause: Callable[[], None] = lambda: None) -> None:
        """Do what is due after a commit."""
        clean_up(self.checkpoint, self._cleaned or head, head)
        self._cleaned = head
        while self._finished_backfills:  # not those of `head`: most commits have no pass
            delete_backfill(self.store, self._finished_backfills[0])
            self._finished_backfills.popleft()
        if head.batch - self._swept >= SWEEP_EVERY_BATCHES:
            delete_unreferenced(self.checkpoint, head)
            self._swept = head.batch
        if self._proposed is not None and head.block_list != self._proposed:
            return  # not committed yet
        self._delete_obsolete(head)
        self._proposed = self._merge(head, pause)

    def _merge(self, head: Entry, pause: Callable[[], None]) -> str | None:
        """Write the next list of blocks, if there is something to merge or to remove."""
        listed = self.index.block_list(head)
        # Entries that may be replayed name files of the batches before them.
        committed = head.batch - RETAINED_ENTRIES
        merger = ResultsMerger(self.store, head, listed, pause)
        for _ in range(MERGES_AT_A_TIME):
            span = next_span(merger.listed, committed, self.keep)
            if span is None or self._is_closed:
                break
            merger.merge(*span)
        if count := removable(merger.listed, committed, time.time(), self.keep):
            merger.remove(count)
        return None if merger.listed is listed else merger.write_list(head.block_list)

    def _delete_obsolete(self, head: Entry) -> None:
        """Delete what the committed list replaced."""
        if head.block_list == self._committed:
            return
        obsolete = self.index.block_list(head).obsolete
        for at, file in enumerate(obsolete):
            self.store.delete([file])
            if at == len(obsolete) // 2:
                fault_point("merge.deleted")
        self.store.delete_empty_folders({file.rpartition("/")[0] for file in obsolete})
        self._committed = head.block_list

    def _run(self) -> None:
        while True:
            with self._wake:
                while self._head is None and not self._is_closed:
                    self._wake.wait()
                if self._is_closed:
                    return
                head, self._head = self._head, None
            if head is None or head.batch < self._retry_at:
                continue
            began = time.monotonic()
            try:
                # Sleeping for a moment lets the thread that commits a batch run.
                self.work(head, pause=lambda: time.sleep(0))
                self.error = None
            except Exception as error:  # nothing of a run depends on it
                if str(error) != str(self.error):
                    _log.warning("cleaning up or merging results failed, will retry: %s", error)
                self.error, self._retry_at = error, head.batch + BLOCK_BATCHES
            with self._wake:  # never more than half of the time
                self._wake.wait_for(lambda: self._is_closed, time.monotonic() - began)
