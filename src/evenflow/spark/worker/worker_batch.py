"""A worker's batch: accept moved state, step every query, release state that moves away, save.

The ledger entry of the batch decides everything, so a second attempt does the same. A query that
fails is reported and dropped; the others continue (see `query_guard`).
"""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model import moves_from_worker
from evenflow.model.time import event_times_us
from evenflow.spark.protocol.envelope import Envelope
from evenflow.spark.protocol.ledger import DerivedRows
from evenflow.spark.protocol.report import Report, SetAsideCount
from evenflow.spark.worker.batch_context import BatchContext
from evenflow.spark.worker.crash_blame import AttemptLog
from evenflow.spark.worker.inbox import Inbox, open_inbox
from evenflow.spark.worker.intake import read_intakes, uids_with_intake
from evenflow.spark.worker.query_guard import QueryGuard
from evenflow.spark.worker.query_work import QueryWork
from evenflow.spark.worker.set_aside import MAX_BATCH_BYTES, MAX_STREAM_BYTES, SetAside
from evenflow.spark.worker.worker_state import SavedTask, WorkerState, load_worker_state
from evenflow.sql import Task
from evenflow.storage.bundle import pack
from evenflow.storage.fault_points import fault_point
from evenflow.storage.stored_parts import write_bundle


class WorkerBatch:
    """One attempt of a worker task at one batch; lives only for that attempt.

    `states` are the cached states of the Python process. The worker's state is taken out of it
    at the start and put back at the end, so a failed attempt leaves nothing to reuse.
    """

    def __init__(
        self,
        context: BatchContext,
        states: dict[int, WorkerState],
        attempt_log: AttemptLog,
        left_out: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`left_out` are queries that have failed in this attempt already, and why."""
        self.context, self.states, self.attempt_log = context, states, attempt_log
        self.worker, self.entry, self.report = context.worker, context.entry, context.report
        self.left_out = left_out
        self.report.failed.update(left_out)
        self.guard = QueryGuard(context, attempt_log)
        suspect = attempt_log.suspect
        attempt_log.let_run_before_suspect(context.direct_rows.publishers_of_all(suspect))

    def run(self, envelopes: list[Envelope]) -> Report:
        """Run the batch; a worker without anything to do reports that it was idle."""
        context, entry, worker = self.context, self.entry, self.worker
        derived = [rows for rows in entry.derived_rows if rows.worker == worker]
        moves, queries = self._outgoing_moves(), context.local_queries()
        arriving = queries.keys() & uids_with_intake(entry, worker)
        waiting = queries.keys() & entry.waiting.keys()
        if not (envelopes or arriving or derived or moves or waiting or self._is_due()):
            self.report.idle = True
            return self.report
        self._restore(self.states.pop(worker, WorkerState()))
        intakes = read_intakes(context.store, entry, worker, arriving)
        inbox = self._open_inbox(envelopes, derived)
        # The suspect goes first: if the process ends again, no other query has run in it.
        for uid in context.direct_rows.in_order(queries, self.attempt_log.suspect):
            work, backfill = QueryWork(context, queries[uid]), None
            if uid in intakes:
                take_in = partial(work.take_in, intakes[uid])
                self.guard.run(uid, take_in, intakes[uid].size_bytes)
                backfill = intakes[uid].backfill
            self.guard.run(uid, partial(work.step, inbox, backfill))
        for name, targets in moves.items():
            work = QueryWork(context, context.registry.queries[name])
            self.guard.run(work.query.uid, partial(work.release, targets))
        for uid in sorted(context.changed_uids):
            self.guard.run(uid, QueryWork(context, context.registry.by_uid[uid]).save)
        if context.direct_rows.withdrawn:
            return self._run_without(context.direct_rows.withdrawn, envelopes)
        self._write()
        return self.report

    def _run_without(self, uids: set[str], envelopes: list[Envelope]) -> Report:
        """Run the batch again without queries that failed after others had read their rows."""
        failed = {uid: self.report.failed[uid] for uid in uids | self.left_out.keys()}
        self.context.state.close()
        again = WorkerBatch(self.context.restarted(), self.states, self.attempt_log, failed)
        report = again.run(envelopes)
        self.context.process_cpu_seconds += again.context.process_cpu_seconds
        return report

    # The work of this batch

    def _is_due(self) -> bool:
        queries = self.context.registry.by_uid
        return any(
            uid in queries and due_us <= self.entry.watermark_us(queries[uid])
            for uid, due_us in self.entry.due_us.get(self.worker, {}).items()
        )

    def _outgoing_moves(self) -> dict[str, list[int]]:
        """Return the queries with state to release, and the workers that may get it."""
        plan, next_plan = self.context.plan, self.context.next_plan
        moves: dict[str, list[int]] = {}
        if next_plan is not plan:
            for move in moves_from_worker(plan, next_plan, self.worker):
                if move.query in self.context.registry.queries:
                    moves.setdefault(move.query, []).append(move.after)
        return moves

    # Begin and end

    def _restore(self, cached: WorkerState) -> None:
        """Bring the state to that of the entry."""
        context, index = self.context, self.entry.state_refs.get(self.worker)
        if index is None:
            return
        for uid in [uid for uid in cached.tasks if not self._has_state(uid)]:
            cached.drop_task(uid)
        if cached.index == index:
            context.state = cached
        else:
            context.state = load_worker_state(context.store, index, cached, self._load_task)
        context.runtime.stop_watchdog()

    def _has_state(self, uid: str) -> bool:
        return self.context.has_state_here(uid) and uid not in self.report.failed

    def _load_task(self, uid: str, saved: SavedTask) -> Task | None:
        if not self._has_state(uid):
            return None
        segments = saved.read_segments(self.context.store)
        work = QueryWork(self.context, self.context.registry.by_uid[uid])
        load = partial(work.load, saved.manifest, segments)
        return self.guard.run(uid, load, saved.stored_bytes)

    def _open_inbox(self, envelopes: list[Envelope], derived: list[DerivedRows]) -> Inbox:
        """Open what was sent to this worker; report poison rows and the latest event times."""
        context, queries = self.context, self.context.registry.by_uid
        published = [(queries[d.uid].name, d.rows) for d in derived if d.uid in queries]
        inbox = open_inbox(context.store, envelopes, published)
        self.report.shipped_bytes = inbox.shipped_bytes
        for stream, parts in inbox.poison.items():
            self._set_aside(stream, parts)
        latest_us = dict(inbox.latest_us)
        for stream in {envelope.stream for envelope in envelopes} & inbox.rows.keys():
            times = inbox.rows[stream][context.registry.streams[stream].time]
            last_us = pc.max(event_times_us(times)).as_py()
            latest_us[stream] = max(last_us, latest_us.get(stream, last_us))
        self.report.max_event_time_us = latest_us
        context.rows = sum(table.num_rows for table in inbox.rows.values())
        return inbox

    def _set_aside(self, stream: str, parts: list[pa.Table]) -> None:
        """Store rows that were set aside, up to the bounds, and count all of them."""
        left = MAX_STREAM_BYTES - self.entry.set_aside_bytes.get(stream, 0)
        merged = SetAside.merge(parts, max_bytes=min(MAX_BATCH_BYTES, left))
        count = SetAsideCount(invalid=merged.invalid, ahead=merged.ahead)
        if merged.rows:
            rows = pa.concat_tables(merged.rows)
            part = self.context.result_bundle.add(pack(rows))
            self.report.poison[stream] = (part, rows.num_rows)
            count.stored_bytes = part.length
        self.report.set_aside[stream] = count

    def _write(self) -> None:
        context, state = self.context, self.context.state
        context.runtime.stop_watchdog()
        state.save_index(context.state_bundle)
        fault_point("worker.before_write")
        for bundle in (context.state_bundle, context.result_bundle):
            write_bundle(context.store, bundle)
        fault_point("worker.after_write")
        if self.report.handoffs:
            fault_point("worker.handed_off")
        self.report.state_ref = state.index
        self.report.live_files = state.live_files()
        self.report.due_us = {
            uid: due_us
            for uid, due_us in sorted(context.due_us.items())
            if uid in state.tasks and due_us is not None
        }
        state.batch = self.entry.batch
        self.states[self.worker] = state
