"""The log of a run: a line for each start, stop, plan change and problem."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from evenflow.model.words import decision_words

if TYPE_CHECKING:
    from evenflow.cli.run_stats import RunStats
    from evenflow.spark.driver.sinks import SinkDelivery
    from evenflow.spark.run import Run

log = logging.getLogger("evenflow.run")
_FORMAT = "%(asctime)s %(levelname)s %(message)s"


@contextmanager
def log_to(path: Path | None) -> Iterator[None]:
    """Write what evenflow logs to a file while the context is open; None: nowhere."""
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter(_FORMAT))
    root = logging.getLogger("evenflow")
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        handler.close()


class RunReporter:
    """Logs each plan change and each new problem once. Main thread of `evenflow run`."""

    def __init__(self) -> None:
        self._problems: dict[str, str] = {}
        self._last_decision = self._batches = 0

    def report(self, stats: "RunStats", run: "Run", delivery: "SinkDelivery") -> None:
        """Log what is new since the last batch."""
        if len(stats.cpu_seconds) == self._batches:
            return
        self._batches = len(stats.cpu_seconds)
        for decision in list(stats.plan_changes.values())[self._last_decision :]:
            words = decision_words(decision.trigger, decision.reason, changed=True)
            log.info("batch %s: %s; %s", decision.batch, words, decision.message)
        self._last_decision = len(stats.plan_changes)
        found = {f"query {name} is quarantined": why for name, why in run.quarantined.items()}
        found |= {f"sink {name} is behind": why for name, why in delivery.errors.items()}
        for problem, why in found.items():
            if self._problems.get(problem) != why:
                log.warning("%s: %s", problem, why)
        for problem in self._problems.keys() - found.keys():
            log.info("over: %s", problem)
        self._problems = found
