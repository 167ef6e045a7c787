"""What waits of a slowed query."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WaitingCount:
    """How much waits: rows, bytes, the first slice, and the lowest watermark when rows came."""

    rows: int
    bytes: int
    first: int
    watermark_us: int
