"""The commit of a batch: observe, propose, admit, await approval, record, commit.

Entry b + 1 of the ledger commits batch b. Everything before it is written under names that a replay
of batch b writes again, so a crash at any point leaves all of the batch or nothing of it.
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

import pyarrow as pa

from evenflow.errors import FencedError
from evenflow.model import Plan, Proposal, VerdictCode, may_move_state
from evenflow.model.alert import AlertRules
from evenflow.model.retention import Retention
from evenflow.spark.driver.admit import admit, complete_with_pins, with_verdicts
from evenflow.spark.driver.alert_book import AlertBook
from evenflow.spark.driver.alert_measures import CommittedBatch
from evenflow.spark.driver.balancer import Balancer
from evenflow.spark.driver.checkpoint import Checkpoint
from evenflow.spark.driver.combine_choice import next_combined, uncombined_queries
from evenflow.spark.driver.commands import CommandLog, TakenCommands
from evenflow.spark.driver.commit import (
    NextState,
    drop_failed_queries,
    has_due_work,
    next_entry,
    streams_after,
)
from evenflow.spark.driver.completed_batch import CompletedBatch
from evenflow.spark.driver.direct_reads import with_direct_reads
from evenflow.spark.driver.keep_state import keep_states
from evenflow.spark.driver.leave_out import reasons_to_leave_out, without_queries
from evenflow.spark.driver.limiter import Limiter
from evenflow.spark.driver.maintenance import Maintenance
from evenflow.spark.driver.next_backfills import (
    delete_strays,
    finished_backfills,
    next_backfills,
)
from evenflow.spark.driver.plan_changes import place_waiting_queries
from evenflow.spark.driver.replacement import (
    inherited_uids,
    rename_entry,
    with_inherited_states,
)
from evenflow.spark.driver.set_aside_alarm import SetAsideAlarm
from evenflow.spark.protocol.ledger import Entry, ProposalRef
from evenflow.spark.protocol.registry import Registry
from evenflow.spark.protocol.report import Report
from evenflow.storage.fault_points import fault_point
from evenflow.storage.file_store import FileStore

_MAX_COMPLETED_BATCHES = 200


class Committer:
    """Commits the batches of one run.

    Driver process, from `Flow.start` until the run ends. `commit` runs in the thread of Spark's
    micro-batch; other threads submit to `commands` and read the rest.
    """

    def __init__(
        self,
        store: FileStore,
        workers: int,
        balancer: Balancer,
        keep_results: Retention | None = None,
        alert_rules: AlertRules = AlertRules(),  # noqa: B008 - frozen
        limiter: Limiter | None = None,
    ) -> None:
        self.balancer = balancer
        self.limiter = limiter or Limiter()
        self.checkpoint = Checkpoint(store, workers)
        self.maintenance = Maintenance(self.checkpoint, keep_results)
        self.commands = CommandLog(self.checkpoint, balancer.place_arrivals)
        self.completed_batches: deque[CompletedBatch] = deque(maxlen=_MAX_COMPLETED_BATCHES)
        self.is_fenced = False
        self.alerts = AlertBook(alert_rules, store.uri)
        self._set_aside_alarm = SetAsideAlarm()
        self._last_commit = time.monotonic()  # the clock may be set
        self._uncombinable: set[str] = set()

    def open(
        self,
        registry: Registry,
        plan: Plan,
        subscriptions: Iterable[tuple[str, pa.Table]] = (),
        check: Callable[[Registry], None] = lambda _: None,
    ) -> bool:
        """Open the checkpoint and continue where it stands; return whether it is new.

        A new one begins with these queries and subscriptions. `check` raises if what an existing
        one hosts does not fit.
        """
        plan = place_waiting_queries(plan, registry, self.balancer.place_arrivals)
        if self.checkpoint.open(registry, plan, subscriptions, check):
            return True
        self.maintenance.open(self.checkpoint.head())
        self._set_aside_alarm.start(self.checkpoint.head())
        self.commands.replay()
        upcoming, hosted = self.commands.next_registry(), self.checkpoint.registry()
        delete_strays(self.checkpoint.store, self.checkpoint.head(), hosted, upcoming)
        if self.has_pending_work():
            self.checkpoint.wake()
        return False

    def leave_out(self, names: Collection[str], *, safe: bool) -> None:
        """Quarantine queries before the first batch: cancelled ones, those named, unproven ones.

        With `safe` also those hosted since the last good batch.
        """
        ledger, head = self.checkpoint.ledger, self.checkpoint.head()
        last_good = None
        if safe:
            before = head.last_good_version
            last_good = Registry() if before is None else ledger.registry(before)
        hosted = ledger.registry(head.registry_version)
        reasons = reasons_to_leave_out(
            head, hosted, self.commands.next_registry(), names=names, last_good=last_good
        )
        if reasons:
            ledger.replace_head(without_queries(self.checkpoint.ledger, head, reasons))

    def has_pending_work(self) -> bool:
        """Tell whether there is something to do even if no more rows arrive."""
        head = self.checkpoint.head()
        registry = self.checkpoint.ledger.registry(head.registry_version)
        return self.commands.has_requests or has_due_work(head, registry)

    def commit(self, batch: int, collect: Callable[[], Iterable[Report]]) -> None:
        """Commit a batch, given how to run it; one that is committed already is not run again."""
        ledger = self.checkpoint.ledger
        if batch < self.checkpoint.head().batch:
            return
        entry = ledger.entry(batch)
        registry = ledger.registry(entry.registry_version)
        spark_files = self.checkpoint.spark_folder.save(batch, entry.epoch)
        began = time.monotonic()
        reports = tuple(drop_failed_queries(collect()))
        work_seconds = time.monotonic() - began
        fault_point("driver.collected")
        failed = {uid for report in reports for uid in report.failed}
        kept_states = keep_states(ledger, entry, failed)
        self.checkpoint.results_index.write(batch, reports, time.time())
        fault_point("driver.results")
        with self.commands.lock:
            self.commands.switch_filled(entry)
            taken = self.commands.take()
            completed, refusals = self._complete(entry, reports, taken)
            completed = replace(completed, work_seconds=work_seconds)
            self.balancer.observe(completed)
            limits = self.limiter.decide(entry, completed, self.balancer.snapshots[-1])
            proposed = with_verdicts(
                self.balancer.propose(completed), VerdictCode.PLAN_REFUSED, "plan", *refusals
            )
            admitted = admit(proposed, completed, self.balancer.explain)
            decision, standing = self.balancer.await_approval(admitted, completed)
            self.balancer.record(decision, completed)
            self.commands.refused.extend(
                verdict.message
                for verdict in decision.verdicts
                if verdict.code == VerdictCode.PLAN_REFUSED
            )
            next_state = self._write_plans(entry, taken, decision.plan)
            next_state = replace(
                next_state,
                backfills=next_backfills(
                    ledger.store, entry, registry, taken.registry, taken.plan, failed
                ),
                kept_states=kept_states,
                combined=self._next_combined(entry, taken.registry, reports),
                paces=limits.paces,
                block_list=self.maintenance.next_block_list(entry),
                proposal=self._write_proposal(entry, standing),
            )
            following = next_entry(entry, registry, reports, next_state)
            following = with_inherited_states(ledger, following, registry, next_state.registry)
            following = without_queries(ledger, following, limits.quarantined)
            following = with_direct_reads(
                replace(following, spark_files=spark_files),
                rename_entry(entry, inherited_uids(registry, next_state.registry)),
                next_state.registry,
                ledger.plan(following.plan_number),
                streams_after(registry, next_state.watermark_resets),
            )
            if has_due_work(following, taken.registry):
                self.checkpoint.spark_folder.wake(f"{batch:012d}")
            fault_point("driver.pulse")
            try:
                ledger.write(following)
            except FencedError:
                self.is_fenced = True
                raise
        fault_point("driver.ledger")
        self.completed_batches.append(completed)
        self._set_aside_alarm.check(following)
        self.alerts.check(
            CommittedBatch(
                snapshot=self.balancer.snapshots[-1],
                decision=decision,
                before=entry,
                after=following,
                registry=taken.registry,
                min_excess=self.balancer.config.min_excess,
            )
        )
        self.maintenance.notify(following, finished_backfills(entry, following))

    def _complete(
        self, entry: Entry, reports: tuple[Report, ...], taken: TakenCommands
    ) -> tuple[CompletedBatch, list[str]]:
        """Return the batch with what is in force after it, and why a requested plan is refused."""
        previous, self._last_commit = self._last_commit, time.monotonic()
        batch = CompletedBatch(
            number=entry.batch,
            at=time.time(),
            seconds=self._last_commit - previous,
            reports=reports,
            watermarks=dict(entry.watermarks),
            registry=taken.registry,
            plan=self.checkpoint.ledger.plan(entry.plan_number),
            next_plan=taken.plan,
            drain=taken.drain,
            combined=entry.combined,
            proposal=self._standing_proposal(entry, taken.approve),
        )
        refusals: list[str] = []
        if taken.requested_plan is not None:
            requested = complete_with_pins(taken.requested_plan, batch, refusals)
            batch = replace(batch, requested_plan=requested)
        return batch, refusals

    def _standing_proposal(self, entry: Entry, approve: bool | None) -> Proposal | None:
        """Return the proposal of an entry, with the answer to it."""
        if entry.proposal is None:
            return None
        standing = self.checkpoint.ledger.proposal(entry.proposal)
        return standing if approve is None else standing.answer(approve=approve)

    def _write_proposal(self, entry: Entry, standing: Proposal | None) -> ProposalRef | None:
        """Write a new proposal; of one that stood before, only its state may have changed."""
        if standing is None:
            return None
        if entry.proposal is not None and entry.proposal.number == standing.number:
            return replace(entry.proposal, state=standing.state)
        return self.checkpoint.ledger.write_proposal(standing)

    def _next_combined(
        self, entry: Entry, registry: Registry, reports: tuple[Report, ...]
    ) -> frozenset[str]:
        if not self.balancer.config.combine:
            return frozenset()
        self._uncombinable |= uncombined_queries(reports)
        return next_combined(entry, registry, reports, self._uncombinable)

    def _write_plans(self, entry: Entry, taken: TakenCommands, decided: Plan | None) -> NextState:
        """Write the registry and plans of the next entry, if they changed."""
        ledger, number = self.checkpoint.ledger, entry.latest_plan_number
        before, registry = ledger.registry(entry.registry_version), taken.registry
        if registry.version != before.version:
            number = ledger.next_number(number)
            for uid in before.by_uid.keys() - registry.by_uid.keys():
                ledger.write_cancelled(before.by_uid[uid])
            registry = replace(registry, version=ledger.next_number(before.version))
            ledger.write_registry(registry)
            ledger.write_plan(number, taken.plan)
        self.commands.finish_drain(decided or taken.plan)
        next_state = NextState(
            registry=registry,
            plan_number=number,
            rollback_plan_number=entry.rollback_plan_number,
            subscription_changes=taken.subscription_changes,
            commands_applied=taken.applied,
            resumed=taken.resumed,
            watermark_resets=taken.watermark_resets,
        )
        if decided is None:
            return next_state
        next_number = ledger.next_number(number)
        ledger.write_plan(next_number, decided)
        fault_point("driver.plan")
        if not may_move_state(taken.plan, decided):
            return replace(next_state, plan_number=next_number)
        return replace(next_state, next_plan_number=next_number, rollback_plan_number=number)
