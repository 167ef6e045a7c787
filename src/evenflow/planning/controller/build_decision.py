"""What a decision is based on, and how a plan becomes a `Decision`, whoever proposed the plan."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from evenflow.errors import InputError
from evenflow.model import (
    BalanceMetrics,
    Decision,
    Plan,
    Reason,
    Snapshot,
    Trigger,
    Verdict,
    moves_between,
)
from evenflow.planning.controller.arrivals import mean_stream_bytes
from evenflow.planning.controller.balance import predicted_balance
from evenflow.planning.controller.config import Balancing
from evenflow.planning.controller.predict import moved_bytes, same_plan
from evenflow.planning.controller.stage import next_stage, over_budget_verdicts
from evenflow.planning.controller.window import (
    RecentlyLeft,
    last_snapshot_with_keys,
    recently_left_workers,
    select_window,
)
from evenflow.planning.controller.worker_loads import WorkerLoads


@dataclass(frozen=True, slots=True, eq=False)
class DecisionContext:
    """What a decision at one batch boundary is based on.

    window         recent snapshots, the batch that has just ended last
    loads, before  loads and balance if the next plan stays as it is
    stream_bytes   mean bytes per batch of one copy of each stream
    recently_left  workers that items left within the cooldown, and may not return to
    """

    window: tuple[Snapshot, ...]
    loads: WorkerLoads
    before: BalanceMetrics
    stream_bytes: dict[str, float]
    recently_left: RecentlyLeft
    config: Balancing

    @classmethod
    def build(
        cls, snapshots: Sequence[Snapshot], decisions: Sequence[Decision], config: Balancing
    ) -> "DecisionContext":
        """Prepare a decision at the boundary after the last snapshot."""
        if not snapshots:
            raise InputError("a decision needs at least one snapshot, got none")
        window = select_window(snapshots, config.window)
        last, rates = window[-1], mean_stream_bytes(window)
        loads = WorkerLoads.under_plan(window, last.next_plan)
        before = predicted_balance(loads, last, rates)
        left = recently_left_workers(decisions, last.batch, config.cooldown)
        return cls(window, loads, before, rates, left, config)

    @property
    def last_snapshot(self) -> Snapshot:
        """The batch that has just ended."""
        return self.window[-1]

    @property
    def next_plan(self) -> Plan:
        """The plan to be changed."""
        return self.last_snapshot.next_plan

    def loads_under(self, plan: Plan) -> WorkerLoads:
        """Return the loads of the window as they would be under a plan."""
        return WorkerLoads.under_plan(self.window, plan)

    def predict_balance(self, loads: WorkerLoads) -> BalanceMetrics:
        """Return the balance under the plan of `loads`."""
        return predicted_balance(loads, self.last_snapshot, self.stream_bytes)


def build_decision(
    context: DecisionContext,
    trigger: Trigger,
    reason: Reason,
    message: str,
    *,
    target: WorkerLoads | None = None,
    verdicts: Iterable[Verdict] = (),
) -> Decision:
    """Return the decision to follow the plan of `target`, or its first stage within the budget.

    Without a target, nothing changes.
    """
    last = last_snapshot_with_keys(context.window)
    decision = Decision(
        last.batch, last.at, trigger, reason, message, context.before, verdicts=tuple(verdicts)
    )
    if target is None:
        return decision
    plan = next_stage(context.next_plan, target.plan, last, context.config)
    complete = same_plan(plan, target.plan)
    moved = moved_bytes(context.next_plan, plan, last)
    return replace(
        decision,
        predicted=context.predict_balance(target if complete else context.loads_under(plan)),
        plan=plan,
        target=None if complete else target.plan,
        moves=moves_between(context.next_plan, plan),
        moved_bytes=moved,
        verdicts=(*decision.verdicts, *over_budget_verdicts(moved, context.config)),
    )


def manual_decision(
    plan: Plan, snapshots: Sequence[Snapshot], window: int, message: str
) -> Decision:
    """Return the decision to follow a requested plan in one step, whatever it moves."""
    config = replace(Balancing.off(), window=window, samples=1)
    context = DecisionContext.build(snapshots, (), config)
    target = context.loads_under(plan)
    return build_decision(context, Trigger.MANUAL, Reason.MANUAL, message, target=target)


def refuse_plan(decision: Decision) -> Decision:
    """Return the decision without its plan, which does not fit what is hosted."""
    if decision.plan is None:
        return decision
    nothing = {"predicted": None, "plan": None, "target": None, "moves": (), "moved_bytes": 0.0}
    return replace(decision, reason=Reason.REFUSED, **nothing)  # type: ignore[arg-type]
