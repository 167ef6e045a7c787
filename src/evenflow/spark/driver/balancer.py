"""The loop around the controller: observe a batch, decide, remember. All effects are here.

Deciding is `evenflow.planning.controller`, a pure function; this calls it at every border, lets slow
planners run on a thread beside the batches, and writes down what was seen and decided.
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
    Snapshot,
    Verdict,
    arrived_queries,
    moves_between,
)
from evenflow.planning import keys, operators
from evenflow.planning.controller import (
    Balancing,
    decide,
    decide_traffic_repair,
    is_repair_due,
    manual_decision,
    mean_query_loads,
    mean_stream_bytes,
    measure_outcome,
    place_arriving_queries,
    plan_traffic_repair,
    refuse_plan,
    same_plan,
    select_window,
    with_repair_result,
)
from evenflow.spark.driver.commit import StreamsByQuery
from evenflow.spark.driver.completed_batch import CompletedBatch, Controller
from evenflow.spark.driver.observe import ObserverState, observe
from evenflow.spark.protocol.registry import join_names
from evenflow.storage.file_store import FileStore
from evenflow.storage.history import HistoryWriter, has_history, read_history

MAX_BATCHES_IN_MEMORY = 256  # batches held in memory; the history on disk has more
MAX_OUTCOME_DELAY_BATCHES = 64  # batches at most after which it can be told what a decision brought


class Balancer:
    """Balances one run; `controller` decides in the planners' stead if it is given."""

    def __init__(self, config: Balancing, controller: Controller | None = None) -> None:
        self.config = config
        self.controller = controller
        self._history: HistoryWriter | None = None
        self.snapshots: deque[Snapshot] = deque(maxlen=MAX_BATCHES_IN_MEMORY)
        self.decisions: deque[Decision] = deque(maxlen=MAX_BATCHES_IN_MEMORY)
        self.outcomes: deque[Outcome] = deque(maxlen=MAX_BATCHES_IN_MEMORY)
        self._observer_state = ObserverState()
        self._last_known_plan = Plan(0)
        self._planner_decision: Decision | None = None  # by the planners, at the border at hand
        self._awaiting_outcome: list[Decision] = []
        self._planner_thread = ThreadPoolExecutor(1, thread_name_prefix="evenflow-plan")
        self._global_plan: Future[Plan] | None = None
        self._global_plan_basis: Snapshot | None = None  # what the thread planned from last

    def open(self, store: FileStore, head: int) -> None:
        """Go on from what was recorded of the batches before `head`, and record from there."""
        self._history = HistoryWriter(store)
        self._planner_thread.submit(_warm_up, self.config)
        if head > 0 and has_history(store):
            snapshots, decisions, outcomes = read_history(store.uri, MAX_BATCHES_IN_MEMORY)
            self.snapshots.extend(s for s in snapshots if s.batch < head)
            self.decisions.extend(d for d in decisions if d.batch < head)
            self.outcomes.extend(o for o in outcomes if o.batch < head)
            told = {outcome.decision for outcome in self.outcomes}
            self._awaiting_outcome = [
                decision
                for decision in self.decisions
                if decision.plan is not None
                and decision.batch not in told
                and head - decision.batch <= MAX_OUTCOME_DELAY_BATCHES
            ]

    def close(self, head: int) -> None:
        """Record for good what came before the batch that would be next."""
        if self._history is not None:
            self._history.close(head)

    def __call__(self, batch: CompletedBatch) -> Plan | None:
        """Return the plan to follow after a batch, if there is one; `record` is told what is."""
        self._last_known_plan = self.snapshots[-1].next_plan if self.snapshots else batch.plan
        snapshot, self._observer_state = observe(batch, self._observer_state)
        self.snapshots.append(snapshot)
        self._planner_decision = None
        if batch.requested_plan is not None:
            return None
        if self.controller is not None:
            plan = self.controller(batch)
            self._planner_decision = (
                self._controller_decision(Balancing.off()) if plan is None else None
            )
            return plan if self._planner_decision is None else self._planner_decision.plan
        self._planner_decision = self._controller_decision(self.config)
        if self._planner_decision.plan is None:
            self._planner_decision = self._with_global_plan(
                self._planner_decision, tuple(self.snapshots)
            )
        return self._planner_decision.plan

    def record(self, batch: CompletedBatch, plan: Plan | None, refused: tuple[str, ...]) -> None:
        """Write down a batch, what is followed from its border on, and what came of it before."""
        decision = _with_arrivals(
            _with_verdicts(self._recorded_decision(batch, plan), "plan_refused", "plan", *refused),
            arrived_queries(self._last_known_plan, batch.next_plan),
        )
        if decision.plan is not None:
            self._awaiting_outcome.append(decision)
        self.decisions.append(decision)
        brought = self._due_outcomes()
        self.outcomes.extend(brought)
        if self._history is not None:
            self._history.append(self.snapshots[-1], [decision], brought)

    def _controller_decision(self, config: Balancing) -> Decision:
        return decide(tuple(self.snapshots), tuple(self.decisions), config)

    def _recorded_decision(self, batch: CompletedBatch, plan: Plan | None) -> Decision:
        """Return the decision that led to a plan: the planners', if it is theirs alone."""
        made = self._planner_decision
        if plan is None:
            return refuse_plan(made or self._controller_decision(Balancing.off()))
        if made is not None and made.plan is not None and same_plan(plan, made.plan):
            return made
        told = manual_decision(
            plan, tuple(self.snapshots), self.config.window, self._plan_origin(batch, plan)
        )
        if made is None:
            return told
        if made.plan is None:
            return replace(told, verdicts=made.verdicts)
        return replace(
            made,
            message=f"{made.message}; {told.message}",
            predicted=told.predicted,
            plan=plan,
            moves=told.moves,
            moved_bytes=told.moved_bytes,
        )

    def _plan_origin(self, batch: CompletedBatch, plan: Plan) -> str:
        """Say who asked for a plan: somebody, a controller of its own, pins that are astray."""
        here, queries = batch.next_plan.placement, batch.registry.queries
        pins = {
            name: query.pin
            for name, query in queries.items()
            if query.pin is not None and here.get(name) != query.pin
        }
        said = [f"pins {join_names(f'{name} to worker {pin}' for name, pin in pins.items())}"]
        if batch.requested_plan is not None:
            said.insert(0, "asked for by hand")
        elif self.controller is not None and any(
            move.query not in pins for move in moves_between(batch.next_plan, plan)
        ):
            said.insert(0, "asked for by a controller of its own")
        return "; ".join(said if pins else said[:-1])

    def _with_global_plan(self, quiet: Decision, snapshots: tuple[Snapshot, ...]) -> Decision:
        """Judge what the thread has planned meanwhile, and let it plan anew if there is cause."""
        if self._global_plan is None and is_repair_due(
            self._global_plan_basis, snapshots[-1], self.config
        ):
            self._global_plan_basis = snapshots[-1]
            self._global_plan = self._planner_thread.submit(
                plan_traffic_repair, snapshots, self.config
            )
        if self._global_plan is None or not self._global_plan.done():
            return quiet
        done, self._global_plan = self._global_plan, None
        failed = done.exception()
        if failed is not None:  # it only would have saved traffic: told, and the stream goes on
            why = f"{type(failed).__name__}: {failed}"
            return _with_verdicts(quiet, "planner_failed", self.config.repair, why)
        adopted = decide_traffic_repair(
            done.result(), snapshots, tuple(self.decisions), self.config
        )
        return with_repair_result(quiet, adopted)

    # What came of it

    def _due_outcomes(self) -> list[Outcome]:
        """Return the outcomes that can be told by now."""
        found, still = [], []
        for decision in self._awaiting_outcome:
            told = measure_outcome(decision, tuple(self.snapshots))
            if told is not None:
                found.append(told)
            elif self.snapshots[-1].batch - decision.batch <= MAX_OUTCOME_DELAY_BATCHES:
                still.append(decision)
        self._awaiting_outcome = still
        return found

    # Arrivals

    def place_arrivals(
        self, plan: Plan, waiting: StreamsByQuery, hosted: StreamsByQuery
    ) -> Mapping[str, int]:
        """Place arriving queries where their streams flow, under the balance bound."""
        snapshots = select_window(tuple(self.snapshots), self.config.window)
        return place_arriving_queries(
            plan,
            {**hosted, **waiting},
            mean_query_loads(snapshots, hosted),
            self.config,
            mean_stream_bytes(snapshots),
        )


def _with_verdicts(decision: Decision, code: str, subject: str, *messages: str) -> Decision:
    told = (Verdict(code, subject, message) for message in messages)
    return replace(decision, verdicts=(*decision.verdicts, *told))


def _with_arrivals(decision: Decision, arrived: Mapping[str, int]) -> Decision:
    """Return the decision with the queries that were placed before it was made."""
    if not arrived:
        return decision
    where = (
        f"{name} on {'all workers' if worker == EVERYWHERE else f'worker {worker}'}"
        for name, worker in arrived.items()
    )
    return replace(
        decision,
        trigger="arrival" if decision.trigger == "none" else decision.trigger,
        message=f"{decision.message}; placed {join_names(where)}",
        arrived=arrived,
    )


def _warm_up(config: Balancing) -> None:
    """Compile the planners beside the first batches, so that no border waits for it."""
    if config.keys in keys.ALGORITHMS:
        keys.warm_up(config.keys)
    if config.operators in operators.ALGORITHMS:
        operators.warm_up(config.operators)
