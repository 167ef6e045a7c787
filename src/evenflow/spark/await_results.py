"""Wait for the first results of a query."""

import time
from typing import Protocol

from evenflow.errors import SetupError
from evenflow.model.results_page import ResultPosition, ResultsPage

_POLL_SECONDS = 0.1


class ActiveRun(Protocol):
    """The part of a run that is needed."""

    @property
    def is_active(self) -> bool:
        """Whether batches are still run."""

    @property
    def committed(self) -> int:
        """The number of the next batch."""

    def results_page(self, name: str, since: ResultPosition | None, limit: int) -> ResultsPage:
        """Return some results."""

    def await_termination(self, timeout: float | None = None) -> bool:
        """Raise what ended the run."""


def await_results(self: ActiveRun, name: str, timeout: float = 300.0) -> None:
    """Wait until a query has committed results; raise what ended the run, or a `SetupError`."""
    until = time.monotonic() + timeout
    while not len(self.results_page(name, None, 1).rows):
        if time.monotonic() > until or not self.is_active:
            self.await_termination(1)
            raise SetupError(
                f"{name} has no results after {self.committed} batches; a window is emitted when "
                "newer rows move the watermark past its end"
            )
        time.sleep(_POLL_SECONDS)
