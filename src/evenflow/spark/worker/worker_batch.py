"""A worker's batch: take in what was handed over, step every query, release what moves, save.

The ledger entry of the batch decides everything, so that a second attempt does the same. A query
that fails is left out and reported; the others go on.
"""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model import EVERYWHERE, Move, Plan, moves_between
from evenflow.spark.protocol.ledger import DerivedRows, Entry, HandOff, Ledger, SubscriptionChange
from evenflow.spark.protocol.measure_options import MeasureOptions, emulate_cost
from evenflow.spark.protocol.registry import Hosted, Registry
from evenflow.spark.protocol.report import QueryStats, Report
from evenflow.spark.worker.crash_blame import AttemptLog
from evenflow.spark.worker.inbox import Envelope, open_inbox
from evenflow.spark.worker.key_counts import count_keys
from evenflow.spark.worker.router import (
    RowSplit,
    StreamDemand,
    event_times_us,
    row_split,
    split_by_key,
    stream_demand,
)
from evenflow.spark.worker.worker_state import CachedTask, WorkerState, load_worker_state
from evenflow.sql import QueryTask, Task
from evenflow.storage.bundle import Bundle, PartRef, pack, read_part, unpack
from evenflow.storage.fault_points import fault_point

NO_WATERMARK = -(1 << 62)
MIN_COMPRESSED_BYTES = 4096  # bytes of results up to which compressing takes longer than it saves


class TaskRuntime(Protocol):
    """Opens tasks; one of each process (`evenflow.spark.worker.sql_runtime` has the real one)."""

    def open_task(self, query: Hosted, registry: Registry, ledger: Ledger) -> Task:
        """Return an empty task of a query."""

    def time_limit(self) -> AbstractContextManager[None]:
        """Bound the time of what runs inside."""

    def stop_watchdog(self) -> None:
        """Note that what follows is no query's: it may take as long as it takes."""


class WorkerProcess:
    """What a Python process keeps between batches, for all workers that come to run in it."""

    def __init__(self, ledger: Ledger, runtime: TaskRuntime) -> None:
        self.ledger = ledger
        self.runtime = runtime
        self.states: dict[int, WorkerState] = {}

    def run_batch(
        self,
        slot: int,
        batch: int,
        envelopes: Iterable[Envelope],
        attempt: int = 0,
        measuring: MeasureOptions = MeasureOptions(),  # noqa: B008 - frozen
    ) -> Report:
        """Run one worker's batch."""
        began = time.thread_time()
        care = AttemptLog(self.ledger.store, slot, batch, attempt)
        work = WorkerBatch(self, slot, self.ledger.entry(batch), care, measuring)
        try:
            report = work.run(list(envelopes))
        finally:
            self.runtime.stop_watchdog()
        report.cpu_seconds = time.thread_time() - began
        emulate_cost(report, measuring.emulated_seconds_per_row)
        return report


