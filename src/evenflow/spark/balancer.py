"""The loop around the controller: observe a batch, decide, remember. All effects are here.

Deciding is `evenflow.planning.joint`, a pure function; this calls it at every border, lets slow
planners run on a thread beside the batches, and writes down what was seen and decided.
"""

from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from evenflow.errors import InputError
from evenflow.history import History, has_history, read_history
from evenflow.model import EVERYWHERE, Decision, Outcome, Plan, Snapshot, Verdict, arrivals
from evenflow.planning import keys, operators
from evenflow.planning.joint import (
    Balancing,
    adopt,
    arrive,
    asked,
    decide,
    global_plan,
    mean_loads,
    outcome,
    remembered,
    same_plan,
    stream_rates,
)
from evenflow.spark.batch import Batch, Controller
from evenflow.spark.border import Streams, complete
from evenflow.spark.observe import Memory, observe
from evenflow.spark.registry import listed
from evenflow.store import Store

KEPT = 256  # batches held in memory; the history on disk has more
WAITED = 64  # batches without work, at most, until it is not told what a decision brought


class Balancer:
    """Balances one run; `controller` decides in the planners' stead if it is given."""

    def __init__(self, config: Balancing, controller: Controller | None = None) -> None:
        self.config = config
        self.controller = controller
        self._history: History | None = None
        self.snapshots: deque[Snapshot] = deque(maxlen=KEPT)
        self.decisions: deque[Decision] = deque(maxlen=KEPT)
        self.outcomes: deque[Outcome] = deque(maxlen=KEPT)
        self._memory = Memory()
        self._open: list[Decision] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="evenflow-plan")
        self._slow: Future[Plan] | None = None
        self._planned: Snapshot | None = None  # what the thread planned from last

    def open(self, store: Store, head: int) -> None:
        """Go on from what was recorded of the batches before `head`, and record from there."""
        self._history = History(store)
        self._thread.submit(_warm_up, self.config)
        if head > 0 and has_history(store):
            snapshots, decisions, outcomes = read_history(store.uri, KEPT)
            self.snapshots.extend(s for s in snapshots if s.batch < head)
            self.decisions.extend(d for d in decisions if d.batch < head)
            self.outcomes.extend(o for o in outcomes if o.batch < head)
            told = {outcome.decision for outcome in self.outcomes}
            self._open = [d for d in self.decisions if d.plan is not None and d.batch not in told]

    def __call__(self, batch: Batch) -> Plan | None:
        """End a batch: return the plan to follow from now on, if there is one."""
        known = self.snapshots[-1].following if self.snapshots else batch.plan
        snapshot, self._memory = observe(batch, self._memory)
        self.snapshots.append(snapshot)
        decision = _with_arrivals(self._decide(batch), arrivals(known, batch.following))
        if decision.plan is not None:
            self._open.append(decision)
        self.decisions.append(decision)
        brought = self._brought()
        self.outcomes.extend(brought)
        if self._history is not None:
            self._history.append(snapshot, [decision], brought)
        return None if batch.asked is not None else decision.plan

    def _decide(self, batch: Batch) -> Decision:
        if batch.asked is not None:
            return self._given(batch.asked, _asked_for(batch))
        refused = batch.refused
        if self.controller is not None:
            plan = self.controller(batch)
            if plan is not None:
                try:
                    whole = complete(plan, batch.following, batch.registry)
                    return self._given(whole, "asked for by a controller of its own")
                except InputError as error:
                    refused = str(error)
        config = self.config if self.controller is None else Balancing.off()
        snapshots = tuple(self.snapshots)
        decision = decide(snapshots, tuple(self.decisions), config)
        if decision.plan is None:
            decision = self._beside(decision, snapshots)
        return decision if refused is None else _with(decision, "plan_refused", "plan", refused)

    def _beside(self, quiet: Decision, snapshots: tuple[Snapshot, ...]) -> Decision:
        """Judge what the thread has planned meanwhile, and let it plan anew if there is cause."""
        if self.config.repair == "off" or self.controller is not None:
            return quiet
        if self._slow is None and self._is_worth_planning(snapshots[-1]):
            self._planned = snapshots[-1]
            self._slow = self._thread.submit(global_plan, snapshots, self.config)
        if self._slow is None or not self._slow.done():
            return quiet
        done, self._slow = self._slow, None
        failed = done.exception()
        if failed is not None:  # it only would have saved traffic: told, and the stream goes on
            why = f"{type(failed).__name__}: {failed}"
            return _with(quiet, "planner_failed", self.config.repair, why)
        adopted = adopt(done.result(), snapshots, tuple(self.decisions), self.config)
        if adopted.plan is not None:
            return adopted
        message = f"{quiet.message}; {adopted.message}"
        if quiet.trigger != "none":
            return replace(quiet, message=message)
        return replace(quiet, trigger=adopted.trigger, reason=adopted.reason, message=message)

    def _is_worth_planning(self, last: Snapshot) -> bool:
        """Tell whether what is hosted has changed, or moved, or a while has passed."""
        before = self._planned
        return (
            before is None
            or last.batch >= before.batch + self.config.cooldown
            or not same_plan(before.following, last.following)
        )

    def _given(self, plan: Plan, message: str) -> Decision:
        return asked(plan, tuple(self.snapshots), self.config.window, message)

    # What came of it

    def _brought(self) -> list[Outcome]:
        """Return the outcomes that can be told by now."""
        found, still = [], []
        for decision in self._open:
            told = outcome(decision, tuple(self.snapshots))
            if told is not None:
                found.append(told)
            elif self.snapshots[-1].batch - decision.batch <= WAITED:
                still.append(decision)
        self._open = still
        return found

    # Arrivals

    def arrive(self, plan: Plan, waiting: Streams, hosted: Streams) -> Mapping[str, int]:
        """Place arriving queries where their streams flow, under the balance bound."""
        snapshots = remembered(tuple(self.snapshots), self.config.window)
        return arrive(
            plan,
            {**hosted, **waiting},
            mean_loads(snapshots, hosted),
            self.config,
            stream_rates(snapshots),
        )


def _asked_for(batch: Batch) -> str:
    """Say who asked for a plan: somebody, or pins that are not kept yet."""
    here = batch.following.placement
    pins = {
        f"{name} to worker {query.pin}"
        for name, query in batch.registry.queries.items()
        if query.pin is not None and here.get(name) != query.pin
    }
    return f"pins {listed(pins)}" if pins else "asked for by hand"


def _with(decision: Decision, code: str, subject: str, message: str) -> Decision:
    told = Verdict(code, subject, message)
    return replace(decision, verdicts=(*decision.verdicts, told))


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
        message=f"{decision.message}; placed {listed(where)}",
        arrived=arrived,
    )


def _warm_up(config: Balancing) -> None:
    """Compile the planners beside the first batches, so that no border waits for it."""
    if config.keys in keys.ALGORITHMS:
        keys.warm_up(keys.ALGORITHMS[config.keys])
    if config.operators in operators.ALGORITHMS:
        operators.warm_up(config.operators)
