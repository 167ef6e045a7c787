"""Balancing of one run: observe batches, propose decisions, record both.

Deciding itself is `evenflow.planning.controller`, a package of pure functions. This adds the
effects: the memory between batches, a thread for slow planners, the history on disk.
"""

from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from evenflow.model import (
    EVERYWHERE,
    Decision,
    Outcome,
    Plan,
    Proposal,
    Snapshot,
    StreamsByQuery,
    Trigger,
    VerdictCode,
    arrived_queries,
    moves_between,
)
from evenflow.names import join_names
from evenflow.planning import keys, operators
from evenflow.planning.controller import (
    Balancing,
    await_approval,
    decide,
    follow_approved,
    is_repair_due,
    manual_decision,
    mean_query_loads,
    mean_stream_bytes,
    measure_outcome,
    place_arriving_queries,
    plan_traffic_repair,
    propose,
    refuse_plan,
    select_window,
    used_repair,
)
from evenflow.spark.driver.admit import complete_with_pins, describe_pins, with_verdicts
from evenflow.spark.driver.completed_batch import CompletedBatch, Controller
from evenflow.spark.driver.observe import ObserverState, observe
from evenflow.spark.driver.plan_changes import misplaced_pins
from evenflow.spark.protocol.ledger import Ledger
from evenflow.storage.history import HistoryWriter, has_history, read_history

MAX_BATCHES_IN_MEMORY = 256  # the history on disk has more
MAX_OUTCOME_DELAY_BATCHES = 64
MAX_ENDED_PROPOSALS = 50