class WorkerBatch:
    def __init__(
        self,
        process: WorkerProcess,
        slot: int,
        entry: Entry,
        care: AttemptLog,
        measuring: MeasureOptions,
    ) -> None:
        self.process, self.worker, self.entry, self.attempt_log = process, slot, entry, care
        self.measure_options = measuring
        self.ledger, self.store = process.ledger, process.ledger.store
        self.registry = self.ledger.registry(entry.registry_version)
        self.plan = self.ledger.plan(entry.plan_number)
        self.queries_by_uid = {query.uid: query for query in self.registry.queries.values()}
        self.report = Report(slot)
        self.changed_uids: set[str] = set()
        self.stream_demands: dict[str, StreamDemand] = {}
        self.state = WorkerState()
        attempt = f"{entry.batch:012d}-{slot:05d}-{uuid.uuid4().hex[:12]}"
        self.state_bundle = Bundle(f"state/{attempt}")
        self.result_bundle = Bundle(f"results/data/{attempt}")
        self.exchange_bundle = Bundle(f"exchange/{attempt}")

    def run(self, envelopes: list[Envelope]) -> Report:
        intake = [handoff for handoff in self.entry.incoming if handoff.worker == self.worker]
        derived = [derived for derived in self.entry.derived_rows if derived.worker == self.worker]
        releasing, subscribing = self._outgoing_moves(), self._subscription_changes()
        if not (envelopes or intake or derived or releasing or subscribing or self._is_due()):
            self.report.idle = True
            return self.report
        # Nothing may be reused if this attempt dies half way, so the process forgets the state
        # until it is whole again.
        self._restore(self.process.states.pop(self.worker, WorkerState()))
        for uid in self.attempt_log.blamed_uids:
            self._fail_query(uid, RuntimeError("it ended the worker's process, by time or memory"))
        for handoff in intake:
            self._run_isolated(handoff.uid, partial(self._accept_state, handoff))
        for change in subscribing:
            self._run_isolated(change.uid, partial(self._subscribe, change))
        self.process.runtime.stop_watchdog()
        inbox = self._open_inbox(envelopes, derived)
        for query in self._local_queries():
            self._run_isolated(query.uid, partial(self._step, query, inbox))
        for move in releasing:
            query = self.registry.queries[move.query]
            self._run_isolated(query.uid, partial(self._release_state, query, move.after))
        self._save_state()
        return self.report

    # What there is to do

    def _is_due(self) -> bool:
        return any(
            uid in self.queries_by_uid
            and due <= query_watermark_us(self.queries_by_uid[uid], self.entry)
            for uid, due in self.entry.due_us.get(self.worker, {}).items()
        )

    def _local_queries(self) -> Iterator[Hosted]:
        for name in sorted(self.registry.queries):
            query = self.registry.queries[name]
            here = self.plan.placement.get(name, self.worker) == self.worker
            if here and query.uid not in self.entry.quarantined:
                yield query

    def _outgoing_moves(self) -> list[Move]:
        """Return what goes to which worker at the end of this batch."""
        if self.entry.next_plan_number is None:
            return []
        found = moves_from_worker(
            self.plan, self.ledger.plan(self.entry.next_plan_number), self.worker
        )
        return [move for move in found if move.query in self.registry.queries]

    def _subscription_changes(self) -> list[SubscriptionChange]:
        hosted = {query.uid for query in self._local_queries()}
        return [change for change in self.entry.subscription_changes if change.uid in hosted]

    # The steps

    def _restore(self, cached: WorkerState) -> None:
        index = self.entry.state_refs.get(self.worker)
        if index is None:
            return
        for uid in [uid for uid in cached.tasks if uid not in self.queries_by_uid]:
            cached.drop_task(uid)
        for uid in self.entry.quarantined:
            cached.drop_task(uid)
        if cached.index == index:
            self.state = cached
            return
        self.state, broken = load_worker_state(self.store, index, cached, self._open_task)
        for uid, error in broken.items():
            self._fail_query(uid, error)

    def _open_task(self, uid: str) -> Task | None:
        query = self.queries_by_uid.get(uid)
        if query is None or uid in self.entry.quarantined:
            return None
        return self.process.runtime.open_task(query, self.registry, self.ledger)

    def _task_for_update(self, uid: str) -> Task:
        kept = self.state.tasks.get(uid)
        if kept is None:
            query = self.queries_by_uid[uid]
            kept = CachedTask(self.process.runtime.open_task(query, self.registry, self.ledger))
            self.state.tasks[uid] = kept
        self.changed_uids.add(uid)
        return kept.task

    def _open_inbox(
        self, envelopes: list[Envelope], derived: list[DerivedRows]
    ) -> dict[str, pa.Table]:
        """Open what came; set the rows aside whose time is of no use, and note the latest ones."""
        known = [one for one in derived if one.uid in self.queries_by_uid]
        named = [(self.queries_by_uid[one.uid].name, one.rows) for one in known]
        inbox = open_inbox(self.store, envelopes, named)
        self.report.shipped_bytes = inbox.shipped_bytes
        for stream, aside in inbox.poison.items():
            self.report.poison[stream] = (self.result_bundle.add(pack(aside)), aside.num_rows)
        for stream in {envelope.stream for envelope in envelopes} & inbox.rows.keys():
            times = event_times_us(inbox.rows[stream], self.registry.streams[stream])
            self.report.max_event_time_us[stream] = pc.max(times).as_py()
        return inbox.rows

    def _step(self, query: Hosted, inbox: dict[str, pa.Table]) -> None:
        rows = {stream: self._query_rows(query, stream, inbox) for stream in query.streams}
        number = sum(table.num_rows for table in rows.values())
        kept = self.state.tasks.get(query.uid)
        mark = query_watermark_us(query, self.entry)
        due = (
            kept is not None and kept.task.next_due_us is not None and kept.task.next_due_us <= mark
        )
        if not number and not due:
            return
        task = self._task_for_update(
            query.uid
        )  # compiled here once, which is no load of the query's
        began = time.thread_time()
        output = task.step(rows, mark)
        late = {stream: count for stream, count in output.late.items() if count}
        made = output.rows.num_rows
        if made:
            part = self.result_bundle.add(
                pack(output.rows, compress=output.rows.nbytes > MIN_COMPRESSED_BYTES)
            )
            self.report.results[query.uid] = (part, made)
            if query.publish:
                self._publish(query, output.rows, part)
        stats = QueryStats(
            number, made, time.thread_time() - began, task.state_bytes, late, float(made)
        )
        self.report.query_stats[query.uid] = stats
        self._count_keys(query, task, rows, stats)

    def _count_keys(
        self, query: Hosted, task: Task, rows: dict[str, pa.Table], stats: QueryStats
    ) -> None:
        """Tell what the keys of a keyed query took."""
        table = self.plan.tables.get(query.name)
        if table is None or query.inferred is None or not self.measure_options.per_key:
            return
        mine = table.hashes[table.owners == self.worker]
        counts = count_keys(query.kind, rows, query.inferred, task, stats.rows_out, mine)
        self.report.key_counts[query.uid] = counts
        stats.produced = counts.total_produced

    def _publish(self, query: Hosted, rows: pa.Table, part: PartRef) -> None:
        """Address derived rows by the plan of the next batch, which is known by now."""
        number = (
            self.entry.plan_number
            if self.entry.next_plan_number is None
            else self.entry.next_plan_number
        )
        need = stream_demand(self.registry, self.ledger.plan(number), self.entry, query.name)
        published = self.report.published
        published += [
            DerivedRows(query.uid, slot, part) for slot in sorted(need.full_stream_workers)
        ]
        published += [
            DerivedRows(query.uid, slot, self.exchange_bundle.add(pack(share)))
            for slot, share in split_by_key(rows.combine_chunks(), need)
        ]

    def _query_rows(self, query: Hosted, stream: str, inbox: dict[str, pa.Table]) -> pa.Table:
        """Return the rows of a stream that are this query's on this worker."""
        rows = inbox.get(stream)
        if rows is None:
            return self.registry.streams[stream].schema.empty_table()
        if query.name in self.plan.placement:
            return rows
        if stream not in self.stream_demands:
            self.stream_demands[stream] = stream_demand(
                self.registry, self.plan, self.entry, stream
            )
        if self.stream_demands[stream].is_exact_share(self.worker):
            return rows
        return rows.filter(pa.array(row_split(query, stream, self.plan).route(rows) == self.worker))

    def _accept_state(self, handoff: HandOff) -> None:
        self._task_for_update(handoff.uid).accept(read_part(self.store, handoff.state).to_pybytes())

    def _subscribe(self, change: SubscriptionChange) -> None:
        """Begin or end subscriptions; a keyed template's are split as its rows are."""
        query, task = self.queries_by_uid[change.uid], self._task_for_update(change.uid)
        if not isinstance(task, QueryTask):
            raise TypeError(f"{query.name} is no template")
        rows = unpack(read_part(self.store, change.rows))
        # One that begins again with other parameters may have lived on another worker.
        task.unsubscribe(rows["subscription"])
        if not change.subscribe:
            return
        if query.subscription_key is not None:
            table, drained = self.plan.tables[query.name], self.plan.drained
            split = RowSplit(query.subscription_key, table, self.plan.workers, drained)
            rows = rows.filter(pa.array(split.route(rows) == self.worker))
        task.subscribe(rows)

    def _release_state(self, query: Hosted, target: int) -> None:
        if query.uid not in self.state.tasks or self.entry.next_plan_number is None:
            return
        following = self.ledger.plan(self.entry.next_plan_number)
        if query.name in following.placement:
            blob = self.state.tasks[query.uid].task.release_all()
            self.state.drop_task(query.uid)
            self.changed_uids.discard(query.uid)
        else:
            task = self._task_for_update(query.uid)
            blob = task.release(lambda h: following.route(query.name, h) == target)
        if blob is not None:
            state = self.exchange_bundle.add(blob)
            self.report.handoffs.append(HandOff(query.uid, target, state))

    def _save_state(self) -> None:
        for uid in sorted(self.changed_uids):
            self._run_isolated(uid, partial(self._save_task, uid))
        self.process.runtime.stop_watchdog()
        self.state.save_index(self.state_bundle)
        fault_point("worker.before_write")
        for bundle in (self.state_bundle, self.result_bundle, self.exchange_bundle):
            bundle.write(self.store)
        fault_point("worker.after_write")
        tasks = self.state.tasks
        self.report.state_ref = self.state.index
        self.report.live_files = self.state.live_files()
        self.report.due_us = {
            uid: kept.task.next_due_us
            for uid, kept in sorted(tasks.items())
            if kept.task.next_due_us is not None
        }
        self.process.states[self.worker] = self.state

    def _save_task(self, uid: str) -> None:
        began = time.thread_time()
        self.state.save_task(uid, self.state_bundle)
        if uid in self.report.query_stats:
            self.report.query_stats[uid].cpu_seconds += time.thread_time() - began

    # One query's failure is only its own

    def _run_isolated(self, uid: str, action: Callable[[], None]) -> None:
        if (
            uid not in self.queries_by_uid
            or uid in self.report.failed
            or uid in self.entry.quarantined
        ):
            return
        self.attempt_log.record_step(uid)
        try:
            with self.process.runtime.time_limit():
                action()
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


def query_watermark_us(query: Hosted, entry: Entry) -> int:
    """Return a query's watermark: that of its slowest stream."""
    return min(entry.watermarks.get(stream, NO_WATERMARK) for stream in query.streams)


def moves_from_worker(before: Plan, after: Plan, slot: int) -> list[Move]:
    """Return one move for each query and worker that something goes to from this worker."""
    found: set[tuple[str, int]] = set()
    everyone = [worker for worker in after.active if worker != slot]
    for move in moves_between(before, after):
        if move.before in (slot, EVERYWHERE) and move.after != slot:
            targets = everyone if move.after == EVERYWHERE else [move.after]
            found.update((move.query, target) for target in targets)
    if before.drained != after.drained:  # then the hash moves keys that no table names
        shared = before.tables.keys() & after.tables.keys()
        found.update((query, target) for query in shared for target in everyone)
    return [Move(query, slot, target) for query, target in sorted(found)]
