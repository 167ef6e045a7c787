"""The alarm for rows that were set aside: which source, why, and how many."""

import logging
import time
from collections.abc import Mapping

from evenflow.spark.protocol.entry import Entry
from evenflow.spark.worker.set_aside import MAX_STREAM_BYTES

QUIET_SECONDS = 60.0  # between two lines about one source
_log = logging.getLogger(__name__)


class SetAsideAlarm:
    """Logs a warning for each source with rows set aside, at most one a minute.

    Driver process, as long as the run; `check` is called after each commit.
    """

    def __init__(self) -> None:
        self._told: Mapping[str, int] = {}
        self._told_ahead: Mapping[str, int] = {}
        self._told_at: dict[str, float] = {}

    def start(self, entry: Entry) -> None:
        """Begin with what an earlier run has told."""
        self._told, self._told_ahead = dict(entry.poison), dict(entry.ahead)

    def check(self, entry: Entry) -> None:
        """Tell what is new, if it is time."""
        if entry.poison == self._told:
            return
        now = time.monotonic()
        for source, total in entry.poison.items():
            rows = total - self._told.get(source, 0)
            if not rows or now < self._told_at.get(source, -QUIET_SECONDS) + QUIET_SECONDS:
                continue
            ahead = entry.ahead.get(source, 0) - self._told_ahead.get(source, 0)
            is_full = entry.set_aside_bytes.get(source, 0) >= MAX_STREAM_BYTES
            _log.warning(
                "source %s: %d rows set aside up to batch %d: %d without a valid event time, %d "
                "ahead of the clock by more than max_ahead; %d in all, %s",
                source, rows, entry.batch - 1, rows - ahead, ahead, total,
                "no more of them are stored" if is_full else f"see run.poison({source!r})",
            )  # fmt: skip
            self._told = {**self._told, source: total}
            self._told_ahead = {**self._told_ahead, source: entry.ahead.get(source, 0)}
            self._told_at[source] = now
