"""Approval: plans that wait for an answer, or for a maintenance window. Pure.

Between two commits at most one proposal stands. It waits, or was approved and waits for its window,
or was rejected and keeps planners from proposing the same again. It expires when its prediction no
longer holds, what it names is gone, or another plan is adopted. What somebody asks for (a plan, a
rollback, a pin, a drain) needs no approval.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from evenflow.model import (
    BalancingMode,
    Decision,
    Plan,
    Proposal,
    ProposalState,
    Reason,
    Snapshot,
    Trigger,
    moves_between,
)
from evenflow.names import join_names
from evenflow.planning.controller.autoscale import advise
from evenflow.planning.controller.build_decision import (
    DecisionContext,
    build_decision,
    without_plan,
)
from evenflow.planning.controller.config import Balancing
from evenflow.planning.controller.predict import moved_bytes
from evenflow.planning.controller.stage import refit_target
from evenflow.planning.controller.window import last_snapshot_with_keys

LEAST_PART_OF_GAIN = 0.5  # of the promised gain; with less, a proposal expires
_REQUESTED = (Trigger.MANUAL, Trigger.DRAIN, Trigger.ACTIVATE)


class Approval(NamedTuple):
    """What approval makes of a decision: the decision, what stands now, and what ended."""

    decision: Decision
    standing: Proposal | None
    ended: Proposal | None = None


def follow_approved(
    standing: Proposal | None,
    snapshots: Sequence[Snapshot],
    decisions: Sequence[Decision],
    config: Balancing,
) -> Decision | None:
    """Return the decision to follow an approved proposal, if it may be followed now."""
    if standing is None or standing.state != ProposalState.APPROVED:
        return None
    if not config.allows(snapshots[-1].at):
        return None
    context = DecisionContext.build(snapshots, decisions, config)
    if why_expired(standing, context):
        return None
    made, number = standing.decision, standing.number
    followed = build_decision(
        context,
        made.trigger,
        made.reason,
        f"proposal {number}, approved: {made.message}",
        target=context.loads_under(_whole_plan(standing, context)),
        verdicts=made.verdicts,
    )
    return replace(followed, proposal=number)


def await_approval(
    decision: Decision,
    standing: Proposal | None,
    snapshots: Sequence[Snapshot],
    decisions: Sequence[Decision],
    config: Balancing,
) -> Approval:
    """Return what may be done at once of an admitted decision, and which proposal stands now."""
    batch, ended, proposed = snapshots[-1].batch, None, decision
    context = None
    if standing is not None and decision.proposal == standing.number:
        if decision.plan is not None:
            return Approval(decision, None, standing.end(ProposalState.ADOPTED, batch))
        note = "; ".join(verdict.message for verdict in decision.verdicts)
        return Approval(decision, None, standing.end(ProposalState.EXPIRED, batch, note))
    if standing is not None or (config.mode == BalancingMode.PROPOSE and decision.plan is not None):
        context = DecisionContext.build(snapshots, decisions, config)
    if standing is not None and context is not None:
        is_followed = decision.plan is not None and _is_followed(decision, config)
        why = "another plan was adopted" if is_followed else why_expired(standing, context)
        if why:
            ended = standing.end(ProposalState.EXPIRED, batch, why)
            message = f"{decision.message}; proposal {standing.number} expired: {why}"
            decision, standing = replace(decision, message=message), None
        else:
            decision = replace(decision, proposal=standing.number)
    if decision.plan is None or _is_followed(decision, config):
        return Approval(decision, standing, ended)
    asks = config.mode == BalancingMode.PROPOSE and decision.trigger != Trigger.STAGED
    if context is None or not asks:
        windows = join_names(config.windows)
        message = f"waits for a maintenance window ({windows} UTC): {decision.message}"
        return Approval(without_plan(decision, Reason.OUTSIDE_WINDOW, message), standing, ended)
    if standing is None:
        standing = _new_proposal(proposed, context)
        message = f"proposal {batch} waits for approval: {decision.message}"
        held = without_plan(decision, Reason.PROPOSED, message)
        return Approval(replace(held, proposal=batch), standing, ended)
    return Approval(_await_standing(decision, standing, config), standing, ended)


def why_expired(standing: Proposal, context: DecisionContext) -> str:
    """Return why a proposal no longer stands; empty if it does."""
    moves, hosted = standing.decision.moves, context.last_snapshot.queries
    if context.config.mode != BalancingMode.PROPOSE:
        return f"the mode of balancing is {context.config.mode}"
    if gone := {move.query for move in moves} - hosted.keys():
        return f"{join_names(gone)} is no longer hosted"
    pinned = {m.query for m in moves if m.key_hash is None and hosted[m.query].pinned}
    return f"{join_names(pinned)} is pinned" if pinned else _why_prediction_fails(standing, context)


def _why_prediction_fails(standing: Proposal, context: DecisionContext) -> str:
    made, before = standing.decision, context.before
    if made.predicted is None or before.mean_load <= 0:
        return ""
    after = context.predict_balance(context.loads_under(_whole_plan(standing, context)))
    if after.imbalance > made.predicted.imbalance + context.config.max_imbalance:
        promised = f"instead of {made.predicted.imbalance:.3f}"
        return f"the load has changed, it would lead to {after.imbalance:.3f} {promised}"
    if made.trigger in (Trigger.IMBALANCE, Trigger.PROMOTION):
        gain = made.before.imbalance - made.predicted.imbalance
        if before.imbalance - after.imbalance < LEAST_PART_OF_GAIN * gain:
            return (
                f"the load has changed, the busiest worker is at {before.imbalance:.3f} times the "
                f"mean and would be at {after.imbalance:.3f}"
            )
    if made.trigger == Trigger.AUTOSCALE and made.plan is not None:
        wanted = advise(context.window, (), context.config)
        if wanted is not None and (wanted.workers > wanted.active) != (
            len(made.plan.active) > wanted.active
        ):
            return f"the load has changed, it needs {wanted.workers} workers"
    if made.trigger == Trigger.TRAFFIC:
        saved = made.before.shipped_bytes - made.predicted.shipped_bytes
        if before.shipped_bytes - after.shipped_bytes < LEAST_PART_OF_GAIN * saved:
            return "the load has changed, it would save less than half of the traffic"
    return ""


def recorded_answers(decisions: Sequence[Decision]) -> Mapping[int, bool]:
    """Return the answers that recorded decisions tell of: batch -> whether it was an approval."""
    return {
        decision.batch: decision.plan is not None
        for decision in decisions
        if decision.proposal is not None
        and (decision.plan is not None or decision.reason == Reason.REJECTED)
    }


def _is_followed(decision: Decision, config: Balancing) -> bool:
    """Tell whether the plan of a decision needs no approval and no window, or has them."""
    if decision.trigger in _REQUESTED:
        return True
    approved = config.mode != BalancingMode.PROPOSE or decision.trigger == Trigger.STAGED
    return approved and config.allows(decision.at)


def _whole_plan(standing: Proposal, context: DecisionContext) -> Plan:
    """Return the proposed plan for the queries hosted now."""
    return refit_target(standing.decision.plan or context.next_plan, context.next_plan)


def _new_proposal(decision: Decision, context: DecisionContext) -> Proposal:
    """Return the proposal of a decision: all stages of its plan together."""
    if decision.target is None:
        return Proposal(decision)
    whole = decision.target
    return Proposal(
        replace(
            decision,
            plan=whole,
            target=None,
            predicted=context.predict_balance(context.loads_under(whole)),
            moves=moves_between(context.next_plan, whole),
            moved_bytes=moved_bytes(
                context.next_plan, whole, last_snapshot_with_keys(context.window)
            ),
        )
    )


def _await_standing(decision: Decision, standing: Proposal, config: Balancing) -> Decision:
    number, now = standing.number, f"busiest worker at {decision.before.imbalance:.3f}"
    if standing.state == ProposalState.REJECTED:
        message = f"proposal {number} was rejected, {now} times the mean"
        return without_plan(decision, Reason.REJECTED, message)
    waits_for = "approval"
    if standing.state == ProposalState.APPROVED:
        waits_for = f"a maintenance window ({join_names(config.windows)} UTC)"
    message = f"proposal {number} waits for {waits_for}, {now} times the mean"
    return without_plan(decision, Reason.WAITING, message)
