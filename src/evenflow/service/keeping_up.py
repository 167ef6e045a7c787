"""Does a run keep up with its sources? A verdict from its last batches. Pure."""

from collections.abc import Sequence
from statistics import median

from evenflow.service.course_schema import BatchPoint, KeepingUp

WINDOW_BATCHES = 12
_MIN_BATCHES = 3
_BUSY = 0.95  # busy for more of the time: there is no room left
_GROWTH = 1.3  # batches that are larger by this factor half a window later: rows wait longer


def keeping_up(points: Sequence[BatchPoint], trigger_seconds: float | None) -> KeepingUp:
    """Judge the last batches; the first of a run is left out, as it starts Spark's processes.

    A source that says its backlog (Kafka) is believed. Otherwise a run keeps up if it is idle for
    a part of the time: whatever waits at the source, the next batch would take.
    """
    last = [p for p in points if p.batch > 0 and p.batch_seconds is not None][-WINDOW_BATCHES:]
    if len(last) < _MIN_BATCHES:
        return KeepingUp(verdict="not known", message="needs three batches")
    batch_seconds = [point.batch_seconds or 0.0 for point in last]
    typical = median(batch_seconds)
    elapsed = sum(max(p.seconds, s) for p, s in zip(last, batch_seconds, strict=True))
    busy = sum(batch_seconds) / elapsed if elapsed > 0 else 0.0
    backlog = [point.backlog_rows for point in last if point.backlog_rows is not None]
    if len(backlog) >= _MIN_BATCHES and backlog[-1] > backlog[0] + (last[-1].rows or 0):
        grown = backlog[-1] - backlog[0]
        message = f"the backlog grew by {grown:,.0f} rows in {len(backlog)} batches"
        return KeepingUp(verdict="falling behind", message=message)
    if trigger_seconds and typical <= _BUSY * trigger_seconds:
        message = f"a batch takes {_seconds(typical)} of {_seconds(trigger_seconds)}"
        return KeepingUp(verdict="keeping up", message=message)
    if busy < _BUSY:
        return KeepingUp(verdict="keeping up", message=f"busy {busy:.0%} of the time")
    half = len(last) // 2
    earlier, later = (sum(p.rows or 0 for p in part) for part in (last[:half], last[-half:]))
    if earlier > 0 and later / earlier > _GROWTH:
        message = f"batches grow: {later / earlier:.1f} times the rows of {half} batches before"
        return KeepingUp(verdict="falling behind", message=message)
    over = f", the trigger is {_seconds(trigger_seconds)}" if trigger_seconds else ""
    waiting = "" if backlog else "; rows may wait at the source"
    message = f"no idle time: a batch takes {_seconds(typical)}{over}{waiting}"
    return KeepingUp(verdict="at the limit", message=message)


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.3g} s"