class Balancer:
    """Observes and balances one run.

    Driver process, as long as the run. `observe`, `propose` and `record` run in the thread of
    Spark's micro-batch, in this order, once per batch; other threads read the deques. A thread of
    its own runs the slow planner that reduces source traffic.
    """

    def __init__(self, config: Balancing, controller: Controller | None = None) -> None:
        self.config = config
        self.controller = controller  # of the user; decides in place of the planners
        self.snapshots: deque[Snapshot] = deque(maxlen=MAX_BATCHES_IN_MEMORY)
        self.decisions: deque[Decision] = deque(maxlen=MAX_BATCHES_IN_MEMORY)
        self.outcomes: deque[Outcome] = deque(maxlen=MAX_BATCHES_IN_MEMORY)
        self.ended_proposals: deque[Proposal] = deque(maxlen=MAX_ENDED_PROPOSALS)
        self._history: HistoryWriter | None = None
        self._observer_state = ObserverState()
        self._last_known_plan = Plan(0)
        self._awaiting_outcome: list[Decision] = []
        self._planner_thread = ThreadPoolExecutor(1, thread_name_prefix="evenflow-plan")
        self._repair: Future[Plan] | None = None
        self._repair_basis: Snapshot | None = None

    def open(self, ledger: Ledger) -> None:
        """Continue from the recorded batches before the next one, and record from there on."""
        store, head = ledger.store, 0 if ledger.head is None else ledger.head.batch
        self._history = HistoryWriter(store, epoch=ledger.epoch, check_fence=ledger.check_fence)
        self._planner_thread.submit(_warm_up, self.config)
        if head == 0 or not has_history(store):
            return
        snapshots, decisions, outcomes = read_history(store, MAX_BATCHES_IN_MEMORY)
        self.snapshots.extend(snapshot for snapshot in snapshots if snapshot.batch < head)
        self.decisions.extend(decision for decision in decisions if decision.batch < head)
        self.outcomes.extend(outcome for outcome in outcomes if outcome.batch < head)
        measured = {outcome.decision for outcome in self.outcomes}
        self._awaiting_outcome = [
            decision
            for decision in self.decisions
            if decision.plan is not None
            and decision.batch not in measured
            and head - decision.batch <= MAX_OUTCOME_DELAY_BATCHES
        ]

    def close(self, head: int) -> None:
        """Finish the history up to the batch before `head`."""
        if self._history is not None:
            self._history.close(head)

    def observe(self, batch: CompletedBatch) -> None:
        """Add the snapshot of a batch."""
        self._last_known_plan = self.snapshots[-1].next_plan if self.snapshots else batch.plan
        snapshot, self._observer_state = observe(batch, self._observer_state)
        self.snapshots.append(snapshot)

    def propose(self, batch: CompletedBatch) -> Decision:
        """Return what to do after a batch: a requested plan, the user's, or the planners'."""
        if batch.requested_plan is not None:
            return self.explain(batch.requested_plan, _join("requested by hand", batch))
        if self.controller is not None:
            return self._user_decision(batch, self.controller(batch))
        history = tuple(self.snapshots), tuple(self.decisions)
        approved = follow_approved(batch.proposal, *history, self.config)
        if approved is not None:
            return approved
        decision = propose(*history, self.config, self._finished_repair())
        if used_repair(decision):
            self._start_repair_if_due()
        return decision

    def await_approval(
        self, decision: Decision, batch: CompletedBatch
    ) -> tuple[Decision, Proposal | None]:
        """Return what may be done at once of an admitted decision, and the proposal that stands."""
        history = tuple(self.snapshots), tuple(self.decisions)
        approval = await_approval(decision, batch.proposal, *history, self.config)
        if approval.ended is not None:
            self.ended_proposals.append(approval.ended)
        return approval.decision, approval.standing

    def explain(self, plan: Plan, message: str) -> Decision:
        """Return the decision to follow a plan that the planners did not make."""
        return manual_decision(plan, tuple(self.snapshots), self.config.window, message)

    def record(self, decision: Decision, batch: CompletedBatch) -> None:
        """Record a batch, the decision after it, and outcomes that can be measured by now."""
        decision = _with_arrivals(decision, arrived_queries(self._last_known_plan, batch.next_plan))
        if decision.plan is not None:
            self._awaiting_outcome.append(decision)
        self.decisions.append(decision)
        outcomes = self._due_outcomes()
        self.outcomes.extend(outcomes)
        if self._history is not None:
            self._history.append(self.snapshots[-1], [decision], outcomes)

    def place_arrivals(
        self, plan: Plan, waiting: StreamsByQuery, placed: StreamsByQuery
    ) -> Mapping[str, int]:
        """Place arriving queries where their streams flow, under the balance bound."""
        window = select_window(tuple(self.snapshots), self.config.window)
        return place_arriving_queries(
            plan,
            {**placed, **waiting},
            mean_query_loads(window, placed),
            self.config,
            mean_stream_bytes(window),
        )

    def _user_decision(self, batch: CompletedBatch, plan: Plan | None) -> Decision:
        """Return the decision of the user's controller; without a plan, drains go on."""
        history = tuple(self.snapshots), tuple(self.decisions)
        if plan is None:
            return decide(*history, Balancing.off())
        refusals: list[str] = []
        complete = complete_with_pins(plan, batch, refusals)
        if complete is None:
            idle = refuse_plan(decide(*history, Balancing.off()))
            return with_verdicts(idle, VerdictCode.PLAN_REFUSED, "plan", *refusals)
        pins = misplaced_pins(batch.next_plan, batch.registry)
        by_user = any(m.query not in pins for m in moves_between(batch.next_plan, complete))
        source = "requested by the flow's controller" if by_user else ""
        return self.explain(complete, _join(source, batch))

    def _finished_repair(self) -> Plan | BaseException | None:
        """Return the plan of the planner thread, or its exception; None if it is not finished."""
        if self._repair is None or not self._repair.done():
            return None
        return self._repair.exception() or self._repair.result()

    def _start_repair_if_due(self) -> None:
        """Plan a traffic repair on the planner thread, unless one is running."""
        if self._repair is not None and self._repair.done():
            self._repair = None
        last, config = self.snapshots[-1], self.config.effective()
        if self._repair is None and is_repair_due(self._repair_basis, last, config):
            self._repair_basis = last
            self._repair = self._planner_thread.submit(
                plan_traffic_repair, tuple(self.snapshots), config
            )

    def _due_outcomes(self) -> list[Outcome]:
        """Return the outcomes that can be measured by now."""
        outcomes, waiting = [], []
        for decision in self._awaiting_outcome:
            outcome = measure_outcome(decision, tuple(self.snapshots))
            if outcome is not None:
                outcomes.append(outcome)
            elif self.snapshots[-1].batch - decision.batch <= MAX_OUTCOME_DELAY_BATCHES:
                waiting.append(decision)
        self._awaiting_outcome = waiting
        return outcomes


def _join(source: str, batch: CompletedBatch) -> str:
    return "; ".join(part for part in (source, describe_pins(batch)) if part)


def _with_arrivals(decision: Decision, arrived: Mapping[str, int]) -> Decision:
    """Return the decision with the queries that were placed before it."""
    if not arrived:
        return decision
    placed = join_names(
        f"{name} on {'all workers' if worker == EVERYWHERE else f'worker {worker}'}"
        for name, worker in arrived.items()
    )
    return replace(
        decision,
        trigger=Trigger.ARRIVAL if decision.trigger == Trigger.NONE else decision.trigger,
        message=f"{decision.message}; placed {placed}",
        arrived=arrived,
    )


def _warm_up(config: Balancing) -> None:
    """Compile the planners during the first batches, so that no commit waits for it."""
    if config.keys in keys.ALGORITHMS:
        keys.warm_up(config.keys)
    if config.operators in operators.ALGORITHMS:
        operators.warm_up(config.operators)
