"""What a run showed so far, batch by batch: a ring of points and decisions, and totals."""

from collections import deque
from collections.abc import Iterable

from evenflow.model.decision import Decision, Outcome
from evenflow.model.snapshot import Snapshot
from evenflow.service import state, views
from evenflow.service.deciding import decision as decision_view
from evenflow.service.metrics import Metrics

# About fifteen minutes of one-second batches with few workers; fewer where many would weigh much.
_POINTS, _LEAST_POINTS, _VALUES = 900, 120, 20_000
_CHANGES, _OTHERS, _KEY_NAMES = 200, 60, 5_000


class Record:
    """Grows with every batch and forgets the oldest; belongs to one thread."""

    def __init__(self, workers: int, metrics: Metrics) -> None:
        count = min(_POINTS, max(_LEAST_POINTS, _VALUES // workers))
        self.points: deque[views.Point] = deque(maxlen=count)
        self.decisions: dict[int, views.Decision] = {}
        self.batches = self.rows = self.plan_changes = self.moves = 0
        self.handed_bytes = 0.0
        self._metrics = metrics
        self._made: dict[int, Decision] = {}
        self._outcomes: dict[int, Outcome] = {}
        self._loads: dict[int, list[float]] = {}
        self._names: dict[tuple[str, int], str] = {}
        self._last = self._judged = -1

    def add(
        self,
        snapshots: Iterable[Snapshot],
        decisions: Iterable[Decision],
        outcomes: Iterable[Outcome],
    ) -> tuple[list[views.Point], list[views.Decision]]:
        """Take in what is new; return the points and the decisions that are new or known better."""
        points = [self._batch(found) for found in snapshots if found.batch > self._last]
        for made in decisions:
            if made.batch > self._judged:
                self._decided(made)
        for outcome in outcomes:
            if outcome.decision not in self._outcomes and outcome.decision in self._made:
                self._came(outcome)
        return points, self._refresh()

    def shown(self) -> list[views.Decision]:
        """Return the decisions, the newest first."""
        return [self.decisions[number] for number in sorted(self.decisions, reverse=True)]

    def _batch(self, found: Snapshot) -> views.Point:
        self._last = found.batch
        added = state.point(found)
        self.points.append(added)
        self._loads[found.batch] = [round(float(load), 6) for load in found.worker_loads()]
        while len(self._loads) > _POINTS:
            del self._loads[next(iter(self._loads))]
        for name, query in found.queries.items():
            if query.keys is not None:
                hashes = query.keys.hashes.tolist()
                self._names.update(zip(((name, h) for h in hashes), query.keys.names, strict=True))
        while len(self._names) > _KEY_NAMES:
            del self._names[next(iter(self._names))]
        rows = int(sum(query.rows_in.sum() for query in found.queries.values()))
        self.batches += 1
        self.rows += rows
        self._metrics.batch(found.interval_seconds, rows)
        return added

    def _decided(self, made: Decision) -> None:
        self._judged = made.batch
        self._made[made.batch] = made
        if made.plan is not None:
            self.plan_changes += 1
            self.moves += len(made.moves)
            self._metrics.decided(made)
        for changed, kept in ((True, _CHANGES), (False, _OTHERS)):
            same = [n for n, one in self._made.items() if (one.plan is not None) is changed]
            for number in sorted(same)[:-kept]:
                del self._made[number]
                self.decisions.pop(number, None)
                self._outcomes.pop(number, None)

    def _came(self, outcome: Outcome) -> None:
        self._outcomes[outcome.decision] = outcome
        self.handed_bytes += outcome.handed_bytes
        self._metrics.came(outcome)

    def _refresh(self) -> list[views.Decision]:
        better = []
        for number, made in self._made.items():
            known = self.decisions.get(number)
            if known is not None and (known.measured or number not in self._outcomes):
                continue
            view = decision_view(made, self._outcomes.get(number), self._loads, self._names)
            self.decisions[number] = view
            better.append(view)
        return better
