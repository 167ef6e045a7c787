"""Sinks: deliver committed results to files and tables, on a separate thread.

File formats get a column `batch` and one folder per batch; delivering a batch again overwrites its
folder, so files hold every result exactly once. Other formats are appended to: at least once, since
a crash between the write and the note of it delivers a batch again.
"""

import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from evenflow.spec import CheckedSpec, files
from evenflow.spec.files import spark_options
from evenflow.spec.models import SinkSpec
from evenflow.storage.fault_points import fault_point
from evenflow.storage.file_store import FileStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH_COLUMN = "batch"
_POLL_SECONDS = 2.0
_CONSOLE_ROWS = 20


@dataclass(frozen=True, slots=True)
class SinkTarget:
    """One query and the sink that gets its results."""

    sink: str
    query: str
    spec: SinkSpec
    path: str | None


class ResultReader(Protocol):
    """The part of a run that sinks need."""

    @property
    def checkpoint(self) -> FileStore:
        """The files of the flow."""

    @property
    def committed(self) -> int:
        """The number of the next batch."""

    def results(
        self, name: str, *, first: int = 0, until: int | None = None, batch: str | None = None
    ) -> "DataFrame":
        """Return the committed results of a query."""


@dataclass
class SinkDelivery:
    """Delivers committed results to sinks.

    Driver process, on its own thread while the run lasts. `errors` holds the last failure of each
    sink that has not caught up.
    """

    run: ResultReader
    targets: tuple[SinkTarget, ...]
    console: TextIO = field(default_factory=lambda: sys.stdout)
    errors: dict[str, str] = field(default_factory=dict)
    _stop_requested: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> "SinkDelivery":
        """Start the thread."""
        self._thread = threading.Thread(target=self._poll, name="evenflow-sinks", daemon=True)
        self._thread.start()
        return self

    def finish(self) -> None:
        """Deliver what is committed by now, then stop; failures stay in `errors`."""
        self._stop_requested.set()
        if self._thread is not None:
            self._thread.join()

    def _poll(self) -> None:
        while True:
            last = self._stop_requested.wait(_POLL_SECONDS)
            started = time.monotonic()
            for target in self.targets:
                self._deliver_or_record_error(target)
            if last:
                return
            # Slow sinks must not take the cores from the stream.
            self._stop_requested.wait(time.monotonic() - started)

    def _deliver_or_record_error(self, target: SinkTarget) -> None:
        try:
            self.deliver(target)
            self.errors.pop(target.sink, None)
        except Exception as error:  # formats raise anything; results stay committed
            self.errors[target.sink] = f"{target.query}: {error_summary(error)}"

    def deliver(self, target: SinkTarget) -> None:
        """Deliver what was committed since the last time.

        The range is noted before, so what is repeated after a crash is the same batches.
        """
        store, note = self.run.checkpoint, f"sinks/{target.sink}/{target.query}"
        noted = store.read_record(note, dict[str, int]) if store.exists(note) else {"next": 0}
        first, until = noted["next"], noted.get("until", self.run.committed)
        if first >= until:
            return
        store.write_record(note, {"next": first, "until": until})
        frame = self.run.results(target.query, first=first, until=until, batch=BATCH_COLUMN)
        if target.spec.format in files.FILE_FORMATS:
            self._write_files(frame, target)
        elif target.spec.format == "console":
            self._print_rows(frame, target)
        else:
            writer = self._select_columns(frame.drop(BATCH_COLUMN), target).write.format(
                target.spec.format
            )
            writer.options(**spark_options(target.spec.options)).mode("append").save(target.path)
        fault_point(f"sink.delivered.{target.sink}")
        store.write_record(note, {"next": until})

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
            print(f"{target.query}: {values}", file=self.console, flush=True)


def sink_targets(checked: CheckedSpec) -> tuple[SinkTarget, ...]:
    """Return the targets that a spec declares."""
    targets: list[SinkTarget] = []
    for name, sink in checked.spec.sinks.items():
        for query in checked.order if sink.queries == "*" else sink.queries:
            path = None
            if sink.path is not None:
                path = checked.resolve(sink.path.replace("{query}", query))
            targets.append(SinkTarget(name, query, sink, path))
    return tuple(targets)


def error_summary(error: Exception) -> str:
    """Return an error in one line; the JVM's own text for errors of the JVM."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else str(java.toString())
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__
