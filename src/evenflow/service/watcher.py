"""Polls a run for new batches on its own thread, so that batches never wait for the service."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from evenflow.service import keys, present, schemas
from evenflow.service.correlation import correlation_matrix
from evenflow.service.course import batch_point
from evenflow.service.course_schema import BatchPoint
from evenflow.service.keeping_up import keeping_up
from evenflow.service.log_tail import LogTail
from evenflow.service.metrics import Metrics
from evenflow.service.present import ObservedRun
from evenflow.service.problems import problem_infos
from evenflow.service.run_protocol import RunProtocol
from evenflow.service.tenant_schema import tenant_info
from evenflow.service.timeline import Timeline

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class PublishedState:
    """The state after a batch, its difference to the state published before, and what it cuts off.

    decisions  with all their lists
    course     all batches of the run, old ones averaged
    """

    observed: ObservedRun
    state: schemas.RunState
    delta: schemas.StateDelta
    decisions: list[schemas.DecisionInfo]
    course: list[BatchPoint]


class Watcher:
    """Builds one state per batch for all clients; its thread lives from `start` to `stop`."""

    def __init__(self, run: RunProtocol) -> None:
        self._run = run
        self.metrics = Metrics(lambda: None if self.current is None else self.current.state)
        self._timeline = Timeline(run.plan.workers, self.metrics)
        self.current: PublishedState | None = None
        self.failing = False
        self.log = LogTail()
        self._last_seen: tuple[object, ...] = ()
        self._past: list[BatchPoint] = []  # read by a thread of its own, then added to the course
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, publish: Callable[[PublishedState], None], polled: Callable[[], None]) -> None:
        """Publish the current state, then every change; call `polled` after each poll."""
        self.log.open()
        self._thread = threading.Thread(
            target=self._poll_loop, args=(publish, polled), name="evenflow-watcher", daemon=True
        )
        self._thread.start()
        threading.Thread(target=self._read_past, name="evenflow-past", daemon=True).start()

    def _read_past(self) -> None:
        """Read the batches before those in memory from the history; it may take seconds."""
        try:
            self._past = [batch_point(snapshot) for snapshot in self._run.past_snapshots()]
        except Exception:  # the page then begins later
            _log.exception("the history of the run cannot be read")

    def stop(self) -> None:
        """Stop polling and wait for the thread."""
        self._stop.set()
        self.log.close()
        if self._thread is not None:
            self._thread.join()

    @property
    def checkpoint_uri(self) -> str:
        """The checkpoint of the run."""
        return self._run.checkpoint_uri

    @property
    def is_alive(self) -> bool:
        """Whether the run is being read without errors."""
        return self._thread is not None and self._thread.is_alive() and not self.failing

    def _poll_loop(
        self, publish: Callable[[PublishedState], None], polled: Callable[[], None]
    ) -> None:
        while True:
            try:
                published = self.poll()
                if published is not None:
                    publish(published)
                self.failing = False
            except Exception:  # the run continues without its page; /healthz reports it
                if not self.failing:
                    _log.exception("the run cannot be read; retrying")
                self.failing = True
            polled()
            if self._stop.wait(_POLL_SECONDS):
                return

    def poll(self) -> PublishedState | None:
        """Read the run; None if nothing changed since the last poll."""
        run = self._run
        snapshots, decisions, outcomes = run.snapshots, run.decisions, run.outcomes
        status: schemas.RunStatus = "ended"
        if run.is_active:
            status = "running" if snapshots else "starting"
        progress = run.progress
        reported = progress[max(progress)] if progress else None
        marks = (
            *(end[-1] if end else None for end in (snapshots, decisions, outcomes)),
            reported,
            status,
        )
        if self._last_seen and all(a is b for a, b in zip(marks, self._last_seen, strict=True)):
            return None
        seen = ObservedRun(
            plan=run.plan,
            queries=run.queries,
            streams=run.streams,
            snapshots=snapshots,
            decisions=decisions,
            outcomes=outcomes,
            late=run.late,
            quarantined=run.quarantined,
            tenants=run.tenants,
            watermarks=run.watermarks,
            proposals=tuple(run.proposals()),
            set_aside=run.set_aside,
            ahead=run.ahead,
            advice=run.scaling_advice(),
            alerts=tuple(run.alerts()),
            scales=run.balancing.autoscale is not None,
        )
        points, updated = self._timeline.add(
            snapshots, decisions, outcomes, progress, seen.watermarks
        )
        before, state = self.current, self._run_state(seen, status)
        updated = [present.brief_decision(info) for info in updated]
        delta = _state_delta(None if before is None else before.state, state, points, updated)
        if self._past:
            past, self._past = self._past, []
            self._timeline.add_past(past)
        listed, course = self._timeline.newest_decisions(), self._timeline.whole_course()
        self.current = PublishedState(seen, state, delta, listed, course)
        self._last_seen = marks
        return self.current

    def _run_state(self, seen: ObservedRun, status: schemas.RunStatus) -> schemas.RunState:
        streams, timeline = present.stream_infos(seen), self._timeline
        return schemas.RunState(
            summary=self._run_summary(seen, status, streams),
            workers=present.worker_infos(seen),
            queries=present.query_infos(seen, present.SHOWN_QUERIES),
            streams=streams,
            hot_keys=keys.hot_key_infos(seen),
            correlation=correlation_matrix(timeline.points, seen.plan.active),
            problems=problem_infos(seen, self._run.refused),
            decisions=[present.brief_decision(info) for info in timeline.newest_decisions()],
            tenants=[tenant_info(use) for use in seen.tenants],
            points=list(timeline.points),
        )

    def _run_summary(
        self, seen: ObservedRun, status: schemas.RunStatus, streams: list[schemas.StreamInfo]
    ) -> schemas.RunSummary:
        timeline, active = self._timeline, seen.plan.active
        last = timeline.points[-1] if timeline.points else None
        standing = next((one for one in seen.proposals if one.ended is None), None)
        return schemas.RunSummary(
            status=status,
            batch=None if last is None else last.batch,
            at=None if last is None else last.at,
            batches=timeline.batches,
            trigger_seconds=self._run.trigger_seconds,
            keeping_up=keeping_up(timeline.points, self._run.trigger_seconds),
            workers=seen.plan.workers,
            active=len(active),
            queries=len(seen.queries),
            imbalance=1.0 if last is None else last.imbalance,
            bound=1 + self._run.balancing.max_imbalance,
            mean_load=float(seen.worker_loads()[list(active)].mean()) if active else 0.0,
            seconds=0.0 if last is None else last.seconds,
            rows_per_second=0.0 if last is None else last.rows_per_second,
            rows=timeline.rows,
            shipped_bytes=sum(stream.shipped_bytes for stream in streams),
            round_robin_bytes=sum(stream.round_robin_bytes for stream in streams),
            plan_changes=timeline.plan_changes,
            moves=timeline.moves,
            handed_bytes=timeline.transferred_bytes,
            late=sum(seen.late.values()),
            set_aside=sum(seen.set_aside.values()),
            quarantined=len(seen.quarantined),
            refused=len(self._run.refused),
            proposal=None if standing is None else standing.number,
            proposal_state=None if standing is None else standing.state,
            alerts=sum(alert.ended_at is None for alert in seen.alerts),
            workers_needed=None if seen.advice is None else seen.advice.workers,
        )


def _state_delta(
    before: schemas.RunState | None,
    after: schemas.RunState,
    points: list[BatchPoint],
    decisions: list[schemas.DecisionInfo],
) -> schemas.StateDelta:
    parts = ("workers", "queries", "streams", "hot_keys", "correlation", "problems", "tenants")
    changed = {
        part: getattr(after, part)
        for part in parts
        if before is None or getattr(before, part) != getattr(after, part)
    }
    return schemas.StateDelta(summary=after.summary, points=points, decisions=decisions, **changed)
