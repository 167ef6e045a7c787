"""Options of measuring a run."""

import time
from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.spark.protocol.report import Report


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


def emulate_cost(report: Report, cost: float) -> None:
    """Sleep as if rows cost more; once for all queries, since short sleeps are inexact."""
    if not cost:
        return
    rows = sum(stats.rows_in for stats in report.query_stats.values())
    for stats in report.query_stats.values():
        stats.cpu_seconds += cost * stats.rows_in
    report.cpu_seconds += cost * rows
    time.sleep(cost * rows)
