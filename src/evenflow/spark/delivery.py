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

from evenflow.spark.specified import texts
from evenflow.spec import Checked, files
from evenflow.spec.models import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from evenflow.spark.run import Run

BATCH = "batch"
_EVERY_SECONDS = 2.0
_SHOWN_ROWS = 20


@dataclass(frozen=True, slots=True)
class Target:
    """One query's results on their way to one sink."""

    sink: str
    query: str
    said: Sink
    path: str | None


@dataclass
class Delivery:
    """Follows a run; `errors` holds the last failure of each sink that has not caught up."""

    run: "Run"
    targets: tuple[Target, ...]
    console: TextIO = field(default_factory=lambda: sys.stdout)
    errors: dict[str, str] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> "Delivery":
        """Begin to follow."""
        self._thread = threading.Thread(target=self._follow, name="evenflow-sinks", daemon=True)
        self._thread.start()
        return self

    def finish(self) -> None:
        """Deliver what is committed by now, then end; what failed stays in `errors`."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()

    def _follow(self) -> None:
        while True:
            last = self._ending.wait(_EVERY_SECONDS)
            started = time.monotonic()
            for target in self.targets:
                self._try(target)
            if last:
                return
            # Slow sinks must not keep the cores from the stream.
            self._ending.wait(time.monotonic() - started)

    def _try(self, target: Target) -> None:
        try:
            self.deliver(target)
            self.errors.pop(target.sink, None)
        except Exception as error:  # formats throw what they like; the results stay where they are
            self.errors[target.sink] = f"{target.query}: {first_line(error)}"

    def deliver(self, target: Target) -> None:
        """Hand on what is committed since the last time, and note how far that is."""
        store, note = self.run.checkpoint, f"sinks/{target.sink}/{target.query}"
        first = int(store.read_record(note)["next"]) if store.exists(note) else 0
        until = self.run.committed
        if first >= until:
            return
        frame = self.run.results(target.query, first=first, batch=BATCH)
        if target.said.format in files.FORMATS:
            self._files(frame, target)
        elif target.said.format == "console":
            self._console(frame, target)
        else:
            writer = self._selected(frame.drop(BATCH), target).write.format(target.said.format)
            writer.options(**texts(target.said.options)).mode("append").save(target.path)
        store.write_record(note, {"next": until})

    def _selected(self, frame: "DataFrame", target: Target) -> "DataFrame":
        return frame.selectExpr(*target.said.select) if target.said.select else frame

    def _files(self, frame: "DataFrame", target: Target) -> None:
        kept = [*target.said.select, BATCH] if target.said.select else ["*"]
        writer = frame.selectExpr(*kept).write.format(target.said.format)
        writer = writer.options(**texts(target.said.options))
        writer = writer.option("partitionOverwriteMode", "dynamic").partitionBy(BATCH)
        writer.mode("overwrite").save(target.path)

    def _console(self, frame: "DataFrame", target: Target) -> None:
        limit = int(target.said.options.get("numRows", _SHOWN_ROWS))
        rows: list[Any] = self._selected(frame.drop(BATCH), target).limit(limit).collect()
        for row in rows:
            said = ", ".join(f"{name}={value}" for name, value in row.asDict().items())
            print(f"{target.query}: {said}", file=self.console, flush=True)


def targets_of(checked: Checked) -> tuple[Target, ...]:
    """Return who goes where, as the specification says."""
    found: list[Target] = []
    for name, sink in checked.spec.sinks.items():
        for query in checked.order if sink.queries == "*" else sink.queries:
            path = None
            if sink.path is not None:
                path = checked.path(sink.path.replace("{query}", query))
            found.append(Target(name, query, sink, path))
    return tuple(found)


def first_line(error: Exception) -> str:
    """Say what went wrong in one line; of an error of the JVM, the JVM's own."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else str(java.toString())
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__
