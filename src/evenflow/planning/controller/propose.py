"""One proposal per batch boundary: a requested plan, else the planners', else traffic repair's."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evenflow.model import Decision, Plan, Snapshot, Trigger, Verdict, VerdictCode
from evenflow.planning.controller.build_decision import manual_decision
from evenflow.planning.controller.config import Balancing
from evenflow.planning.controller.decide import decide
from evenflow.planning.controller.traffic_repair import decide_traffic_repair, with_repair_result


@dataclass(frozen=True, slots=True)
class RequestedPlan:
    """A plan from outside the planners; `message` says who requested it."""

    plan: Plan
    message: str


def propose(
    snapshots: Sequence[Snapshot],
    decisions: Sequence[Decision],
    config: Balancing,
    *,
    requested: RequestedPlan | None = None,
    repair: Plan | BaseException | None = None,
) -> Decision:
    """Return the decision at the boundary after the last snapshot; without a plan, it says why.

    requested  a manual plan, or the plan of a user's controller; nothing else is consulted then
    repair     result of a finished `plan_traffic_repair`, or its exception; considered only if
               the planners change nothing, see `used_repair`
    """
    if requested is not None:
        return manual_decision(requested.plan, snapshots, config.window, requested.message)
    decision = decide(snapshots, decisions, config)
    if decision.plan is not None or repair is None:
        return decision
    if isinstance(repair, BaseException):  # traffic stays as it is; the stream goes on
        cause = f"{type(repair).__name__}: {repair}"
        failed = Verdict(VerdictCode.PLANNER_FAILED, config.repair, cause)
        return replace(decision, verdicts=(*decision.verdicts, failed))
    return with_repair_result(decision, decide_traffic_repair(repair, snapshots, decisions, config))


def used_repair(proposal: Decision) -> bool:
    """Tell whether `propose` considered its `repair`; if not, pass it again at the next boundary.

    >>> from evenflow.model import BalanceMetrics, Reason
    >>> even = BalanceMetrics(1.0, 1.0, 1.0)
    >>> used_repair(Decision(0, 0.0, Trigger.DRAIN, Reason.DRAINED, "", even, plan=Plan(2)))
    False
    """
    return proposal.plan is None or proposal.trigger == Trigger.TRAFFIC
