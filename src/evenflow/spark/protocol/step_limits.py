"""How long the code of one query may take in one batch."""

from dataclasses import dataclass

MAX_SECONDS = 30.0
MIN_SECONDS = 2.0
FIRST_SECONDS = 5.0  # at least, for the first step of SQL in a process: tables are loaded
TRIGGERS = 2  # until a call is interrupted
MAX_OVERRUN_SECONDS = 2.0  # more, until the process ends
ROWS_PER_SECOND = 20_000  # a batch with a backlog may take longer
STATE_BYTES_PER_SECOND = 50_000_000  # as may a query with much state


@dataclass(frozen=True, slots=True)
class StepLimits:
    """The time limit of each call into a query: step, load, save and so on."""

    seconds: float = MAX_SECONDS

    @classmethod
    def of_trigger(cls, trigger_us: int | None) -> "StepLimits":
        """Follow the trigger: two of them, between 2 and 30 s; 30 s without one, or if it is 0.

        >>> [StepLimits.of_trigger(us).seconds for us in (500_000, 4_000_000, 0)]
        [2.0, 8.0, 30.0]
        """
        if not trigger_us:
            return cls()
        return cls(min(MAX_SECONDS, max(MIN_SECONDS, TRIGGERS * trigger_us / 1e6)))

    def for_work(self, rows: int, state_bytes: int) -> float:
        """Return the seconds for a batch of some rows and a query with some state."""
        return self.seconds + rows / ROWS_PER_SECOND + state_bytes / STATE_BYTES_PER_SECOND

    def for_first(self) -> "StepLimits":
        """Return the limits of the first steps of SQL in a process."""
        return StepLimits(max(FIRST_SECONDS, self.seconds))


def overrun_seconds(seconds: float) -> float:
    """Return how long a call may go on after its limit: with it, a hang ends after three triggers.

    >>> [limit + overrun_seconds(limit) for limit in (2.0, 8.0)]
    [3.0, 10.0]
    """
    return min(MAX_OVERRUN_SECONDS, seconds / 2)
