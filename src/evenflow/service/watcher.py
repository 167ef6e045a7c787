"""The watcher: reads a run after each batch, on a thread of its own, never in the batch's path."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from evenflow.service import state, views
from evenflow.service.metrics import Metrics
from evenflow.service.record import Record
from evenflow.service.running import Running
from evenflow.service.state import Seen

_log = logging.getLogger(__name__)
_TICK_SECONDS = 0.2

Status = Literal["starting", "running", "ended"]


@dataclass(frozen=True, slots=True)
class Published:
    """What holds after a batch, and how it differs from what held before."""

    seen: Seen
    state: views.State
    delta: views.Delta


class Watcher:
    """Makes each batch a state once, for all who ask."""

    def __init__(self, run: Running) -> None:
        self._run = run
        self.metrics = Metrics(lambda: None if self.current is None else self.current.state)
        self._record = Record(run.plan.workers, self.metrics)
        self.current: Published | None = None
        self.failing = False
        self._marks: tuple[object, ...] = ()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, publish: Callable[[Published], None], looked: Callable[[], None]) -> None:
        """Publish what holds now, then what changes, until stopped; tell after the first look."""
        self._thread = threading.Thread(
            target=self._watch, args=(publish, looked), name="evenflow-watcher", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def alive(self) -> bool:
        """Whether states are still made."""
        return self._thread is not None and self._thread.is_alive() and not self.failing

    def _watch(self, publish: Callable[[Published], None], looked: Callable[[], None]) -> None:
        while True:
            try:
                found = self.look()
                if found is not None:
                    publish(found)
                self.failing = False
            except Exception:  # the run goes on without its page, and the page says so
                if not self.failing:
                    _log.exception("the run cannot be watched; trying again")
                self.failing = True
            looked()
            if self._stop.wait(_TICK_SECONDS):
                return

    def look(self) -> Published | None:
        """Read the run; None if nothing happened since."""
        run = self._run
        snapshots, decisions, outcomes = run.snapshots, run.decisions, run.outcomes
        status: Status = "ended"
        if run.is_active:
            status = "running" if snapshots else "starting"
        marks = (*(end[-1] if end else None for end in (snapshots, decisions, outcomes)), status)
        if self._marks and all(a is b for a, b in zip(marks, self._marks, strict=True)):
            return None
        seen = Seen(
            plan=run.plan,
            queries=run.queries,
            streams=run.streams,
            snapshots=snapshots,
            late=run.late,
            quarantined=run.quarantined,
            watermarks=run.watermarks,
        )
        points, better = self._record.add(snapshots, decisions, outcomes)
        whole = self._state(seen, status)
        delta = _delta(None if self.current is None else self.current.state, whole, points, better)
        self.current, self._marks = Published(seen, whole, delta), marks
        return self.current

    def _state(self, seen: Seen, status: Status) -> views.State:
        streams, record = state.streams(seen), self._record
        return views.State(
            summary=self._summary(seen, status, streams),
            workers=state.workers(seen),
            queries=state.queries(seen, state.SHOWN_QUERIES),
            streams=streams,
            hot_keys=state.hot_keys(seen),
            correlation=state.correlation(record.points, seen.plan.active),
            decisions=record.shown(),
            points=list(record.points),
        )

    def _summary(self, seen: Seen, status: Status, streams: list[views.Stream]) -> views.Summary:
        record = self._record
        last = record.points[-1] if record.points else None
        active = seen.plan.active
        return views.Summary(
            status=status,
            batch=None if last is None else last.batch,
            at=None if last is None else last.at,
            batches=record.batches,
            workers=seen.plan.workers,
            active=len(active),
            queries=len(seen.queries),
            imbalance=1.0 if last is None else last.imbalance,
            bound=1 + self._run.balancing.max_imbalance,
            mean_load=float(seen.shares()[list(active)].mean()) if active else 0.0,
            seconds=0.0 if last is None else last.seconds,
            rows_per_second=0.0 if last is None else last.rows_per_second,
            rows=record.rows,
            shipped_bytes=sum(stream.shipped_bytes for stream in streams),
            round_robin_bytes=sum(stream.round_robin_bytes for stream in streams),
            plan_changes=record.plan_changes,
            moves=record.moves,
            handed_bytes=record.handed_bytes,
            late=sum(seen.late.values()),
            quarantined=len(seen.quarantined),
            refused=len(self._run.refused),
        )


def _delta(
    before: views.State | None,
    after: views.State,
    points: list[views.Point],
    decisions: list[views.Decision],
) -> views.Delta:
    parts = ("workers", "queries", "streams", "hot_keys", "correlation")
    changed = {
        part: getattr(after, part)
        for part in parts
        if before is None or getattr(before, part) != getattr(after, part)
    }
    return views.Delta(summary=after.summary, points=points, decisions=decisions, **changed)
