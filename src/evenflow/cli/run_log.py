"""The log of a run: a line for each start, stop, plan change and problem."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from evenflow.model.words import decision_words

if TYPE_CHECKING:
    from evenflow.cli.run_stats import RunStats
    from evenflow.spark.run import Run

log = logging.getLogger("evenflow.run")
_FORMAT = "%(asctime)s %(levelname)s %(message)s"
_FACTS = ("batch", "query", "sink", "subject")
LogFormat = Literal["text", "json"]


class JsonFormatter(logging.Formatter):
    """One JSON object in a line, with the facts that were logged as `extra`.

    >>> record = logging.LogRecord("evenflow.run", 20, "", 0, "moved", None, None)
    >>> record.batch = 7
    >>> JsonFormatter().format(record).split(", ", 1)[1]
    '"level": "INFO", "logger": "evenflow.run", "message": "moved", "batch": 7}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        found = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        found |= {name: getattr(record, name) for name in _FACTS if hasattr(record, name)}
        if record.exc_info:
            found["error"] = self.formatException(record.exc_info)
        return json.dumps(found, default=str)


@contextmanager
def log_to(path: Path | None, log_format: LogFormat = "text") -> Iterator[None]:
    """Write what evenflow logs to a file while the context is open.

    JSON also goes to standard error, where containers log. Without a file (a checkpoint in a
    bucket) text goes nowhere.
    """
    handlers: list[logging.Handler] = []
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        handlers.append(logging.FileHandler(path, encoding="utf-8"))
    if log_format == "json":
        handlers.append(logging.StreamHandler())
    formatter = JsonFormatter() if log_format == "json" else logging.Formatter(_FORMAT)
    root = logging.getLogger("evenflow")
    level = root.level
    for handler in handlers:
        handler.setFormatter(formatter)
        root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        for handler in handlers:
            root.removeHandler(handler)
            handler.close()
        root.setLevel(level)


class RunReporter:
    """Logs each plan change and each new problem once. Main thread of `evenflow run`."""

    def __init__(self) -> None:
        self._problems: dict[str, str] = {}
        self._plan_changes = self._batches = 0

    def report(self, stats: "RunStats", run: "Run") -> None:
        """Log what is new since the last batch."""
        if stats.sums["batches"] == self._batches:
            return
        self._batches = stats.sums["batches"]
        for decision in stats.changes_after(self._plan_changes):
            words = decision_words(decision.trigger, decision.reason, changed=True)
            facts = {"batch": decision.batch}
            log.info("batch %s: %s; %s", decision.batch, words, decision.message, extra=facts)
        self._plan_changes = stats.sums["plans"]
        found = dict(run.sinks.errors)
        for sink, why in found.items():
            if self._problems.get(sink) != why:
                place = {"batch": run.committed, "sink": sink, "query": why.partition(":")[0]}
                log.warning("sink %s is behind: %s", sink, why, extra=place)
        for sink in self._problems.keys() - found.keys():
            log.info("over: sink %s is behind", sink, extra={"sink": sink})
        self._problems = found
