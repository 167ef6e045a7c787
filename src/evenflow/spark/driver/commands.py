"""Commands that change a flow while it runs: each is on disk before its caller gets an answer.

A command stays a file until a commit has applied it; the ledger entry counts the applied ones. So
an accepted command survives a crash of the driver, and no command is applied twice.
"""

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.model.tenants import Tenants
from evenflow.spark.driver.checkpoint import Checkpoint
from evenflow.spark.driver.pending_state import (
    COMMAND_FOLDER,
    ChangeSubscriptions,
    Command,
    PendingState,
    command_file,
    read_command,
    write_command,
)
from evenflow.spark.driver.plan_changes import (
    PlaceArrivals,
    complete_plan,
    feasible_part,
    place_waiting_queries,
)
from evenflow.spark.driver.replacement import ReplaceQuery, switch_filled
from evenflow.spark.driver.submission import CheckedProgram, Submission, try_subscriptions
from evenflow.spark.driver.tenant_checks import check_queries, check_subscriptions
from evenflow.spark.protocol.ledger import Entry, SubscriptionChange
from evenflow.spark.protocol.registry import Registry
from evenflow.storage.fault_points import fault_point
from evenflow.storage.file_store import FileStore

_MAX_REFUSED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenCommands:
    """What a commit applies.

    plan            the plan after the commands, with arriving queries placed
    resumed         uids of quarantined queries that run again
    drain           workers that should be drained
    requested_plan  a plan that a caller wants to be followed
    applied         how many commands of the log are included so far
    watermark_resets  source -> its watermark from now on
    approve         the answer to the proposal that stands; None: nobody answered
    """

    registry: Registry
    plan: Plan
    subscription_changes: tuple[SubscriptionChange, ...]
    resumed: frozenset[str]
    drain: frozenset[int]
    requested_plan: Plan | None
    applied: int
    watermark_resets: Mapping[str, int]
    approve: bool | None


