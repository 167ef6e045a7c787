"""Options of measuring a run."""

from dataclasses import dataclass

from evenflow.errors import InputError


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """Settings of a run that change no result.

    per_key                   measure keyed queries key by key
    emulated_seconds_per_row  for experiments only: extra seconds per row and query; workers sleep
                              them and count them as work
    """

    per_key: bool = True
    emulated_seconds_per_row: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.emulated_seconds_per_row < 1:
            raise InputError(
                "emulated_cost is in seconds per row, from 0 to below 1, got "
                f"{self.emulated_seconds_per_row}"
            )
