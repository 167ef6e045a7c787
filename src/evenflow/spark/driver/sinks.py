"""Sinks: deliver committed results to files and tables, on a separate thread.

A crash between a write and the note of it delivers the same batches again; `sink_writers` says
which formats hold each row once all the same. So does a driver that is paused in a write while
another one takes over; it writes nothing after that.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from evenflow.display import printable
from evenflow.errors import MAX_ERROR_CHARACTERS, InputError, ResultsRemovedError
from evenflow.spark.driver.sink_target import BATCH_COLUMN, Delivery, SinkTarget, UpsertKeys
from evenflow.spark.driver.sink_writers import selected, write_delivery
from evenflow.storage.fault_points import fault_point
from evenflow.storage.file_store import FileStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_POLL_SECONDS = 2.0
_PROGRESS_SECONDS = 1.0
_CONSOLE_ROWS = 20


FindTargets = Callable[[Iterable[str]], tuple[SinkTarget, ...]]


class ResultReader(Protocol):
    """The part of a run that sinks need."""

    @property
    def checkpoint(self) -> FileStore:
        """The files of the flow."""

    @property
    def checkpoint_identity(self) -> str:
        """What tells checkpoints apart that were created at the same place."""

    @property
    def committed(self) -> int:
        """The number of the next batch."""

    @property
    def epoch(self) -> int:
        """How many drivers opened the checkpoint before."""

    def check_fence(self) -> None:
        """Raise a FencedError if another driver has taken over."""

    @property
    def first_kept(self) -> int:
        """The first batch whose results are kept."""

    @property
    def result_names(self) -> tuple[str, ...]:
        """The queries that have results."""

    def result_frames(
        self, name: str, since: int, until: int, batch: str
    ) -> "Mapping[str, DataFrame]":
        """Return the results of some batches, by the `uid` of each query that had the name."""

    def upsert_keys(self, name: str) -> UpsertKeys:
        """Return the columns that identify a result, by the same `uid`s."""


@dataclass
class SinkDelivery:
    """Delivers committed results to sinks, also those of queries submitted while the run lasts.

    Driver process, on its own thread while the run lasts. `errors` holds the last failure of each
    sink that has not caught up. `find_targets` returns the targets of the named queries.
    `show_progress` is called every second of `finish` with the number of targets that are left.
    """

    run: ResultReader
    find_targets: FindTargets
    console: TextIO = field(default_factory=lambda: sys.stdout)
    show_progress: Callable[[int], None] | None = None
    _failures: dict[tuple[str, str], str] = field(default_factory=dict)
    _notes: dict[str, dict[str, int]] = field(default_factory=dict)  # of this driver
    _undelivered: int = 0  # targets that the current round has not reached yet
    _stop_requested: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @property
    def targets(self) -> tuple[SinkTarget, ...]:
        """What is delivered where, by now."""
        return self.find_targets(self.run.result_names)

    @property
    def errors(self) -> dict[str, str]:
        """The last failure of each sink that has not caught up."""
        return {sink: f"{query}: {why}" for (sink, query), why in self._failures.items()}

    def start(self) -> "SinkDelivery":
        """Start the thread."""
        self._thread = threading.Thread(target=self._poll, name="evenflow-sinks", daemon=True)
        self._thread.start()
        return self

    def finish(self) -> None:
        """Deliver what is committed by now, then stop; failures stay in `errors`."""
        self._stop_requested.set()
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(_PROGRESS_SECONDS)
            if self.show_progress is not None and self._thread.is_alive():
                self.show_progress(self._undelivered)

    def _poll(self) -> None:
        while True:
            last = self._stop_requested.wait(_POLL_SECONDS)
            started = time.monotonic()
            targets = self.targets
            for index, target in enumerate(targets):
                self._undelivered = len(targets) - index
                self._deliver_or_record_error(target)
            if last:
                return
            # Slow sinks must not take the cores from the stream.
            self._stop_requested.wait(time.monotonic() - started)

    def _deliver_or_record_error(self, target: SinkTarget) -> None:
        place = target.sink, target.query
        try:
            self.deliver(target)
            self._failures.pop(place, None)
        except Exception as error:  # formats raise anything; results stay committed
            self._failures[place] = printable(error_summary(error), MAX_ERROR_CHARACTERS)

    def deliver(self, target: SinkTarget) -> None:
        """Deliver what was committed since the last time.

        The range is noted before, so what is repeated after a crash is the same batches; what was
        committed after them follows as a range of its own.
        """
        if target.problem is not None:
            raise InputError(target.problem)
        store, folder = self.run.checkpoint, f"sinks/{target.sink}/{target.query}"
        noted = self._notes.get(folder) or delivery_note(store, folder)
        if noted is None:
            noted = {"next": self.run.first_kept}  # a new sink begins with what is there
        first, until = noted["next"], noted.get("until", self.run.committed)
        prefix = f"evenflow-{self.run.checkpoint_identity}-{target.sink}-{target.query}"
        if first >= until:
            return
        if first < (first_kept := self.run.first_kept):
            self._notes.pop(folder, None)  # to be read again once it is deleted
            raise ResultsRemovedError(
                f"the results of the batches {first} to {first_kept - 1} were removed before they "
                f"were delivered, as `results: keep` asks; delete {store.uri}/{folder} to go on "
                f"with batch {first_kept}, and keep results for longer"
            )
        self._note(folder, {"next": first, "until": until})
        frames = self.run.result_frames(target.query, first, until, BATCH_COLUMN)
        keys = self.run.upsert_keys(target.query)  # also of a query that was cancelled
        for uid, frame in frames.items():
            writer = f"{prefix}-{uid}"
            delivery = Delivery(target.query, first, until, writer, is_repeated="until" in noted)
            self.run.check_fence()
            self._write(frame, replace(target, upsert_key=keys[uid]), delivery)
        fault_point(f"sink.delivered.{target.sink}")
        self._note(folder, {"next": until})
        if "until" in noted:
            self.deliver(target)

    def _note(self, folder: str, noted: dict[str, int]) -> None:
        """Note how far a sink has got, where no other driver writes."""
        store = self.run.checkpoint
        file = f"{self.run.epoch:06d}"
        store.write_record(f"{folder}/{file}", noted)
        if folder not in self._notes:
            earlier = [name for name in store.list_names(folder) if name < file]
            store.delete(f"{folder}/{name}" for name in earlier)
        self._notes[folder] = noted

    def _write(self, frame: "DataFrame", target: SinkTarget, delivery: Delivery) -> None:
        if target.spec.format == "console" and target.function is None:
            self._print_rows(frame, target)
        else:
            write_delivery(frame, target, delivery)

    def _print_rows(self, frame: "DataFrame", target: SinkTarget) -> None:
        limit = int(target.spec.options.get("numRows", _CONSOLE_ROWS))
        rows: list[Any] = selected(frame, target).limit(limit).collect()
        for row in rows:
            values = ", ".join(f"{name}={value}" for name, value in row.asDict().items())
            print(f"{target.query}: {printable(values)}", file=self.console, flush=True)


def delivery_note(store: FileStore, folder: str) -> dict[str, int] | None:
    """Return how far a sink has got with a query: what the last driver noted in its folder."""
    names = store.list_names(folder)
    return store.read_record(f"{folder}/{names[-1]}", dict[str, int]) if names else None


def error_summary(error: Exception) -> str:
    """Return an error in one line; the JVM's own text for errors of the JVM."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else str(java.toString())
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__
