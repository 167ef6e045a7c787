"""The time limit of a query's code in a worker process."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from evenflow.sql.failures import QueryFailed

TICK_SECONDS = 0.05  # how often the deadline of a running statement is checked
WAITED_SECONDS = 1.0  # how old the last reading of `seconds_waited` may be at the start


class DeadlineWatch:
    """A thread that interrupts a query at a deadline; it lives as long as the engine.

    It checks the deadline every tick and sleeps when nothing has run for a while. Waking it for
    every step would take longer than a small step does.
    """

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self._condition = threading.Condition()
        self._deadline: float | None = None
        self._overrun_at = math.inf
        self._on_overrun: Callable[[], None] | None = None
        self.on_tick: Callable[[], None] = _nothing
        """Called by the thread at each tick of a block whose time is not over."""
        self._is_sleeping = False
        self._is_shut_down = False
        self._thread: threading.Thread | None = None
        self._watched_thread = 0
        self._waited_before, self._waited_at = 0.0, -math.inf

    def start(
        self, seconds: float, overrun_seconds: float, on_overrun: Callable[[], None] | None
    ) -> None:
        """Watch the calling thread from now on."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="evenflow-watch", daemon=True)
            self._thread.start()
        now = time.monotonic()
        self._overrun_at, self._on_overrun = now + overrun_seconds, on_overrun
        thread = threading.get_native_id()
        if thread != self._watched_thread or now > self._waited_at + WAITED_SECONDS:
            self._watched_thread, self._waited_at = thread, now
            self._waited_before = seconds_waited(thread)
        self._deadline = now + seconds
        if self._is_sleeping:  # set by the thread before its last check of the deadline
            with self._condition:
                self._condition.notify()

    def stop(self) -> None:
        """Stop watching."""
        with self._condition:  # wait for a running interrupt, or it would hit the next query
            self._deadline = None

    def shut_down(self) -> None:
        """End the thread."""
        with self._condition:
            self._is_shut_down = True
            self._condition.notify()

    @property
    def is_expired(self) -> bool:
        """Whether the time is over; time without a core does not count."""
        deadline = self._deadline
        return deadline is not None and self._has_passed(deadline)

    def _has_passed(self, moment: float) -> bool:
        now = time.monotonic()
        if now < moment:
            return False
        return now >= moment + seconds_waited(self._watched_thread) - self._waited_before

    def extend(self, seconds: float) -> None:
        """Give the running query more time: a process that it waits for had no core."""
        if self._deadline is not None:
            self._deadline += seconds
            self._overrun_at += seconds

    @contextmanager
    def grace(self, seconds: float) -> Iterator[None]:
        """Do not count up to some seconds of the block, in which modules are imported."""
        began = time.monotonic()
        self.extend(seconds)
        try:
            yield
        finally:
            self.extend(min(0.0, time.monotonic() - began - seconds))

    def raise_if_expired(self) -> None:
        """Fail the query if its time is over."""
        if self.is_expired:
            raise QueryFailed("time", "it ran longer than its time limit")

    def _run(self) -> None:
        idle = False
        while True:
            with self._condition:
                if self._is_shut_down:
                    return
                if not self.is_expired:
                    self._is_sleeping = idle
                    idle = self._deadline is None
                    if not idle:
                        self.on_tick()
                    if self._is_sleeping and idle:
                        self._condition.wait()
                        idle = False
                    else:
                        self._condition.wait(TICK_SECONDS)
                    self._is_sleeping = False
                    continue
                # Interrupt repeatedly: an interrupt between two statements has no effect.
                self._interrupt()
                overrun = None
                if self._has_passed(self._overrun_at):
                    overrun, self._on_overrun = self._on_overrun, None
            if overrun is not None:
                overrun()
            time.sleep(0.02)


def _nothing() -> None:
    """Do nothing."""


def seconds_waited(thread: int, process: int | str = "self") -> float:
    """Return how long a thread could have run but had no core; 0 where the system does not tell.

    On a machine with too much to do, a query must not look as if it hung.
    """
    try:
        text = Path(f"/proc/{process}/task/{thread}/schedstat").read_text(encoding="ascii")
        return int(text.split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
