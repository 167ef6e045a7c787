"""How long the code of one query may take in one batch."""

from dataclasses import dataclass

MAX_SECONDS = 30.0
MIN_SECONDS = 5.0
TRIGGERS = 3
ROWS_PER_SECOND = 20_000  # a batch with a backlog may take longer


@dataclass(frozen=True, slots=True)
class StepLimits:
    """The time limit of each call into a query: step, load, save and so on."""

    seconds: float = MAX_SECONDS

    @classmethod
    def of_trigger(cls, trigger_us: int | None) -> "StepLimits":
        """Follow the trigger: three of them, between 5 and 30 s; 30 s without one.

        >>> StepLimits.of_trigger(1_000_000).seconds, StepLimits.of_trigger(4_000_000).seconds
        (5.0, 12.0)
        """
        if trigger_us is None:
            return cls()
        return cls(min(MAX_SECONDS, max(MIN_SECONDS, TRIGGERS * trigger_us / 1e6)))

    def for_rows(self, rows: int) -> float:
        """Return the seconds for a batch of some rows."""
        return self.seconds + rows / ROWS_PER_SECOND
