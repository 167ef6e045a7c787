"""A worker's batch: accept moved state, step every query, release state that moves away, save.

The ledger entry of the batch decides everything, so a second attempt does the same. A query that
fails is reported and dropped; the others continue.
"""

import time
import uuid
from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.errors import DamagedFileError
from evenflow.model import EVERYWHERE, Move, Plan, moves_between
from evenflow.model.time import event_times_us
from evenflow.spark.protocol.envelope import Envelope
from evenflow.spark.protocol.ledger import (
    DerivedRows,
    Entry,
    HandOff,
    Ledger,
    SubscriptionChange,
    query_watermark_us,
)
from evenflow.spark.protocol.measure_options import MeasureOptions
from evenflow.spark.protocol.registry import Hosted
from evenflow.spark.protocol.report import QueryStats, Report
from evenflow.spark.worker.crash_blame import AttemptLog
from evenflow.spark.worker.inbox import open_inbox
from evenflow.spark.worker.key_counts import count_keys
from evenflow.spark.worker.router import (
    RowSplit,
    StreamDemand,
    row_split,
    split_by_key,
    stream_demand,
)
from evenflow.spark.worker.worker_state import (
    CachedTask,
    TaskRuntime,
    WorkerState,
    load_worker_state,
)
from evenflow.sql import QueryTask, Task
from evenflow.storage.bundle import Bundle, PartRef, pack, read_part, unpack
from evenflow.storage.fault_points import fault_point

MIN_COMPRESSED_BYTES = 4096  # compressing smaller results takes longer than it saves


