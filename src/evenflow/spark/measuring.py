"""How a run is measured."""

import time
from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.spark.report import Report


@dataclass(frozen=True, slots=True)
class Measuring:
    """Settings of a run that change no result.

    keys           whether keyed queries are measured key by key
    emulated_cost  for experiments only: seconds that each row takes a query beyond its real work;
                   workers sleep them and count them as work
    """

    keys: bool = True
    emulated_cost: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.emulated_cost < 1:
            raise InputError(
                f"emulated_cost is in seconds a row, from 0 to below 1, got {self.emulated_cost}"
            )


def emulate(report: Report, cost: float) -> None:
    """Sleep as if rows cost more; once for all queries, as a sleep is never quite what is asked."""
    if not cost:
        return
    rows = sum(stats.rows_in for stats in report.queries.values())
    for stats in report.queries.values():
        stats.cpu_seconds += cost * stats.rows_in
    report.cpu_seconds += cost * rows
    time.sleep(cost * rows)
