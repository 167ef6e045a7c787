"""The course of a run: charts, decisions and totals, added batch by batch."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evenflow.model.decision import Decision, Outcome
from evenflow.model.progress import BatchProgress
from evenflow.model.snapshot import Snapshot
from evenflow.service import course, present, schemas
from evenflow.service.course_schema import BatchPoint
from evenflow.service.metrics import Metrics

# 900 points are 15 minutes of one-second batches; fewer with many workers, to bound the size.
_MAX_POINTS, _MIN_POINTS, _MAX_LOAD_VALUES = 900, 120, 20_000
_MAX_UNREPORTED = 4  # batches
_MAX_PLAN_CHANGES, _MAX_UNCHANGED, _MAX_KEY_NAMES = 200, 60, 5_000


class Timeline:
    """Recent batches and decisions, oldest dropped first. Used only on the watcher thread."""

    def __init__(self, workers: int, metrics: Metrics) -> None:
        count = min(_MAX_POINTS, max(_MIN_POINTS, _MAX_LOAD_VALUES // workers))
        self.points: deque[BatchPoint] = deque(maxlen=count)
        self.course = course.Course(count)
        self._unreported: dict[int, BatchPoint] = {}  # Spark has not reported on them yet
        self.decision_infos: dict[int, schemas.DecisionInfo] = {}
        self.batches = self.rows = self.plan_changes = self.moves = 0
        self.transferred_bytes = 0.0
        self._metrics = metrics
        self._decisions_by_batch: dict[int, Decision] = {}
        self._outcomes: dict[int, Outcome] = {}
        self._loads_by_batch: dict[int, list[float]] = {}
        self._key_names: dict[tuple[str, int], str] = {}
        self._last_batch = self._last_decided_batch = -1

    def add(
        self,
        snapshots: Sequence[Snapshot],
        decisions: Iterable[Decision],
        outcomes: Iterable[Outcome],
        progress: Mapping[int, BatchProgress] | None = None,
        watermarks: Mapping[str, int] | None = None,
    ) -> tuple[list[BatchPoint], list[schemas.DecisionInfo]]:
        """Add what is new; return the points and the decisions that are new or updated."""
        new = [each for each in snapshots if each.batch > self._last_batch]
        points = {each.batch: self._add_batch(each) for each in new}
        if new:
            points[new[-1].batch] = self._add_lags(watermarks or {})
        points |= self._add_progress(progress or {})
        by_batch = {each.batch: each for each in snapshots}
        for decision in decisions:
            if decision.batch > self._last_decided_batch:
                self._add_decision(decision)
        for outcome in outcomes:
            number = outcome.decision
            if number in self._decisions_by_batch and number not in self._outcomes:
                self._outcomes[number] = outcome
                self.transferred_bytes += outcome.handed_bytes
                self._metrics.count_outcome(outcome)
        return list(points.values()), self._updated_infos(by_batch)

    def newest_decisions(self) -> list[schemas.DecisionInfo]:
        """Return the decisions, newest first."""
        return [self.decision_infos[number] for number in sorted(self.decision_infos, reverse=True)]

    def _add_batch(self, snapshot: Snapshot) -> BatchPoint:
        self._last_batch = snapshot.batch
        point = course.batch_point(snapshot)
        self.points.append(point)
        self._unreported[point.batch] = point
        loads = [round(float(load), 6) for load in snapshot.worker_loads()]
        self._loads_by_batch[snapshot.batch] = loads
        _drop_oldest(self._loads_by_batch, _MAX_POINTS)
        for name, query in snapshot.queries.items():
            if query.keys is not None:
                hashes = ((name, key_hash) for key_hash in query.keys.hashes.tolist())
                self._key_names.update(zip(hashes, query.keys.names, strict=True))
        _drop_oldest(self._key_names, _MAX_KEY_NAMES)
        rows = int(sum(query.rows_in.sum() for query in snapshot.queries.values()))
        self.batches += 1
        self.rows += rows
        self._metrics.count_batch(snapshot.interval_seconds, rows)
        return point

    def _add_lags(self, watermarks: Mapping[str, int]) -> BatchPoint:
        """Add the lags of streams to the newest point."""
        last = self.points[-1]
        point = last.model_copy(update={"lag_seconds": course.lags(last.at, watermarks)})
        self.points[-1] = self._unreported[point.batch] = point
        return point

    def _add_progress(self, progress: Mapping[int, BatchProgress]) -> dict[int, BatchPoint]:
        """Add what Spark reported by now; a batch of which it does not is final a moment later."""
        updated = {}
        for batch in [each for each in self._unreported if each in progress]:
            updated[batch] = course.with_progress(self._unreported[batch], progress[batch])
            self._replace_point(updated[batch])
        for batch in sorted(self._unreported):
            if batch in updated or batch <= self._last_batch - _MAX_UNREPORTED:
                point = self._unreported.pop(batch)
                self.course.add(updated.get(batch, point))
        return updated

    def _replace_point(self, point: BatchPoint) -> None:
        for index in range(len(self.points) - 1, -1, -1):
            if self.points[index].batch == point.batch:
                self.points[index] = point
                return

    def add_past(self, points: Sequence[BatchPoint]) -> None:
        """Add batches before the first to the whole course."""
        whole = self.whole_course()
        first = whole[0].batch - whole[0].batches + 1 if whole else points[-1].batch + 1
        self.course.add_before([point for point in points if point.batch < first])

    def whole_course(self) -> list[BatchPoint]:
        """Return all batches, old ones averaged."""
        return [*self.course.points, *self._unreported.values()]

    def _add_decision(self, decision: Decision) -> None:
        self._last_decided_batch = decision.batch
        self._decisions_by_batch[decision.batch] = decision
        changed = decision.plan is not None
        if changed:
            self.plan_changes += 1
            self.moves += len(decision.moves)
            self._metrics.count_plan_change(decision)
        numbers = [
            n for n, d in self._decisions_by_batch.items() if (d.plan is not None) is changed
        ]
        for number in sorted(numbers)[: -(_MAX_PLAN_CHANGES if changed else _MAX_UNCHANGED)]:
            del self._decisions_by_batch[number]
            self.decision_infos.pop(number, None)
            self._outcomes.pop(number, None)

    def _updated_infos(self, snapshots: Mapping[int, Snapshot]) -> list[schemas.DecisionInfo]:
        updated = []
        for number, decision in self._decisions_by_batch.items():
            known, outcome = self.decision_infos.get(number), self._outcomes.get(number)
            if known is not None and (known.measured or outcome is None):
                continue
            info = present.decision_info(
                decision, outcome, self._loads_by_batch, self._key_names, snapshots.get(number)
            )
            self.decision_infos[number] = info
            updated.append(info)
        return updated


def _drop_oldest(entries: dict[Any, Any], limit: int) -> None:
    while len(entries) > limit:
        del entries[next(iter(entries))]
