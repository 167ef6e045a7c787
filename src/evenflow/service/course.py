"""The course of a run in bounded space: old batches are averaged, more the longer the run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from evenflow.model.progress import BatchProgress
from evenflow.model.snapshot import Snapshot, imbalance
from evenflow.model.time import MIN_EVENT_TIME_US
from evenflow.model.traffic import total_shipped_bytes
from evenflow.service.course_schema import BatchPoint

_MEANS = (
    "seconds", "imbalance", "rows_per_second", "shipped_bytes", "rows", "input_per_second",
    "processed_per_second", "batch_seconds", "fixed_seconds", "busiest_seconds", "backlog_rows",
)  # fmt: skip


class Course:
    """All batches as at most `limit` points. Used only on the watcher thread.

    When the limit is reached, each two points become one, and later points cover as many batches.
    """

    def __init__(self, limit: int) -> None:
        self.points: list[BatchPoint] = []
        self._limit, self._batches_per_point = limit, 1

    def add(self, point: BatchPoint) -> None:
        """Add the next batch."""
        if self.points and self.points[-1].batches < self._batches_per_point:
            self.points[-1] = mean_point((self.points[-1], point))
        else:
            self.points.append(point)
        self._shorten()

    def add_before(self, points: Sequence[BatchPoint]) -> None:
        """Add batches that are older than all others."""
        self.points = [*points, *self.points]
        self._shorten()

    def _shorten(self) -> None:
        while len(self.points) > self._limit:
            self.points = [mean_point(pair) for pair in _groups(self.points, 2)]
            self._batches_per_point *= 2


def select(
    points: Sequence[BatchPoint], since: float | None, until: float | None, count: int
) -> list[BatchPoint]:
    """Return the points of a time range, averaged to at most `count`."""
    inside = [
        point
        for point in points
        if (since is None or point.at >= since) and (until is None or point.at <= until)
    ]
    size = -(-len(inside) // count) if inside else 1
    return [mean_point(group) for group in _groups(inside, size)]


def _groups(points: Sequence[BatchPoint], size: int) -> Iterator[Sequence[BatchPoint]]:
    return (points[start : start + size] for start in range(0, len(points), size))


def mean_point(points: Sequence[BatchPoint]) -> BatchPoint:
    """Return the mean of some points, each weighted by its batches; what is None is left out."""
    if len(points) == 1:
        return points[0]
    last = points[-1]
    means = {
        name: _mean([(getattr(p, name), p.batches) for p in points if getattr(p, name) is not None])
        for name in _MEANS
    }
    weights = np.array([point.batches for point in points], float)
    loads = np.average([point.loads for point in points], axis=0, weights=weights)
    return last.model_copy(
        update={**means, "loads": rounded(loads), "batches": sum(p.batches for p in points)}
    )


def _mean(values: Sequence[tuple[float, int]]) -> float | None:
    total = sum(weight for _, weight in values)
    return sum(value * weight for value, weight in values) / total if total else None


def batch_point(snapshot: Snapshot) -> BatchPoint:
    """Return a batch as one point of the time charts."""
    loads, active = snapshot.worker_loads(), snapshot.plan.active
    rows = sum(int(query.rows_in.sum()) for query in snapshot.queries.values())
    seconds, cpu = snapshot.interval_seconds, snapshot.worker_cpu_seconds
    return BatchPoint(
        batch=snapshot.batch,
        at=snapshot.at,
        seconds=seconds,
        loads=rounded(loads / seconds if seconds > 0 else np.zeros_like(loads)),
        active=len(active),
        imbalance=round(imbalance(loads, active), 4),
        rows_per_second=rows / seconds if seconds > 0 else 0.0,
        shipped_bytes=total_shipped_bytes(snapshot),
        busiest_seconds=round(float(cpu.max()), 5) if len(cpu) else 0.0,
    )


def with_progress(point: BatchPoint, progress: BatchProgress) -> BatchPoint:
    """Add what Spark reported of the batch."""
    waited, took = max(point.seconds, progress.seconds), progress.seconds
    return point.model_copy(
        update={
            "rows": progress.rows,
            "input_per_second": round(progress.rows / waited, 3) if waited > 0 else None,
            "processed_per_second": round(progress.rows / took, 3) if took > 0 else None,
            "batch_seconds": progress.seconds,
            "fixed_seconds": round(progress.fixed_seconds, 4),
            "backlog_rows": progress.backlog_rows,
        }
    )


def lags(at: float, watermarks: Mapping[str, int]) -> dict[str, float]:
    """Return how far the watermark of each stream is behind a time."""
    return {
        name: round(at - value / 1e6, 3)
        for name, value in watermarks.items()
        if value >= MIN_EVENT_TIME_US
    }


def rounded(values: Iterable[float]) -> list[float]:
    """Round loads for JSON."""
    return [round(float(value), 5) for value in values]