class WorkerBatch:
    """One attempt of a worker task at one batch; lives only for that attempt.

    `states` are the cached states of the Python process. The worker's state is taken out of it
    at the start and put back at the end, so a failed attempt leaves nothing to reuse.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        runtime: TaskRuntime,
        states: dict[int, WorkerState],
        worker: int,
        entry: Entry,
        attempt_log: AttemptLog,
        measure_options: MeasureOptions,
    ) -> None:
        self.ledger, self.store, self.runtime, self.states = ledger, ledger.store, runtime, states
        self.worker, self.entry, self.attempt_log = worker, entry, attempt_log
        self.measure_options = measure_options
        self.registry = ledger.registry(entry.registry_version)
        self.plan = ledger.plan(entry.plan_number)
        self.next_plan = ledger.plan(entry.latest_plan_number)
        self.queries_by_uid = {query.uid: query for query in self.registry.queries.values()}
        self.report = Report(worker)
        self.changed_uids: set[str] = set()
        self.stream_demands: dict[str, StreamDemand] = {}
        self.state = WorkerState()
        name = f"{entry.batch:012d}-{worker:05d}-{uuid.uuid4().hex[:12]}"
        self.state_bundle = Bundle(f"state/{name}")
        self.result_bundle = Bundle(f"results/data/{name}")
        self.exchange_bundle = Bundle(f"exchange/{name}")

    def run(self, envelopes: list[Envelope]) -> Report:
        """Run the batch; a worker without anything to do reports that it was idle."""
        incoming = [handoff for handoff in self.entry.incoming if handoff.worker == self.worker]
        derived = [rows for rows in self.entry.derived_rows if rows.worker == self.worker]
        moves, queries = self._outgoing_moves(), self._local_queries()
        changes = [change for change in self.entry.subscription_changes if change.uid in queries]
        if not (envelopes or incoming or derived or moves or changes or self._is_due()):
            self.report.idle = True
            return self.report
        self._restore(self.states.pop(self.worker, WorkerState()))
        for uid in self.attempt_log.blamed_uids:
            error = RuntimeError("the query ended the worker's process: out of time or memory")
            self._fail_query(uid, error)
        for handoff in incoming:
            self._run_isolated(handoff.uid, partial(self._accept_state, handoff))
        for change in changes:
            self._run_isolated(change.uid, partial(self._subscribe, change))
        self.runtime.stop_watchdog()
        inbox = self._open_inbox(envelopes, derived)
        for query in queries.values():
            self._run_isolated(query.uid, partial(self._step, query, inbox))
        for move in moves:
            query = self.registry.queries[move.query]
            self._run_isolated(query.uid, partial(self._release_state, query, move.after))
        self._save_state()
        return self.report

    # The work of this batch

    def _is_hosted(self, uid: str) -> bool:
        return uid in self.queries_by_uid and uid not in self.entry.quarantined

    def _local_queries(self) -> dict[str, Hosted]:
        """Return the queries that run on this worker by uid, in the order of their names."""
        return {
            query.uid: query
            for name, query in sorted(self.registry.queries.items())
            if self.plan.placement.get(name, self.worker) == self.worker
            and query.uid not in self.entry.quarantined
        }

    def _is_due(self) -> bool:
        return any(
            uid in self.queries_by_uid
            and due_us <= query_watermark_us(self.queries_by_uid[uid], self.entry.watermarks)
            for uid, due_us in self.entry.due_us.get(self.worker, {}).items()
        )

    def _outgoing_moves(self) -> list[Move]:
        if self.next_plan is self.plan:
            return []
        moves = moves_from_worker(self.plan, self.next_plan, self.worker)
        return [move for move in moves if move.query in self.registry.queries]

    # The steps

    def _restore(self, cached: WorkerState) -> None:
        index = self.entry.state_refs.get(self.worker)
        if index is None:
            return
        for uid in [uid for uid in cached.tasks if not self._is_hosted(uid)]:
            cached.drop_task(uid)
        if cached.index == index:
            self.state = cached
            return
        self.state, errors = load_worker_state(self.store, index, cached, self._open_task)
        for uid, error in errors.items():
            self._fail_query(uid, error)

    def _open_task(self, uid: str) -> Task | None:
        if not self._is_hosted(uid):
            return None
        return self.runtime.open_task(self.queries_by_uid[uid], self.registry, self.ledger)

    def _task_for_update(self, query: Hosted) -> Task:
        if query.uid not in self.state.tasks:
            task = self.runtime.open_task(query, self.registry, self.ledger)
            self.state.tasks[query.uid] = CachedTask(task)
        self.changed_uids.add(query.uid)
        return self.state.tasks[query.uid].task

    def _open_inbox(
        self, envelopes: list[Envelope], derived: list[DerivedRows]
    ) -> dict[str, pa.Table]:
        """Return new rows by stream; report poison rows and the latest event times."""
        queries = self.queries_by_uid
        published = [(queries[d.uid].name, d.rows) for d in derived if d.uid in queries]
        inbox = open_inbox(self.store, envelopes, published)
        self.report.shipped_bytes = inbox.shipped_bytes
        for stream, rows in inbox.poison.items():
            self.report.poison[stream] = (self.result_bundle.add(pack(rows)), rows.num_rows)
        for stream in {envelope.stream for envelope in envelopes} & inbox.rows.keys():
            times = inbox.rows[stream][self.registry.streams[stream].time]
            self.report.max_event_time_us[stream] = pc.max(event_times_us(times)).as_py()
        return inbox.rows

    def _step(self, query: Hosted, inbox: dict[str, pa.Table]) -> None:
        rows = {stream: self._query_rows(query, stream, inbox) for stream in query.streams}
        rows_in = sum(table.num_rows for table in rows.values())
        watermark_us = query_watermark_us(query, self.entry.watermarks)
        if not rows_in:
            cached = self.state.tasks.get(query.uid)
            due_us = None if cached is None else cached.task.next_due_us
            if due_us is None or due_us > watermark_us:
                return
        task = self._task_for_update(query)  # may compile, which is not part of the query's load
        began = time.thread_time()
        output = task.step(rows, watermark_us)
        rows_out = output.rows.num_rows
        if rows_out:
            compress = output.rows.nbytes > MIN_COMPRESSED_BYTES
            part = self.result_bundle.add(pack(output.rows, compress=compress))
            self.report.results[query.uid] = (part, rows_out)
            if query.publish:
                self._publish(query, output.rows, part)
        stats = QueryStats(
            rows_in=rows_in,
            rows_out=rows_out,
            cpu_seconds=time.thread_time() - began,
            state_bytes=task.state_bytes,
            late_rows={stream: count for stream, count in output.late.items() if count},
            produced=float(rows_out),
        )
        self.report.query_stats[query.uid] = stats
        self._count_keys(query, task, rows, stats)

    def _count_keys(
        self, query: Hosted, task: Task, rows: dict[str, pa.Table], stats: QueryStats
    ) -> None:
        table = self.plan.tables.get(query.name)
        if table is None or query.inferred is None or not self.measure_options.per_key:
            return
        own_keys = table.hashes[table.owners == self.worker]
        counts = count_keys(query.kind, rows, query.inferred, task, stats.rows_out, own_keys)
        self.report.key_counts[query.uid] = counts
        stats.produced = counts.total_produced

    def _publish(self, query: Hosted, rows: pa.Table, part: PartRef) -> None:
        """Send derived rows to the workers that need them by the plan of the next batch."""
        demand = stream_demand(self.registry, self.next_plan, self.entry, query.name)
        parts = [(worker, part) for worker in sorted(demand.full_stream_workers)]
        for worker, share in split_by_key(rows.combine_chunks(), demand):
            parts.append((worker, self.exchange_bundle.add(pack(share))))
        self.report.published += [DerivedRows(query.uid, *placed) for placed in parts]

    def _query_rows(self, query: Hosted, stream: str, inbox: dict[str, pa.Table]) -> pa.Table:
        """Return the rows of a stream that this query gets on this worker."""
        rows = inbox.get(stream)
        if rows is None:
            return self.registry.streams[stream].schema.empty_table()
        if query.name in self.plan.placement:
            return rows
        demand = self.stream_demands.get(stream)
        if demand is None:
            demand = stream_demand(self.registry, self.plan, self.entry, stream)
            self.stream_demands[stream] = demand
        if demand.is_exact_share(self.worker):
            return rows
        return rows.filter(pa.array(row_split(query, stream, self.plan).route(rows) == self.worker))

    def _accept_state(self, handoff: HandOff) -> None:
        task = self._task_for_update(self.queries_by_uid[handoff.uid])
        task.accept(read_part(self.store, handoff.state).to_pybytes())

    def _subscribe(self, change: SubscriptionChange) -> None:
        """Begin or end subscriptions; those of a keyed template are split like its rows."""
        query = self.queries_by_uid[change.uid]
        task = self._task_for_update(query)
        if not isinstance(task, QueryTask):
            raise TypeError(f"{query.name!r} is not a template, so it has no subscriptions")
        rows = unpack(read_part(self.store, change.rows))
        # A subscription that begins again may have had parameters of another worker's keys.
        task.unsubscribe(rows["subscription"])
        if not change.subscribe:
            return
        if query.subscription_key is not None:
            split = RowSplit(query.subscription_key, query.name, self.plan)
            rows = rows.filter(pa.array(split.route(rows) == self.worker))
        task.subscribe(rows)

    def _release_state(self, query: Hosted, target: int) -> None:
        if query.uid not in self.state.tasks:
            return
        if query.name in self.next_plan.placement:
            blob = self.state.tasks[query.uid].task.release_all()
            self.state.drop_task(query.uid)
            self.changed_uids.discard(query.uid)
        else:
            task = self._task_for_update(query)
            blob = task.release(lambda keys: self.next_plan.route(query.name, keys) == target)
        if blob is not None:
            state = self.exchange_bundle.add(blob)
            self.report.handoffs.append(HandOff(query.uid, target, state))

    def _save_state(self) -> None:
        for uid in sorted(self.changed_uids):
            self._run_isolated(uid, partial(self._save_task, uid))
        self.runtime.stop_watchdog()
        self.state.save_index(self.state_bundle)
        fault_point("worker.before_write")
        for bundle in (self.state_bundle, self.result_bundle, self.exchange_bundle):
            bundle.write(self.store)
        fault_point("worker.after_write")
        self.report.state_ref = self.state.index
        self.report.live_files = self.state.live_files()
        self.report.due_us = {
            uid: cached.task.next_due_us
            for uid, cached in sorted(self.state.tasks.items())
            if cached.task.next_due_us is not None
        }
        self.states[self.worker] = self.state

    def _save_task(self, uid: str) -> None:
        began = time.thread_time()
        self.state.save_task(uid, self.state_bundle)
        if uid in self.report.query_stats:
            self.report.query_stats[uid].cpu_seconds += time.thread_time() - began

    # The failure of one query does not affect the others

    def _run_isolated(self, uid: str, action: Callable[[], None]) -> None:
        if not self._is_hosted(uid) or uid in self.report.failed:
            return
        self.attempt_log.record_step(uid)
        try:
            with self.runtime.time_limit():
                action()
        except DamagedFileError:
            raise
        except Exception as error:  # untrusted code may raise anything
            self._fail_query(uid, error)
        self.attempt_log.record_step("")

    def _fail_query(self, uid: str, error: Exception) -> None:
        self.report.failed[uid] = f"{type(error).__name__}: {error}"
        self.report.results.pop(uid, None)
        self.report.key_counts.pop(uid, None)
        self.report.published = [sent for sent in self.report.published if sent.uid != uid]
        self.state.drop_task(uid)
        self.changed_uids.discard(uid)


def moves_from_worker(before: Plan, after: Plan, worker: int) -> list[Move]:
    """Return one move for each query and other worker that may get state from this worker."""
    pairs: set[tuple[str, int]] = set()
    others = [other for other in after.active if other != worker]
    for move in moves_between(before, after):
        if move.before in (worker, EVERYWHERE) and move.after != worker:
            targets = others if move.after == EVERYWHERE else [move.after]
            pairs.update((move.query, target) for target in targets)
    if before.drained != after.drained:  # then the hash moves keys that are not in any table
        shared = before.tables.keys() & after.tables.keys()
        pairs.update((query, target) for query in shared for target in others)
    return [Move(query, worker, target) for query, target in sorted(pairs)]
