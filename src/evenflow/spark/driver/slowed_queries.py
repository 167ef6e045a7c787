"""Slowed queries from one ledger entry to the next: how far each may go. Pure functions.

A slowed query takes the slices of batches in order, all its workers the same ones, and its
watermark stays where it was when the first waiting rows came. So it computes what it would have
computed if Spark had cut its batches in this way, and everything that holds for batches holds.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from evenflow.spark.protocol.ledger import Entry, Slowed
from evenflow.spark.protocol.report import Report
from evenflow.sql import SLICES


@dataclass(frozen=True, slots=True)
class Pace:
    """About how many rows a query may process in the next batch, and why; None: all."""

    rows: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WaitingTotal:
    """What waits of a query on all workers after a batch, and how many rows came in it."""

    rows: int = 0
    bytes: int = 0
    first: int | None = None
    watermark_us: int | None = None
    came: int = 0


def waiting_totals(entry: Entry, reports: Iterable[Report]) -> dict[str, WaitingTotal]:
    """Return what waits of each query that was stepped or slowed in a batch."""
    totals: dict[str, WaitingTotal] = {}
    for report in reports:
        for uid, stats in report.query_stats.items():
            total = totals.get(uid, WaitingTotal())
            totals[uid] = replace(total, came=total.came + stats.rows_in)
        for uid, count in report.waiting.items():
            total = totals.get(uid, WaitingTotal())
            firsts, marks = [count.first], [count.watermark_us]
            if total.first is not None and total.watermark_us is not None:
                firsts, marks = [count.first, total.first], [count.watermark_us, total.watermark_us]
            totals[uid] = replace(
                total,
                rows=total.rows + count.rows,
                bytes=total.bytes + count.bytes,
                first=min(firsts),
                watermark_us=min(marks),
                came=total.came + count.rows,
            )
    for uid, slowed in entry.slowed.items():
        if uid in totals:
            totals[uid] = replace(totals[uid], came=max(0, totals[uid].came - slowed.rows))
    return totals


def next_slowed(
    entry: Entry,
    totals: Mapping[str, WaitingTotal],
    paces: Mapping[str, Pace],
    *,
    running: Collection[str],
    quarantined: Collection[str],
    resumed: Collection[str],
) -> dict[str, Slowed]:
    """Return the slowed queries of the next entry; a record ends when nothing waits any more.

    A quarantined query keeps its record, so that it goes on from there when it resumes, slowly.
    """
    slowed = {uid: s for uid, s in entry.slowed.items() if uid in quarantined}
    for uid in sorted((entry.slowed.keys() | paces.keys()) & set(running)):
        before, pace = entry.slowed.get(uid), paces.get(uid, Pace(None))
        if uid in resumed and before is not None:
            slowed[uid] = replace(before, until=before.first + 1)
            continue
        found = next_record(entry, totals.get(uid, WaitingTotal()), before, pace)
        if pace.rows is not None or found.held_us is not None or found.previous_held_us is not None:
            slowed[uid] = found
    return slowed


def next_record(entry: Entry, total: WaitingTotal, before: Slowed | None, pace: Pace) -> Slowed:
    """Return how a query is slowed in the next entry."""
    first = (entry.batch + 1) * SLICES if total.first is None else total.first
    return Slowed(
        reason=pace.reason or (before.reason if before else ""),
        since=before.since if before else entry.batch + 1,
        until=None if pace.rows is None else first + _slices(entry, total, first, pace.rows),
        first=first,
        rows=total.rows,
        bytes=total.bytes,
        held_us=total.watermark_us,
        previous_held_us=before.held_us if before else None,
    )


def _slices(entry: Entry, total: WaitingTotal, first: int, rows: float) -> int:
    """Return how many slices have about so many rows, if as many come as in the last batch."""
    if rows <= 0:
        return 0
    slices = (entry.batch + 2) * SLICES - first
    expected = max(1, total.rows + total.came)
    return max(1, round(min(1.0, rows / expected) * slices))
