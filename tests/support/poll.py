"""Waiting for a condition in another thread or process."""

import time
from collections.abc import Callable
from typing import Protocol


class HasActive(Protocol):
    """A run, which may end while a test waits."""

    @property
    def is_active(self) -> bool: ...


def until(done: Callable[[], bool], run: HasActive | None = None, seconds: float = 180) -> None:
    """Poll until `done`; fail when the run ends or the time is over."""
    end = time.monotonic() + seconds
    while not done():
        assert run is None or run.is_active, "the run ended"
        assert time.monotonic() < end, f"not done after {seconds} s"
        time.sleep(0.05)
