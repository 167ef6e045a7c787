"""The loop around the controller: observe a batch, decide, remember. All effects are here.

Deciding is `evenflow.planning.joint`, a pure function; this calls it at every border, lets slow
planners run on a thread beside the batches, and writes down what was seen and decided.
"""

from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from evenflow.history import History, has_history, read_history
from evenflow.model import Decision, Outcome, Plan, Snapshot, Verdict, moves
from evenflow.planning import keys, operators
from evenflow.planning.joint import (
    Balancing,
    adopt,
    arrive,
    decide,
    global_plan,
    mean_loads,
    measured,
    outcome,
    remembered,
    same_plan,
    stream_rates,
)
from evenflow.spark.batch import Batch, Controller
from evenflow.spark.border import Streams
from evenflow.spark.observe import Memory, observe
from evenflow.store import Store

KEPT = 256  # batches held in memory; the history on disk has more


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
        self._handed: dict[int, int] = {}
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

    def __call__(self, batch: Batch) -> Plan | None:
        """End a batch: return the plan to follow from now on, if there is one."""
        snapshot, self._memory = observe(batch, self._memory)
        self.snapshots.append(snapshot)
        self._handed[batch.number] = sum(
            state.length for report in batch.reports for _, _, state in report.handoffs
        )
        decision = self._decide(batch)
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
            return self._given(batch.asked, "asked for by hand")
        if self.controller is not None:
            plan = self.controller(batch)
            if plan is not None:
                return self._given(plan, "asked for by a controller of its own")
        config = self.config if self.controller is None else Balancing.off()
        snapshots = tuple(self.snapshots)
        decision = decide(snapshots, tuple(self.decisions), config)
        return decision if decision.plan is not None else self._beside(decision, snapshots)

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
            told = Verdict(
                "planner_failed", self.config.repair, f"{type(failed).__name__}: {failed}"
            )
            return replace(quiet, verdicts=(*quiet.verdicts, told))
        adopted = adopt(done.result(), snapshots, tuple(self.decisions), self.config)
        return quiet if adopted.plan is None else adopted

    def _is_worth_planning(self, last: Snapshot) -> bool:
        """Tell whether what is hosted has changed, or moved, or a while has passed."""
        before = self._planned
        return (
            before is None
            or last.batch >= before.batch + self.config.cooldown
            or not same_plan(before.following, last.following)
        )

    def _given(self, plan: Plan, message: str) -> Decision:
        snapshots, last = tuple(self.snapshots), self.snapshots[-1]
        moved = moves(last.following, plan)
        return Decision(
            last.batch,
            last.at,
            "asked",
            "asked",
            message,
            measured(snapshots),
            plan=plan,
            moves=moved,
        )

    # What came of it

    def _brought(self) -> list[Outcome]:
        """Return the outcomes that can be told by now."""
        found, still = [], []
        for decision in self._open:
            handed = self._handed.get(decision.batch + 1, 0)
            told = outcome(decision, tuple(self.snapshots), handed)
            superseded = self.decisions[-1].batch - decision.batch > KEPT // 4
            if told is not None:
                found.append(told)
            elif not superseded:
                still.append(decision)
        self._open = still
        for number in [n for n in self._handed if n < self.snapshots[-1].batch - KEPT]:
            del self._handed[number]
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


def _warm_up(config: Balancing) -> None:
    """Compile the planners beside the first batches, so that no border waits for it."""
    if config.keys in keys.ALGORITHMS:
        keys.warm_up(keys.ALGORITHMS[config.keys])
    if config.operators in operators.ALGORITHMS:
        operators.warm_up(config.operators)
