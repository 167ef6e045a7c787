"""Stops a run that is still active when the program ends."""

import atexit
import contextlib
import weakref
from typing import Protocol


class Stoppable(Protocol):
    """A run."""

    @property
    def is_active(self) -> bool:
        """Whether it is running."""

    def stop(self) -> None:
        """Stop it."""


def stop_at_exit(run: Stoppable) -> None:
    """Stop a run before the interpreter shuts down, if it is active then."""
    reference = weakref.ref(run)

    def stop() -> None:
        found = reference()
        with contextlib.suppress(Exception):  # Spark may be gone already
            if found is not None and found.is_active:
                found.stop()

    atexit.register(stop)
