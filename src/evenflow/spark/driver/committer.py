"""The driver's side of a batch: collect the reports, write what follows from them, clean up.

Entry b + 1 of the ledger is the commit of batch b. Everything before it is written under names
that a replay of b writes again, so a crash at any point leaves either all of the batch or nothing.
"""

import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.model import Plan, may_move_state
from evenflow.spark.driver import cleanup, commit
from evenflow.spark.driver.checkpoint import CheckpointLock, open_checkpoint
from evenflow.spark.driver.commands import (
    ChangeSubscriptions,
    Command,
    CommandLog,
    DrainWorker,
    PendingState,
)
from evenflow.spark.driver.commit import NextState
from evenflow.spark.driver.completed_batch import CompletedBatch, Controller, DecisionRecorder
from evenflow.spark.protocol.ledger import Entry, Ledger, SubscriptionChange
from evenflow.spark.protocol.registry import Registry
from evenflow.spark.protocol.report import Report
from evenflow.spark.protocol.results_index import ResultsIndex
from evenflow.storage.bundle import Bundle, PartRef, pack
from evenflow.storage.fault_points import fault_point
from evenflow.storage.file_store import FileStore

_MAX_COMPLETED_BATCHES = 200


class Committer:
    """Owns the ledger of one run."""

    def __init__(
        self,
        store: FileStore,
        workers: int,
        controller: Controller | None = None,
        arrive: commit.PlaceArrivals = commit.place_on_fewest,
        record: DecisionRecorder | None = None,
    ) -> None:
        self.store = store
        self.workers = workers
        self.controller, self.place_arrivals, self.record_decision = controller, arrive, record
        self.ledger = Ledger(store)
        self.completed_batches: deque[CompletedBatch] = deque(maxlen=_MAX_COMPLETED_BATCHES)
        self.refused: deque[str] = deque(maxlen=_MAX_COMPLETED_BATCHES)
        # Held over a border, so that what is checked against a state is asked of that state.
        self.lock = threading.RLock()
        self._lock_file: CheckpointLock | None = None
        self.identity = ""
        self.results_index = ResultsIndex(store)
        self._log = CommandLog(store)
        self._pending: PendingState | None = None
        self._previewed: tuple[PendingState, Command, PendingState] | None = None
        self._requested_plan: Plan | None = None
        self._requested_drain: frozenset[int] | None = None  # asked for and not yet so
        self._refused_at_boundary: list[
            str
        ] = []  # why plans are not followed from the border at hand
        self._last_boundary_at = time.time()

    # Opening

    def open(self, registry: Registry, plan: Plan, engine: str) -> bool:
        """Take the checkpoint; tell whether it is new."""
        self._lock_file = CheckpointLock(self.store)
        plan = commit.place_waiting_queries(plan, registry, self.place_arrivals)
        new = open_checkpoint(self.ledger, registry, plan, engine)
        self.identity = str(self.store.read_record("meta")["identity"])
        if new:
            return True
        head = self.head()
        cleanup.delete_unreferenced(self.ledger, head)
        self._replay(self._log.read_pending(head))
        return False

    def _replay(self, asks: Iterable[Command]) -> None:
        """Go on with what was asked of the run before; what cannot be any more is refused."""
        for ask in asks:
            try:
                self._pending = self._pending_or_current().apply(ask)
            except InputError as error:
                self.refused.append(str(error))
        if self._pending is not None:
            self.wake()

    def close(self) -> None:
        """Let another driver have the checkpoint."""
        if self._lock_file is not None:
            self._lock_file.release()

    def write_first_subscriptions(self, subscriptions: Iterable[tuple[str, pa.Table]]) -> None:
        """Add the first subscriptions to the first batch, before it runs."""
        first = self.ledger.entry(0)
        queries = self.ledger.registry(first.registry_version).queries
        subscribing = tuple(
            SubscriptionChange(queries[name].uid, self.store_rows(rows), subscribe=True)
            for name, rows in subscriptions
        )
        self.ledger.write(replace(first, subscription_changes=subscribing))

    def head(self) -> Entry:
        """Return the entry of the batch that comes next."""
        return self.ledger.entry(self.ledger.batches()[-1])

    def has_pending_work(self) -> bool:
        """Tell whether there is something to do even if no more rows arrive."""
        head = self.head()
        asked = (
            self._pending is not None
            or self._requested_plan is not None
            or self._requested_drain is not None
        )
        return asked or commit.has_due_work(head, self.ledger.registry(head.registry_version))

    def result_parts(self, kind: str, name: str, first: int = 0) -> list[tuple[str, int, int]]:
        """Return where the committed results of a query stand (or the poison rows of a stream)."""
        return self.results_index.part_locations(self.ledger.batches()[-1], kind, name, first)

    # What is asked between batches

    def submit(self, ask: Command) -> Registry:
        """Have something changed at the next border, or refuse; see that one comes.

        It is written down before this returns. Returns the registry as it will be.
        """
        with self.lock:
            upcoming = self._pending_after(ask)
            self._log.append(ask)
            self._pending, self._previewed = upcoming, None
        fault_point("driver.asked")
        self.wake()
        return upcoming.registry

    def request_plan(self, plan: Plan) -> None:
        """Have a plan followed: state is released one batch, routing follows the next."""
        with self.lock:
            registry, present = self.next_registry_and_plan()
            commit.complete_plan(plan, present, registry)
            self._requested_plan = plan
        self.wake()

    def request_drain(self, worker: int, *, drain: bool) -> None:
        """Have a worker drained, or used again, from a border on."""
        self.submit(DrainWorker(worker, drain))

    def request_rollback(self) -> None:
        """Have the plan before the last moves followed again, as far as it still fits."""
        with self.lock:
            back = self.head().rollback_plan_number
            if back is None:
                raise InputError("nothing has been moved yet, so there is no plan to go back to")
            registry, present = self.next_registry_and_plan()
            self._requested_plan = commit.feasible_part(self.ledger.plan(back), present, registry)
        self.wake()

    def subscribe(self, name: str, rows: pa.Table, *, begin: bool) -> None:
        """Have subscriptions of a template begin, or end, at the next border."""
        self.submit(ChangeSubscriptions(name, self.store_rows(rows), begin))

    def store_rows(self, rows: pa.Table) -> PartRef:
        head = self.ledger.batches()[-1]
        bundle = Bundle(f"exchange/{head:012d}-asked-{uuid.uuid4().hex[:12]}")
        ref = bundle.add(pack(rows))
        bundle.write(self.store, durable=True)
        return ref

    def wake(self) -> None:
        """Make Spark run a batch even if no rows arrive."""
        head = self.ledger.batches()[-1]
        self.store.write(f"pulse/{head:012d}-{uuid.uuid4().hex[:12]}", [b"\n"])

    def next_registry_and_plan(self) -> tuple[Registry, Plan]:
        """Return registry and plan as they will be after the next border."""
        with self.lock:
            coming = self._pending_or_current()
        return coming.registry, commit.place_waiting_queries(
            coming.plan, coming.registry, self.place_arrivals
        )

    def next_registry(self) -> Registry:
        """Return what will be hosted after the next border."""
        with self.lock:
            return self._pending_or_current().registry

    def preview(self, ask: Command) -> Registry:
        """Return what would be hosted with one more ask taken in, or refuse that."""
        with self.lock:
            return self._pending_after(ask).registry

    def _pending_after(self, ask: Command) -> PendingState:
        """Return what comes with one more ask; what was tried is not compiled a second time."""
        coming = self._pending_or_current()
        if (
            self._previewed is None
            or self._previewed[1] != ask
            or not self._previewed[0].is_same(coming)
        ):
            self._previewed = coming, ask, coming.apply(ask)
        return self._previewed[2]

    def _pending_or_current(self) -> PendingState:
        return self._pending or self._committed_state(self.head())

    def _committed_state(self, entry: Entry) -> PendingState:
        number = entry.plan_number if entry.next_plan_number is None else entry.next_plan_number
        return PendingState(self.ledger.registry(entry.registry_version), self.ledger.plan(number))

    # The border

    def commit(self, batch: int, collect: Callable[[], Iterable[Report]]) -> None:
        """End a batch; a batch that the ledger has already is not run again."""
        if self.store.exists(f"ledger/{batch + 1:012d}"):
            return
        entry = self.ledger.entry(batch)
        registry = self.ledger.registry(entry.registry_version)
        reports = commit.drop_failed_queries(collect())
        fault_point("driver.collected")
        self.results_index.write(batch, reports)
        fault_point("driver.results")
        with self.lock:
            done, asked = self._next_state(entry, tuple(reports))
            following = commit.next_entry(entry, registry, reports, asked)
            if commit.has_due_work(following, asked.registry):
                self.store.write(f"pulse/{batch:012d}", [b"\n"])
            fault_point("driver.pulse")
            self.ledger.write(following)
        fault_point("driver.ledger")
        self.completed_batches.append(done)
        cleanup.clean_up(self.ledger, following)

    def _next_state(
        self, entry: Entry, reports: tuple[Report, ...]
    ) -> tuple[CompletedBatch, NextState]:
        """Turn what was asked and decided into a registry and plans, written before their entry."""
        before = self.ledger.registry(entry.registry_version)
        coming = self._pending_or_current()
        registry, plan = self.next_registry_and_plan()
        self._requested_drain = coming.drain if coming.drain is not None else self._requested_drain
        drain = plan.drained if self._requested_drain is None else self._requested_drain
        self._pending = None
        wanted, self._requested_plan = self._requested_plan, None
        given = None if wanted is None else self._admit(wanted, plan, registry)
        now = time.time()
        done = CompletedBatch(
            entry.batch, now, now - self._last_boundary_at, reports, dict(entry.watermarks),
            registry, self.ledger.plan(entry.plan_number), plan, drain, given,
        )  # fmt: skip
        self._last_boundary_at = now
        following = self._choose_plan(done)
        number = entry.plan_number if entry.next_plan_number is None else entry.next_plan_number
        if registry.version != before.version:
            number += 1
            self._write_cancelled(before, registry)
            self.ledger.write_registry(registry)
            self.ledger.write_plan(number, plan)
        asked = NextState(
            registry,
            number,
            None,
            coming.subscription_changes,
            entry.rollback_plan_number,
            self._log.next_number,
        )
        if drain == (following or plan).drained:
            self._requested_drain = None
        if following is None:
            return done, asked
        self.ledger.write_plan(number + 1, following)
        fault_point("driver.plan")
        if not may_move_state(plan, following):
            return done, replace(asked, plan_number=number + 1)
        return done, replace(asked, next_plan_number=number + 1, rollback_plan_number=number)

    def _write_cancelled(self, before: Registry, registry: Registry) -> None:
        hosted = {query.uid for query in registry.queries.values()}
        for query in before.queries.values():
            if query.uid not in hosted:
                self.ledger.write_cancelled(query)

    def _choose_plan(self, done: CompletedBatch) -> Plan | None:
        """Return the plan that holds after a batch, if it is another: asked for, or decided.

        Pins hold whatever becomes of it.
        """
        plan, registry = done.next_plan, done.registry
        decided = None if self.controller is None else self.controller(done)
        following = done.requested_plan or self._admit(decided, plan, registry)
        if following is None and decided is not None:
            following = self._admit(None, plan, registry)
        if self.record_decision is not None:
            self.record_decision(done, following, tuple(self._refused_at_boundary))
        self.refused.extend(self._refused_at_boundary)
        self._refused_at_boundary = []
        return following

    def _admit(self, wanted: Plan | None, plan: Plan, registry: Registry) -> Plan | None:
        """Complete a plan; one that does not fit what is hosted by now is refused, not fatal."""
        pinned = commit.with_pins(wanted, plan, registry)
        if pinned is None:
            return None
        try:
            return commit.complete_plan(pinned, plan, registry)
        except InputError as error:
            self._refused_at_boundary.append(str(error))
            return None
