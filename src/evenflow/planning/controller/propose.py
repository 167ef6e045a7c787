"""The decision at a batch boundary: if the planners change nothing, traffic repair may."""

from collections.abc import Sequence
from dataclasses import replace

from evenflow.model import Decision, Plan, Snapshot, Trigger, Verdict, VerdictCode
from evenflow.planning.controller.config import Balancing
from evenflow.planning.controller.decide import decide
from evenflow.planning.controller.traffic_repair import decide_traffic_repair, with_repair_result


def propose(
    snapshots: Sequence[Snapshot],
    decisions: Sequence[Decision],
    config: Balancing,
    repair: Plan | BaseException | None = None,
) -> Decision:
    """Return the decision after the last snapshot: a plan, or the reason why there is none.

    `repair` is what a finished `plan_traffic_repair` returned or raised. It is considered only if
    the planners change nothing, see `used_repair`.
    """
    config = config.effective()
    decision = decide(snapshots, decisions, config)
    if decision.plan is not None or repair is None:
        return decision
    if isinstance(repair, BaseException):  # keep the current plan; the stream goes on
        cause = f"{type(repair).__name__}: {repair}"
        failed = Verdict(VerdictCode.PLANNER_FAILED, config.repair, cause)
        return replace(decision, verdicts=(*decision.verdicts, failed))
    return with_repair_result(decision, decide_traffic_repair(repair, snapshots, decisions, config))


def used_repair(proposal: Decision) -> bool:
    """Return whether `propose` considered `repair`; if not, pass it again at the next boundary.

    >>> from evenflow.model import BalanceMetrics, Reason
    >>> even = BalanceMetrics(1.0, 1.0, 1.0)
    >>> used_repair(Decision(0, 0.0, Trigger.DRAIN, Reason.DRAINED, "", even, plan=Plan(2)))
    False
    """
    return proposal.plan is None or proposal.trigger == Trigger.TRAFFIC
