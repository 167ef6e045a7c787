"""A plan that someone asked for: judged and recorded like those of the planners."""

from collections.abc import Sequence
from dataclasses import replace

from evenflow.model import Decision, Plan, Snapshot, moves
from evenflow.planning.joint.arrival import stream_rates
from evenflow.planning.joint.judge import predicted
from evenflow.planning.joint.levels import Levels
from evenflow.planning.joint.projection import moved_bytes
from evenflow.planning.joint.recent import last_known, remembered


def asked(plan: Plan, snapshots: Sequence[Snapshot], window: int, message: str) -> Decision:
    """Return the decision to follow a plan, as it was asked for at the border of the last batch."""
    seen = remembered(snapshots, window)
    last, rates = seen[-1], stream_rates(seen)
    following = last.following
    return Decision(
        last.batch,
        last.at,
        "asked",
        "asked",
        message,
        predicted(Levels.of(seen, following), last, rates),
        predicted=predicted(Levels.of(seen, plan), last, rates),
        plan=plan,
        moves=moves(following, plan),
        moved_bytes=moved_bytes(following, plan, last_known(seen)),
    )


def without_plan(decision: Decision) -> Decision:
    """Return a decision whose plan is not followed after all, if it has one."""
    if decision.plan is None:
        return decision
    return replace(
        decision,
        reason="refused",
        predicted=None,
        plan=None,
        target=None,
        moves=(),
        moved_bytes=0.0,
    )
