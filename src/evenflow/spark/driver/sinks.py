"""Hand committed results on to sinks, on a thread of its own, never in a batch's path.

File formats are written with a column `batch`, one folder for each; delivering a batch again
overwrites its folder, so files hold every result exactly once. Other formats are appended to, once
for each batch unless a crash falls between their write and our note of it: at least once.
"""

import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from evenflow.spark.from_spec import spark_options
from evenflow.spec import CheckedSpec, files
from evenflow.spec.models import SinkSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from evenflow.spark.run import Run

BATCH_COLUMN = "batch"
_POLL_SECONDS = 2.0
_CONSOLE_ROWS = 20


@dataclass(frozen=True, slots=True)
class SinkTarget:
    """One query's results on their way to one sink."""

    sink: str
    query: str
    spec: SinkSpec
    path: str | None


@dataclass
class SinkDelivery:
    """Follows a run; `errors` holds the last failure of each sink that has not caught up."""

    run: "Run"
    targets: tuple[SinkTarget, ...]
    console: TextIO = field(default_factory=lambda: sys.stdout)
    errors: dict[str, str] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    _stop_requested: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> "SinkDelivery":
        """Begin to follow."""
        self._thread = threading.Thread(target=self._poll, name="evenflow-sinks", daemon=True)
        self._thread.start()
        return self

    def finish(self) -> None:
        """Deliver what is committed by now, then end; what failed stays in `errors`."""
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
            # Slow sinks must not keep the cores from the stream.
            self._stop_requested.wait(time.monotonic() - started)

    def _deliver_or_record_error(self, target: SinkTarget) -> None:
        try:
            self.deliver(target)
            self.errors.pop(target.sink, None)
        except Exception as error:  # formats throw what they like; the results stay where they are
            self.errors[target.sink] = f"{target.query}: {error_summary(error)}"

    def deliver(self, target: SinkTarget) -> None:
        """Hand on what is committed since the last time, and note how far that is."""
        store, note = self.run.checkpoint, f"sinks/{target.sink}/{target.query}"
        first = int(store.read_record(note)["next"]) if store.exists(note) else 0
        until = self.run.committed
        if first >= until:
            return
        frame = self.run.results(target.query, first=first, batch=BATCH_COLUMN)
        if target.spec.format in files.FILE_FORMATS:
            self._write_files(frame, target)
        elif target.spec.format == "console":
            self._print_rows(frame, target)
        else:
            writer = self._select_columns(frame.drop(BATCH_COLUMN), target).write.format(
                target.spec.format
            )
            writer.options(**spark_options(target.spec.options)).mode("append").save(target.path)
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
            said = ", ".join(f"{name}={value}" for name, value in row.asDict().items())
            print(f"{target.query}: {said}", file=self.console, flush=True)


def sink_targets(checked: CheckedSpec) -> tuple[SinkTarget, ...]:
    """Return who goes where, as the specification says."""
    found: list[SinkTarget] = []
    for name, sink in checked.spec.sinks.items():
        for query in checked.order if sink.queries == "*" else sink.queries:
            path = None
            if sink.path is not None:
                path = checked.resolve(sink.path.replace("{query}", query))
            found.append(SinkTarget(name, query, sink, path))
    return tuple(found)


def error_summary(error: Exception) -> str:
    """Say what went wrong in one line; of an error of the JVM, the JVM's own."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else str(java.toString())
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__
