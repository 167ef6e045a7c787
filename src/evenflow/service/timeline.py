"""The course of a run: charts, decisions and totals, added batch by batch."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evenflow.model.decision import Decision, Outcome
from evenflow.model.snapshot import Snapshot
from evenflow.service import present, schemas
from evenflow.service.metrics import Metrics

# 900 points are 15 minutes of one-second batches; fewer with many workers, to bound the size.
_MAX_POINTS, _MIN_POINTS, _MAX_LOAD_VALUES = 900, 120, 20_000
_MAX_PLAN_CHANGES, _MAX_UNCHANGED, _MAX_KEY_NAMES = 200, 60, 5_000


class Timeline:
    """Recent batches and decisions, oldest dropped first. Used only on the watcher thread."""

    def __init__(self, workers: int, metrics: Metrics) -> None:
        count = min(_MAX_POINTS, max(_MIN_POINTS, _MAX_LOAD_VALUES // workers))
        self.points: deque[schemas.BatchPoint] = deque(maxlen=count)
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
    ) -> tuple[list[schemas.BatchPoint], list[schemas.DecisionInfo]]:
        """Add what is new; return the new points, and the decisions that are new or updated."""
        points = [self._add_batch(each) for each in snapshots if each.batch > self._last_batch]
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
        return points, self._updated_infos(by_batch)

    def newest_decisions(self) -> list[schemas.DecisionInfo]:
        """Return the decisions, newest first."""
        return [self.decision_infos[number] for number in sorted(self.decision_infos, reverse=True)]

    def _add_batch(self, snapshot: Snapshot) -> schemas.BatchPoint:
        self._last_batch = snapshot.batch
        point = present.batch_point(snapshot)
        self.points.append(point)
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
