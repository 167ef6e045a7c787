"""Sinks: deliver committed results to files and tables, on a separate thread.

File formats get a column `batch` and one folder per batch; delivering a batch again overwrites its
folder, so files hold every result exactly once. Other formats are appended to: at least once, since
a crash between the write and the note of it delivers a batch again.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from evenflow.display import printable
from evenflow.errors import MAX_ERROR_CHARACTERS, InputError, ResultsRemovedError
from evenflow.spec import CheckedSpec, files
from evenflow.spec.files import spark_options
from evenflow.spec.models import SinkSpec
from evenflow.storage.fault_points import fault_point
from evenflow.storage.file_store import FileStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH_COLUMN = "batch"
_POLL_SECONDS = 2.0
_PROGRESS_SECONDS = 1.0
_CONSOLE_ROWS = 20


@dataclass(frozen=True, slots=True)
class SinkTarget:
    """One query and the sink that gets its results; `problem` says why it cannot."""

    sink: str
    query: str
    spec: SinkSpec
    path: str | None
    problem: str | None = None


class ResultReader(Protocol):
    """The part of a run that sinks need."""

    @property
    def checkpoint(self) -> FileStore:
        """The files of the flow."""

    @property
    def committed(self) -> int:
        """The number of the next batch."""

    @property
    def first_kept(self) -> int:
        """The first batch whose results are kept."""

    @property
    def result_names(self) -> tuple[str, ...]:
        """The queries that have results."""

    def result_frames(self, name: str, since: int, until: int, batch: str) -> "list[DataFrame]":
        """Return the results of some batches."""


@dataclass
class SinkDelivery:
    """Delivers committed results to sinks, also those of queries submitted while the run lasts.

    Driver process, on its own thread while the run lasts. `errors` holds the last failure of each
    sink that has not caught up. `find_targets` returns the targets of the named queries.
    """

    run: ResultReader
    find_targets: Callable[[Iterable[str]], tuple[SinkTarget, ...]]
    console: TextIO = field(default_factory=lambda: sys.stdout)
    _failures: dict[tuple[str, str], str] = field(default_factory=dict)
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

    def finish(self, show_progress: Callable[[int], None] | None = None) -> None:
        """Deliver what is committed by now, then stop; failures stay in `errors`.

        `show_progress` is called every second with the number of targets that are left.
        """
        self._stop_requested.set()
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(_PROGRESS_SECONDS)
            if show_progress is not None and self._thread.is_alive():
                show_progress(self._undelivered)

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

        The range is noted before, so what is repeated after a crash is the same batches.
        """
        if target.problem is not None:
            raise InputError(target.problem)
        store, note = self.run.checkpoint, f"sinks/{target.sink}/{target.query}"
        noted = {"next": self.run.first_kept}  # a new sink begins with what is there
        if store.exists(note):
            noted = store.read_record(note, dict[str, int])
        first, until = noted["next"], noted.get("until", self.run.committed)
        if first >= until:
            return
        if first < (first_kept := self.run.first_kept):
            raise ResultsRemovedError(
                f"the results of the batches {first} to {first_kept - 1} were removed before they "
                f"were delivered, as `results: keep` asks; delete {store.uri}/{note} to go on with "
                f"batch {first_kept}, and keep results for longer"
            )
        store.write_record(note, {"next": first, "until": until})
        for frame in self.run.result_frames(target.query, first, until, BATCH_COLUMN):
            self._write(frame, target)
        fault_point(f"sink.delivered.{target.sink}")
        store.write_record(note, {"next": until})

    def _write(self, frame: "DataFrame", target: SinkTarget) -> None:
        if target.spec.format in files.FILE_FORMATS:
            self._write_files(frame, target)
        elif target.spec.format == "console":
            self._print_rows(frame, target)
        else:
            writer = self._select_columns(frame.drop(BATCH_COLUMN), target).write.format(
                target.spec.format
            )
            writer.options(**spark_options(target.spec.options)).mode("append").save(target.path)

    def _select_columns(self, frame: "DataFrame", target: SinkTarget) -> "DataFrame":
        return frame.selectExpr(*target.spec.select) if target.spec.select else frame

    def _write_files(self, frame: "DataFrame", target: SinkTarget) -> None:
        kept = [*target.spec.select, BATCH_COLUMN] if target.spec.select else ["*"]
        writer = frame.selectExpr(*kept).write.format(target.spec.format)
        writer = writer.options(**spark_options(target.spec.options))
        writer = writer.option("partitionOverwriteMode", "dynamic").partitionBy(BATCH_COLUMN)
        writer.mode("overwrite").save(target.path)

    def _print_rows(self, frame: "DataFrame", target: SinkTarget) -> None:
        limit = int(target.spec.options.get("numRows", _CONSOLE_ROWS))
        rows: list[Any] = (
            self._select_columns(frame.drop(BATCH_COLUMN), target).limit(limit).collect()
        )
        for row in rows:
            values = ", ".join(f"{name}={value}" for name, value in row.asDict().items())
            print(f"{target.query}: {printable(values)}", file=self.console, flush=True)


def sink_targets(
    checked: CheckedSpec, queries: Iterable[str] | None = None
) -> tuple[SinkTarget, ...]:
    """Return the targets of the sinks of a spec, for the queries that have results by now.

    A sink for all queries (`*`) also gets those that the spec does not name. `queries` None means
    those of the spec.
    """
    targets: list[SinkTarget] = []
    for name, sink in checked.spec.sinks.items():
        everything = checked.order if queries is None else tuple(queries)
        for query in everything if sink.queries == "*" else sink.queries:
            path = problem = None
            if sink.path is not None:
                path = checked.resolve(sink.path.replace("{query}", query))
                if "{query}" not in sink.path and query not in checked.order:
                    problem = (
                        f"its results would go to the same path as those of other queries; add "
                        f"{{query}} to the path of sink {name!r}"
                    )
            targets.append(SinkTarget(name, query, sink, path, problem))
    return tuple(targets)


def error_summary(error: Exception) -> str:
    """Return an error in one line; the JVM's own text for errors of the JVM."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else str(java.toString())
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__
