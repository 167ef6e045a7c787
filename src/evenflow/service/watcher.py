"""The watcher: reads a run after each batch, on a thread of its own, never in the batch's path."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from evenflow.service import present, schemas
from evenflow.service.metrics import Metrics
from evenflow.service.present import ObservedRun
from evenflow.service.run_protocol import RunProtocol
from evenflow.service.timeline import Timeline

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.2

Status = Literal["starting", "running", "ended"]


@dataclass(frozen=True, slots=True)
class PublishedState:
    """What holds after a batch, and how it differs from what held before."""

    observed: ObservedRun
    state: schemas.RunState
    delta: schemas.StateDelta


class Watcher:
    """Makes each batch a state once, for all who ask."""

    def __init__(self, run: RunProtocol) -> None:
        self._run = run
        self.metrics = Metrics(lambda: None if self.current is None else self.current.state)
        self._timeline = Timeline(run.plan.workers, self.metrics)
        self.current: PublishedState | None = None
        self.failing = False
        self._last_seen: tuple[object, ...] = ()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, publish: Callable[[PublishedState], None], looked: Callable[[], None]) -> None:
        """Publish what holds now, then what changes, until stopped; tell after the first look."""
        self._thread = threading.Thread(
            target=self._poll_loop, args=(publish, looked), name="evenflow-watcher", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def is_alive(self) -> bool:
        """Whether states are still made."""
        return self._thread is not None and self._thread.is_alive() and not self.failing

    def _poll_loop(
        self, publish: Callable[[PublishedState], None], looked: Callable[[], None]
    ) -> None:
        while True:
            try:
                found = self.poll()
                if found is not None:
                    publish(found)
                self.failing = False
            except Exception:  # the run goes on without its page, and the page says so
                if not self.failing:
                    _log.exception("the run cannot be watched; trying again")
                self.failing = True
            looked()
            if self._stop.wait(_POLL_SECONDS):
                return

    def poll(self) -> PublishedState | None:
        """Read the run; None if nothing happened since."""
        run = self._run
        snapshots, decisions, outcomes = run.snapshots, run.decisions, run.outcomes
        status: Status = "ended"
        if run.is_active:
            status = "running" if snapshots else "starting"
        marks = (*(end[-1] if end else None for end in (snapshots, decisions, outcomes)), status)
        if self._last_seen and all(a is b for a, b in zip(marks, self._last_seen, strict=True)):
            return None
        seen = ObservedRun(
            plan=run.plan,
            queries=run.queries,
            streams=run.streams,
            snapshots=snapshots,
            late=run.late,
            quarantined=run.quarantined,
            watermarks=run.watermarks,
        )
        points, better = self._timeline.add(snapshots, decisions, outcomes)
        whole = self._run_state(seen, status)
        delta = _state_delta(
            None if self.current is None else self.current.state, whole, points, better
        )
        self.current, self._last_seen = PublishedState(seen, whole, delta), marks
        return self.current

    def _run_state(self, seen: ObservedRun, status: Status) -> schemas.RunState:
        streams, record = present.stream_infos(seen), self._timeline
        return schemas.RunState(
            summary=self._run_summary(seen, status, streams),
            workers=present.worker_infos(seen),
            queries=present.query_infos(seen, present.SHOWN_QUERIES),
            streams=streams,
            hot_keys=present.hot_key_infos(seen),
            correlation=present.correlation_matrix(record.points, seen.plan.active),
            decisions=record.newest_decisions(),
            points=list(record.points),
        )

    def _run_summary(
        self, seen: ObservedRun, status: Status, streams: list[schemas.StreamInfo]
    ) -> schemas.RunSummary:
        record = self._timeline
        last = record.points[-1] if record.points else None
        active = seen.plan.active
        return schemas.RunSummary(
            status=status,
            batch=None if last is None else last.batch,
            at=None if last is None else last.at,
            batches=record.batches,
            workers=seen.plan.workers,
            active=len(active),
            queries=len(seen.queries),
            imbalance=1.0 if last is None else last.imbalance,
            bound=1 + self._run.balancing.max_imbalance,
            mean_load=float(seen.worker_loads()[list(active)].mean()) if active else 0.0,
            seconds=0.0 if last is None else last.seconds,
            rows_per_second=0.0 if last is None else last.rows_per_second,
            rows=record.rows,
            shipped_bytes=sum(stream.shipped_bytes for stream in streams),
            round_robin_bytes=sum(stream.round_robin_bytes for stream in streams),
            plan_changes=record.plan_changes,
            moves=record.moves,
            handed_bytes=record.transferred_bytes,
            late=sum(seen.late.values()),
            quarantined=len(seen.quarantined),
            refused=len(self._run.refused),
        )


def _state_delta(
    before: schemas.RunState | None,
    after: schemas.RunState,
    points: list[schemas.BatchPoint],
    decisions: list[schemas.DecisionInfo],
) -> schemas.StateDelta:
    parts = ("workers", "queries", "streams", "hot_keys", "correlation")
    changed = {
        part: getattr(after, part)
        for part in parts
        if before is None or getattr(before, part) != getattr(after, part)
    }
    return schemas.StateDelta(summary=after.summary, points=points, decisions=decisions, **changed)
