"""What Spark reports of one batch."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One batch as Spark reports it.

    rows            read from the sources
    seconds         from its trigger until it was committed
    fixed_seconds   part of it before and after the batch itself ran: offsets, planning, Spark's log
    backlog_rows    left at the sources; None if no source says it (Kafka does, files do not)
    """

    batch: int
    rows: int
    seconds: float
    fixed_seconds: float = 0.0
    backlog_rows: int | None = None