class CommandLog:
    """Accepts commands between commits.

    Driver process, as long as the run. Any thread submits; the committer takes what is pending and
    holds `lock` from there to the commit, so that a command is checked against the state it will
    be applied to. Requested plans are not on disk: a restart forgets them.
    """

    def __init__(self, checkpoint: Checkpoint, place_arrivals: PlaceArrivals) -> None:
        self.lock = threading.RLock()
        self.refused: deque[str] = deque(maxlen=_MAX_REFUSED)
        self._checkpoint = checkpoint
        self.place_arrivals = place_arrivals
        self._next_number = 0
        self._pending: PendingState | None = None
        self._previewed: tuple[PendingState, Command, PendingState] | None = None
        self._requested_plan: Plan | None = None
        self._requested_drain: frozenset[int] | None = None  # until the plan has it

    def replay(self) -> None:
        """Apply the commands of an earlier run that no commit has applied."""
        head, store = self._checkpoint.head(), self._checkpoint.store
        numbers = [int(name) for name in store.list_names(COMMAND_FOLDER)]
        self._next_number = max([head.commands_applied, *(number + 1 for number in numbers)])
        for number in numbers:
            if number >= head.commands_applied:
                self._replay_one(number)
        delete_commands(store, (number for number in numbers if number < head.commands_applied))
        if self._pending is not None:
            self._checkpoint.wake()

    def _replay_one(self, number: int) -> None:
        try:
            command = read_command(self._checkpoint.store, number)
            self._pending = self._pending_or_current().apply(command)
        except Exception as error:  # an operator's module may raise anything
            self.refused.append(str(error))

    def compile(self, submission: Submission | ReplaceQuery) -> CheckedProgram:
        """Compile a submission without the lock, so that no commit waits for it."""
        with self.lock:
            state = self._pending_or_current()
        submission.check(state.registry, state.plan)
        return submission.compile_apart(state.registry)

    def submit(self, command: Command, checked: CheckedProgram | None = None) -> Registry:
        """Accept a command for the next commit, or refuse it; return the registry it leads to."""
        with self.lock:
            while True:
                pending, number = self._pending_after(command, checked), self._next_number
                self._next_number += 1
                try:
                    write_command(self._checkpoint.store, number, command)
                    break
                except FileExistsError:  # a driver that was fenced meanwhile accepted one
                    self._replay_one(number)
            self._pending, self._previewed = pending, None
        # A driver that took over before the command was written may never look at it.
        self._checkpoint.ledger.check_fence()
        fault_point("driver.command")
        self._checkpoint.wake()
        return pending.registry

    def try_subscriptions(self, name: str, rows: pa.Table) -> None:
        """Refuse subscriptions with which a template fails for all; call it without the lock."""
        with self.lock:
            registry = self._pending_or_current().registry
        if name in registry.queries:
            try_subscriptions(registry.queries[name], registry, rows)

    def subscribe(self, name: str, rows: pa.Table, *, subscribe: bool) -> None:
        """Add or remove subscriptions of a template at the next commit."""
        ref = self._checkpoint.store_rows(rows)
        self.submit(ChangeSubscriptions(name, ref, subscribe, len(rows)))

    def request_plan(self, plan: Plan) -> None:
        """Follow a plan: state is released in one batch, routing follows in the next."""
        with self.lock:
            registry, current = self.next_registry_and_plan()
            complete_plan(plan, current, registry)
            self._requested_plan = plan
        self._checkpoint.wake()

    def request_rollback(self) -> None:
        """Follow the plan before the last moves again, as far as it still fits."""
        with self.lock:
            number = self._checkpoint.head().rollback_plan_number
            if number is None:
                raise InputError("nothing has been moved yet, so there is no plan to go back to")
            registry, current = self.next_registry_and_plan()
            earlier = self._checkpoint.ledger.plan(number)
            self._requested_plan = feasible_part(earlier, current, registry)
        self._checkpoint.wake()

    @property
    def has_requests(self) -> bool:
        """Whether the next commit has something to apply."""
        requests = (self._pending, self._requested_plan, self._requested_drain)
        return any(request is not None for request in requests)

    def check_queries(self, submission: Submission, tenants: Tenants) -> None:
        """Refuse a query that its tenant may not have in addition."""
        with self.lock:
            check_queries(self._pending_or_current().registry, submission.tenant, tenants)

    def check_subscriptions(self, name: str, count: int, tenants: Tenants) -> None:
        """Refuse subscriptions that the tenant of a template may not have in addition."""
        with self.lock:
            state, head = self._pending_or_current(), self._checkpoint.head()
            changes = (*head.subscription_changes, *state.subscription_changes)
            entry = replace(head, subscription_changes=changes)
            check_subscriptions(state.registry, entry.subscription_count, name, count, tenants)

    def next_registry(self) -> Registry:
        """Return what will be hosted after the next commit."""
        with self.lock:
            return self._pending_or_current().registry

    def next_registry_and_plan(self) -> tuple[Registry, Plan]:
        """Return registry and plan after the next commit."""
        with self.lock:
            state = self._pending_or_current()
        plan = place_waiting_queries(state.plan, state.registry, self.place_arrivals)
        return state.registry, plan

    def preview(self, submission: Submission | ReplaceQuery, checked: CheckedProgram) -> Registry:
        """Return what would be hosted with one more query, or refuse the query."""
        with self.lock:
            return self._pending_after(submission, checked).registry

    def switch_filled(self, entry: Entry) -> None:
        """Let queries take the places they wait for, after the batch of `entry`, with `lock` held.

        It follows from the entry alone, so a batch that is run again switches the same ones.
        """
        state = self._pending_or_current()
        registry, plan = switch_filled(state.registry, state.plan, entry)
        if registry is not state.registry:
            self._pending = replace(state, registry=registry, plan=plan)

    def take(self) -> TakenCommands:
        """Return everything pending, for the commit at hand; call it with `lock` held."""
        state = self._pending_or_current()
        registry, plan = self.next_registry_and_plan()
        if state.drain is not None:
            self._requested_drain = state.drain
        requested_plan, self._requested_plan, self._pending = self._requested_plan, None, None
        return TakenCommands(
            registry=registry,
            plan=plan,
            subscription_changes=state.subscription_changes,
            resumed=state.resumed,
            drain=plan.drained if self._requested_drain is None else self._requested_drain,
            requested_plan=requested_plan,
            applied=self._next_number,
            watermark_resets=state.watermark_resets,
            approve=state.approve,
        )

    def finish_drain(self, plan: Plan) -> None:
        """Forget the requested drain once a plan has it."""
        if self._requested_drain == plan.drained:
            self._requested_drain = None

    def _pending_after(self, command: Command, checked: CheckedProgram | None) -> PendingState:
        """Apply a command; one that was previewed is not applied a second time."""
        state = self._pending_or_current()
        known = self._previewed
        if known is None or known[1] != command or not known[0].is_same(state):
            known = self._previewed = state, command, state.apply(command, checked)
        return known[2]

    def _pending_or_current(self) -> PendingState:
        if self._pending is not None:
            return self._pending
        head, ledger = self._checkpoint.head(), self._checkpoint.ledger
        plan = ledger.plan(head.latest_plan_number)
        registry, quarantined = ledger.registry(head.registry_version), frozenset(head.quarantined)
        proposal = None if head.proposal is None else head.proposal.number
        return PendingState(registry, plan, quarantined=quarantined, proposal=proposal)


def delete_commands(store: FileStore, numbers: Iterable[int]) -> None:
    """Delete the files of commands that a commit has applied."""
    store.delete(command_file(number) for number in numbers)
