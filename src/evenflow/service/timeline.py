"""What a run showed so far, batch by batch: a ring of points and decisions, and totals."""

from collections import deque
from collections.abc import Iterable

from evenflow.model.decision import Decision, Outcome
from evenflow.model.snapshot import Snapshot
from evenflow.service import present, schemas
from evenflow.service.deciding import decision_info as decision_view
from evenflow.service.metrics import Metrics

# About fifteen minutes of one-second batches with few workers; fewer where many would weigh much.
_MAX_POINTS, _MIN_POINTS, _MAX_LOAD_VALUES = 900, 120, 20_000
_MAX_PLAN_CHANGES, _MAX_UNCHANGED, _MAX_KEY_NAMES = 200, 60, 5_000


class Timeline:
    """Grows with every batch and forgets the oldest; belongs to one thread."""

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
        snapshots: Iterable[Snapshot],
        decisions: Iterable[Decision],
        outcomes: Iterable[Outcome],
    ) -> tuple[list[schemas.BatchPoint], list[schemas.DecisionInfo]]:
        """Take in what is new; return the points and the decisions that are new or known better."""
        points = [self._add_batch(found) for found in snapshots if found.batch > self._last_batch]
        for made in decisions:
            if made.batch > self._last_decided_batch:
                self._add_decision(made)
        for outcome in outcomes:
            if (
                outcome.decision not in self._outcomes
                and outcome.decision in self._decisions_by_batch
            ):
                self._add_outcome(outcome)
        return points, self._updated_infos()

    def newest_decisions(self) -> list[schemas.DecisionInfo]:
        """Return the decisions, the newest first."""
        return [self.decision_infos[number] for number in sorted(self.decision_infos, reverse=True)]

    def _add_batch(self, found: Snapshot) -> schemas.BatchPoint:
        self._last_batch = found.batch
        added = present.batch_point(found)
        self.points.append(added)
        self._loads_by_batch[found.batch] = [round(float(load), 6) for load in found.worker_loads()]
        while len(self._loads_by_batch) > _MAX_POINTS:
            del self._loads_by_batch[next(iter(self._loads_by_batch))]
        for name, query in found.queries.items():
            if query.keys is not None:
                hashes = query.keys.hashes.tolist()
                self._key_names.update(
                    zip(((name, h) for h in hashes), query.keys.names, strict=True)
                )
        while len(self._key_names) > _MAX_KEY_NAMES:
            del self._key_names[next(iter(self._key_names))]
        rows = int(sum(query.rows_in.sum() for query in found.queries.values()))
        self.batches += 1
        self.rows += rows
        self._metrics.count_batch(found.interval_seconds, rows)
        return added

    def _add_decision(self, made: Decision) -> None:
        self._last_decided_batch = made.batch
        self._decisions_by_batch[made.batch] = made
        if made.plan is not None:
            self.plan_changes += 1
            self.moves += len(made.moves)
            self._metrics.count_plan_change(made)
        for changed, kept in ((True, _MAX_PLAN_CHANGES), (False, _MAX_UNCHANGED)):
            same = [
                n
                for n, one in self._decisions_by_batch.items()
                if (one.plan is not None) is changed
            ]
            for number in sorted(same)[:-kept]:
                del self._decisions_by_batch[number]
                self.decision_infos.pop(number, None)
                self._outcomes.pop(number, None)

    def _add_outcome(self, outcome: Outcome) -> None:
        self._outcomes[outcome.decision] = outcome
        self.transferred_bytes += outcome.handed_bytes
        self._metrics.count_outcome(outcome)

    def _updated_infos(self) -> list[schemas.DecisionInfo]:
        better = []
        for number, made in self._decisions_by_batch.items():
            known = self.decision_infos.get(number)
            if known is not None and (known.measured or number not in self._outcomes):
                continue
            view = decision_view(
                made, self._outcomes.get(number), self._loads_by_batch, self._key_names
            )
            self.decision_infos[number] = view
            better.append(view)
        return better
