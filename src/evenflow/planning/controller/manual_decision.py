"""A plan that someone asked for: judged and recorded like those of the planners."""

from collections.abc import Sequence
from dataclasses import replace

from evenflow.model import Decision, Plan, Reason, Snapshot, Trigger, moves_between
from evenflow.planning.controller.arrivals import mean_stream_bytes
from evenflow.planning.controller.balance import predicted_balance
from evenflow.planning.controller.predict import moved_bytes
from evenflow.planning.controller.window import last_snapshot_with_keys, select_window
from evenflow.planning.controller.worker_loads import WorkerLoads


def manual_decision(
    plan: Plan, snapshots: Sequence[Snapshot], window: int, message: str
) -> Decision:
    """Return the decision to follow a plan, as it was asked for at the border of the last batch."""
    seen = select_window(snapshots, window)
    last, rates = seen[-1], mean_stream_bytes(seen)
    following = last.next_plan
    return Decision(
        last.batch,
        last.at,
        Trigger.MANUAL,
        Reason.MANUAL,
        message,
        predicted_balance(WorkerLoads.under_plan(seen, following), last, rates),
        predicted=predicted_balance(WorkerLoads.under_plan(seen, plan), last, rates),
        plan=plan,
        moves=moves_between(following, plan),
        moved_bytes=moved_bytes(following, plan, last_snapshot_with_keys(seen)),
    )


def refuse_plan(decision: Decision) -> Decision:
    """Return a decision whose plan is not followed after all, if it has one."""
    if decision.plan is None:
        return decision
    return replace(
        decision,
        reason=Reason.REFUSED,
        predicted=None,
        plan=None,
        target=None,
        moves=(),
        moved_bytes=0.0,
    )
