"""What one attempt of a worker at one batch works with: its inputs, its state, what it writes."""

import uuid
from dataclasses import dataclass, field

from evenflow.model import Plan
from evenflow.model.codes import QueryForm
from evenflow.spark.protocol.ledger import Entry, Ledger, results_folder
from evenflow.spark.protocol.measure_options import MeasureOptions
from evenflow.spark.protocol.registry import Hosted, Registry
from evenflow.spark.protocol.report import Report
from evenflow.spark.protocol.step_limits import StepLimits
from evenflow.spark.worker.direct_rows import DirectRows
from evenflow.spark.worker.router import StreamDemand, stream_demand
from evenflow.spark.worker.worker_state import CachedTask, TaskRuntime, WorkerState
from evenflow.sql import Task, WaitingRows
from evenflow.storage.bundle import Bundle
from evenflow.storage.file_store import FileStore


@dataclass(slots=True, kw_only=True)
class BatchContext:
    """One worker's batch; lives in the worker task, for one attempt.

    next_plan     the plan that state is released for: the same as `plan` if nothing moves
    rows          how many rows this worker got
    process_cpu_seconds  of the processes of isolated operators
    warm_uids     queries that this process has stepped before
    changed_uids  queries whose state must be saved
    due_us        query uid -> event time at which it emits without new rows: at first that of the
                  entry, so that it does not depend on the process that runs the batch
    direct_rows   rows published in this batch that others here read in it
    """

    ledger: Ledger
    runtime: TaskRuntime
    worker: int
    entry: Entry
    measure_options: MeasureOptions
    step_limits: StepLimits
    warm_uids: frozenset[str] = frozenset()
    rows: int = 0
    process_cpu_seconds: float = 0.0
    store: FileStore = field(init=False)
    registry: Registry = field(init=False)
    plan: Plan = field(init=False)
    next_plan: Plan = field(init=False)
    report: Report = field(init=False)
    state: WorkerState = field(default_factory=WorkerState)
    changed_uids: set[str] = field(default_factory=set)
    due_us: dict[str, int | None] = field(init=False)
    state_bundle: Bundle = field(init=False)
    result_bundle: Bundle = field(init=False)
    direct_rows: DirectRows = field(init=False)
    _stream_demands: dict[str, StreamDemand] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = self.ledger.store
        self.registry = self.ledger.registry(self.entry.registry_version)
        self.plan = self.ledger.plan(self.entry.plan_number)
        self.next_plan = self.ledger.plan(self.entry.latest_plan_number)
        self.report = Report(self.worker)
        self.direct_rows = DirectRows(self.registry, self.entry)
        self.due_us = dict(self.entry.due_us.get(self.worker, {}))
        name = f"{self.entry.batch:012d}-{self.worker:05d}-{uuid.uuid4().hex[:12]}"
        self.state_bundle = Bundle(f"state/{name}")
        self.result_bundle = Bundle(f"{results_folder(self.entry.batch)}/{name}")

    def restarted(self) -> "BatchContext":
        """Return the context of the same batch before anything was done in it."""
        return BatchContext(
            ledger=self.ledger,
            runtime=self.runtime,
            worker=self.worker,
            entry=self.entry,
            measure_options=self.measure_options,
            step_limits=self.step_limits,
            warm_uids=self.warm_uids,
        )

    def step_seconds(self, uid: str, more_bytes: int = 0) -> float:
        """Return how long a call into a query may take; `more_bytes`: state that it takes in."""
        is_operator = self.registry.by_uid[uid].form == QueryForm.OPERATOR
        is_warm = is_operator or uid in self.warm_uids
        limits = self.step_limits if is_warm else self.step_limits.for_first()
        slowed, cached = self.entry.slowed.get(uid), self.state.tasks.get(uid)
        rows = self.rows + (slowed.rows if slowed else 0)
        if uid in self.entry.backfills:
            rows += self.entry.backfills[uid].rows
        return limits.for_work(rows, more_bytes + (cached.stored_bytes if cached else 0))

    def is_hosted(self, uid: str) -> bool:
        """Tell whether a query runs in this batch."""
        return uid in self.registry.by_uid and uid not in self.entry.quarantined

    def has_state_here(self, uid: str) -> bool:
        """Tell whether the state of this worker counts: that of a resumed query is kept apart."""
        return self.is_hosted(uid) and uid not in self.entry.kept_states

    def local_queries(self) -> dict[str, Hosted]:
        """Return the queries that run on this worker by uid, in the order of their names."""
        return {
            query.uid: query
            for name, query in sorted(self.registry.queries.items())
            if self.plan.placement.get(name, self.worker) == self.worker
            and query.uid not in self.entry.quarantined
        }

    def open_task(self, query: Hosted) -> Task:
        """Return an empty task of a query."""
        task = self.runtime.open_task(query, self.registry, self.ledger)
        task.waiting = WaitingRows(
            {
                stream: tuple(dict.fromkeys((self.registry.streams[stream].time, *columns)))
                for stream, columns in query.columns_read.items()
            },
            query.inferred or {},
        )
        return task

    def task_for_update(self, query: Hosted) -> Task:
        """Return the task of a query, whose state will be saved."""
        if query.uid not in self.state.tasks:
            self.state.tasks[query.uid] = CachedTask(self.open_task(query))
        self.changed_uids.add(query.uid)
        return self.state.tasks[query.uid].task

    def drop_query(self, uid: str) -> None:
        """Remove what a query that failed leaves: its task, results and published rows."""
        self.report.results.pop(uid, None)
        self.report.key_counts.pop(uid, None)
        self.report.waiting.pop(uid, None)
        self.report.published = [sent for sent in self.report.published if sent.uid != uid]
        self.direct_rows.withdraw(uid)
        self.state.drop_task(uid)
        self.changed_uids.discard(uid)

    def stream_demand(self, stream: str) -> StreamDemand:
        """Return who needs a stream in this batch."""
        if stream not in self._stream_demands:
            demand = stream_demand(self.registry, self.plan, self.entry, stream)
            self._stream_demands[stream] = demand
        return self._stream_demands[stream]
