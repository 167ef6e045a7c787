"""What a decision is based on, and how a plan becomes a `Decision`, whoever proposed the plan."""

from collections.abc import Iterable, Mapping, Sequence
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
from evenflow.planning.controller.move_price import batch_interval, learnt_move_price
from evenflow.planning.controller.predict import moved_bytes, same_plan
from evenflow.planning.controller.price_growth import with_grown_prices
from evenflow.planning.controller.stage import next_stage, over_budget_verdicts
from evenflow.planning.controller.window import (
    RecentlyLeft,
    last_key_moves,
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
    last_planned   batch of the last decision that moved keys of a query
    last_split     batch of the last decision that changed the owners of its split keys
    move_price     seconds that moving a megabyte costs, learnt from earlier hand-overs
    interval       usual seconds from batch to batch; 0: not known
    """

    window: tuple[Snapshot, ...]
    loads: WorkerLoads
    before: BalanceMetrics
    stream_bytes: dict[str, float]
    recently_left: RecentlyLeft
    last_planned: Mapping[str, int]
    last_split: Mapping[str, int]
    move_price: float
    interval: float
    config: Balancing

    @classmethod
    def build(
        cls, snapshots: Sequence[Snapshot], decisions: Sequence[Decision], config: Balancing
    ) -> "DecisionContext":
        """Prepare a decision at the boundary after the last snapshot."""
        if not snapshots:
            raise InputError("a decision needs at least one snapshot, got none")
        window = with_grown_prices(select_window(snapshots, config.window))
        last, rates = window[-1], mean_stream_bytes(window)
        loads = WorkerLoads.under_plan(window, last.next_plan)
        before = predicted_balance(loads, last, rates)
        left = recently_left_workers(decisions, last.batch, config.cooldown)
        planned = last_key_moves(decisions, window[0].batch)
        split = last_key_moves(decisions, last.batch - config.cooldown, split=True)
        return cls(
            window=window,
            loads=loads,
            before=before,
            stream_bytes=rates,
            recently_left=left,
            last_planned=planned,
            last_split=split,
            move_price=learnt_move_price(snapshots, config.move_seconds_per_mb),
            interval=batch_interval(window),
            config=config,
        )

    @property
    def last_snapshot(self) -> Snapshot:
        """The batch that has just ended."""
        return self.window[-1]

    @property
    def next_plan(self) -> Plan:
        """The plan to be changed."""
        return self.last_snapshot.next_plan

    def queries_planned_since_change(self) -> set[str]:
        """Return the keyed queries whose keys moved since their shares last changed."""
        return {
            name
            for name, batch in self.last_planned.items()
            if name in self.loads.keyed_queries and batch >= self.loads.stable_since(name)
        }

    def queries_to_plan_again(self) -> set[str]:
        """Return the keyed queries whose plan was made in haste, now that more is known.

        After a shift a plan is made from less than `samples` batches, so that it is in time. When
        there are twice as many, what they show is not mainly the noise that it was made from.
        """
        due = set()
        for name in self.queries_planned_since_change():
            since, planned = self.loads.stable_since(name), self.last_planned[name]
            batches = [s.batch for s in self.loads.snapshots if s.batch >= since]
            behind = sum(batch <= planned for batch in batches)
            if behind < self.config.samples and 2 * behind <= len(batches):
                due.add(name)
        return due

    def is_worth_a_plan(self, excess: float) -> bool:
        """Tell whether load above the mean, in CPU seconds of a batch, delays batches enough."""
        return excess >= self.config.min_excess * self.interval

    def pays_for_moves(self, gain: float, moved_bytes: float) -> bool:
        """Tell whether load removed in each batch pays for moved state within `payback` batches."""
        return gain * self.config.payback >= self.move_price * moved_bytes / 1e6

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
        last.batch,
        last.at,
        trigger,
        reason,
        message,
        context.before,
        verdicts=tuple(verdicts),
        move_price=context.move_price,
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
    return without_plan(decision, Reason.REFUSED, decision.message)


def without_plan(decision: Decision, reason: Reason, message: str) -> Decision:
    """Return the decision to do nothing; an unfinished plan that only waits keeps its target."""
    waits = decision.trigger == Trigger.STAGED and reason != Reason.REFUSED
    return replace(
        decision,
        reason=reason,
        message=message,
        predicted=None,
        plan=None,
        target=(decision.target or decision.plan) if waits else None,
        moves=(),
        moved_bytes=0.0,
    )
