"""The planners' decision at a batch boundary: a pure function of snapshots and past decisions.

One plan combines, in this order: workers that are drained or activated, whole queries that outgrew
a worker, the largest cause of imbalance first (keys or whole queries), and bursts that coincide.
A plan that exceeds the move budget is followed in stages.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evenflow.model import Decision, Plan, Reason, Snapshot, Trigger, Verdict, VerdictCode
from evenflow.model.words import reason_words
from evenflow.planning.controller.autoscale import advise, scaled_workers, workers_to_drain
from evenflow.planning.controller.build_decision import DecisionContext, build_decision
from evenflow.planning.controller.config import OFF, Balancing
from evenflow.planning.controller.drain import drainable_workers, plan_with_drained
from evenflow.planning.controller.predict import same_plan
from evenflow.planning.controller.promotion import promote_queries, queries_to_promote
from evenflow.planning.controller.rebalance_keys import (
    KeyRebalance,
    rebalance_keys,
    shrink_splits,
)
from evenflow.planning.controller.rebalance_queries import (
    QueryRebalance,
    place_initially,
    rebalance_queries,
    separate_bursts,
)
from evenflow.planning.controller.stage import refit_target
from evenflow.planning.controller.window import busy_snapshots
from evenflow.planning.controller.worker_loads import WorkerLoads

MAX_NOTES = 3  # split keys named in a message
SECOND_PLAN_ERRORS = 1.0  # standard errors of row counts, if a plan is judged again
NO_CHANGE_REASONS = (
    Reason.INFEASIBLE,
    Reason.COOLDOWN,
    Reason.GAIN_TOO_SMALL,
    Reason.NOT_WORTH_IT,
    Reason.MOVES_IN_FLIGHT,
    Reason.NOT_SURE,
    Reason.FEW_SAMPLES,
    Reason.OFF,
    Reason.BALANCED,
)
"""Reasons for no change, the most important first."""


@dataclass(slots=True)
class PlanDraft:
    """The plan so far, with the loads under it and the reasons for and against changes."""

    loads: WorkerLoads
    context: DecisionContext
    trigger: Trigger = Trigger.NONE
    reason: Reason | None = None
    messages: list[str] = field(default_factory=list)
    no_change_reasons: set[Reason] = field(default_factory=set)
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def plan(self) -> Plan:
        """The plan so far."""
        return self.loads.plan

    @property
    def meets_target(self) -> bool:
        """Whether no worker exceeds the load that plans aim at."""
        means = self.loads.mean_loads
        return bool(means.max() <= (1 + self.context.config.target_imbalance) * means.mean())

    def apply_change(self, plan: Plan, trigger: Trigger, reason: Reason, message: str) -> None:
        """Replace the plan; the first change gives the decision its trigger and reason."""
        if self.reason is None:
            self.trigger, self.reason = trigger, reason
        self.loads = self.context.loads_under(plan)
        self.messages.append(message)

    def add_step_result(self, reason: Reason, verdicts: tuple[Verdict, ...]) -> None:
        """Keep the reason and verdicts of a step, whether or not it changes the plan."""
        self.no_change_reasons.add(reason)
        self.verdicts += verdicts


def decide(
    snapshots: Sequence[Snapshot], decisions: Sequence[Decision], config: Balancing
) -> Decision:
    """Decide at the boundary after the last snapshot, given all earlier decisions."""
    context = DecisionContext.build(snapshots, decisions, config)
    draft = PlanDraft(context.loads, context)
    target = _unfinished_target(context, decisions)
    if target is not None:
        message = "the next step of the earlier plan"
        draft.apply_change(target, Trigger.STAGED, Reason.STAGED, message)
        return _draft_decision(draft)
    _apply_drains(draft)
    if draft.reason is None:
        _apply_autoscale(draft, snapshots, decisions)
    if draft.reason is None and _is_warmed_up(context, snapshots, decisions):
        step = place_initially(draft.loads, context)
        _apply_query_rebalance(draft, step)
        if step.placement is not None:
            return _draft_decision(draft)
    if context.before.mean_load > 0:
        _apply_promotions(draft)
        _fix_imbalance(draft)
        if draft.reason is None and not _tried_bursts_recently(context, decisions):
            _separate_bursts(draft)
    return _draft_decision(draft)


def _unfinished_target(context: DecisionContext, decisions: Sequence[Decision]) -> Plan | None:
    """Return the target of the earlier stages if it is still worth following."""
    last, current, before = decisions[-1] if decisions else None, context.next_plan, context.before
    if last is None or last.target is None or last.target.workers != current.workers:
        return None
    target = refit_target(last.target, current)
    pinned = [name for name, query in context.last_snapshot.queries.items() if query.pinned]
    requested = drainable_workers(context.last_snapshot)[0]
    scales = context.config.autoscale is not None and requested == current.drained
    if (target.drained != requested and not scales) or any(
        target.placement.get(name) != current.placement.get(name) for name in pinned
    ):
        return None
    if target.drained == current.drained:
        after = context.predict_balance(context.loads_under(target))
        lighter = after.shipped_bytes < before.shipped_bytes
        even = after.imbalance <= 1 + context.config.max_imbalance
        if after.imbalance >= before.imbalance and not (lighter and even):
            return None
    return None if same_plan(target, current) else target


def _apply_drains(draft: PlanDraft) -> None:
    context, plan = draft.context, draft.plan
    drained, verdicts = drainable_workers(context.last_snapshot)
    draft.verdicts += verdicts
    if drained != plan.drained:
        _change_drained(draft, drained)


def _apply_autoscale(
    draft: PlanDraft, snapshots: Sequence[Snapshot], decisions: Sequence[Decision]
) -> None:
    """Activate or drain workers if the load needs another number of them."""
    context = draft.context
    active = scaled_workers(snapshots, decisions, context.config)
    if active is None:
        return
    drained = workers_to_drain(draft.plan, active, context.last_snapshot)
    advice = advise(snapshots, (), context.config)
    if drained != draft.plan.drained:
        because = "the number of workers is limited" if advice is None else advice.message
        _change_drained(draft, drained, Trigger.AUTOSCALE, because)


def _change_drained(
    draft: PlanDraft, drained: frozenset[int], trigger: Trigger | None = None, because: str = ""
) -> None:
    context, plan = draft.context, draft.plan
    samples, names = draft.loads.whole_query_loads, draft.loads.whole_queries
    means = samples.mean(axis=1) if samples.size else np.zeros(len(names))
    loads = dict(zip(names, means.tolist(), strict=True))
    changed = plan_with_drained(
        context.last_snapshot, drained, loads, context.stream_bytes, context.config
    )
    for workers, verb, requested, reason in (
        (plan.drained - drained, "activates", Trigger.ACTIVATE, Reason.ACTIVATED),
        (drained - plan.drained, "drains", Trigger.DRAIN, Reason.DRAINED),
    ):
        if workers:
            numbers = ", ".join(map(str, sorted(workers)))
            message = f"{verb} worker{'s' * (len(workers) > 1)} {numbers}"
            message += f": {because}" if because else ""
            draft.apply_change(changed, trigger or requested, reason, message)


def _apply_promotions(draft: PlanDraft) -> None:
    context = draft.context
    if context.config.keys == OFF:
        return
    mean_load = context.before.mean_load
    names = queries_to_promote(context.window, draft.plan, mean_load, context.config)
    if names:
        message = f"spreads {', '.join(names)} over all workers"
        plan = promote_queries(draft.plan, names)
        draft.apply_change(plan, Trigger.PROMOTION, Reason.PROMOTED, message)


def _fix_imbalance(draft: PlanDraft) -> None:
    """Even out the load if a worker is surely above the bound, or workers join or leave."""
    config, loads = draft.context.config, draft.loads
    forced = draft.plan.drained != draft.context.next_plan.drained
    if not forced:
        if len(loads.snapshots) < config.samples:
            draft.no_change_reasons.add(Reason.FEW_SAMPLES)
            return
        bound = 1 + config.max_imbalance
        planned = draft.context.queries_planned_since_change()
        if not loads.is_surely_above(bound, config.confidence, planned) and not _is_hasty(draft):
            even = draft.context.predict_balance(loads).imbalance <= bound
            draft.no_change_reasons.add(Reason.BALANCED if even else Reason.NOT_SURE)
            _shrink_splits(draft)
            return
        excess = float(loads.mean_loads.max() - loads.mean_loads.mean())
        if not draft.context.is_worth_a_plan(excess):
            draft.no_change_reasons.add(Reason.NOT_WORTH_IT)
            return
    steps: list[Callable[[PlanDraft, bool], None]] = [_rebalance_keys, _rebalance_queries]
    for step in steps if _keys_cause_imbalance(loads) else reversed(steps):
        if not draft.meets_target:
            step(draft, forced)


def _is_hasty(draft: PlanDraft) -> bool:
    """Tell whether more batches show that the plan in force misses what it aimed at."""
    config, context = draft.context.config, draft.context
    again = context.queries_to_plan_again()
    planned = context.queries_planned_since_change() - again
    target = 1 + 1.5 * config.target_imbalance
    return bool(again) and draft.loads.is_surely_above(
        target, config.confidence, planned, row_errors=SECOND_PLAN_ERRORS
    )


def _keys_cause_imbalance(loads: WorkerLoads) -> bool:
    """Return whether the busiest worker exceeds the mean more by keys than by whole queries."""
    busiest = int(loads.mean_loads.argmax())
    keyed = loads.keyed_series[:, loads.active_workers].mean(axis=0)
    whole = loads.whole_series[:, loads.active_workers].mean(axis=0)
    return bool(keyed[busiest] - keyed.mean() >= whole[busiest] - whole.mean())


def _rebalance_keys(draft: PlanDraft, forced: bool) -> None:
    """Plan keyed queries, the heaviest first, until the load is even."""
    if draft.context.config.keys == OFF:
        draft.no_change_reasons |= {Reason.OFF} if draft.loads.keyed_queries else set()
        return
    weights = {name: float(query.series.sum()) for name, query in draft.loads.keyed_queries.items()}
    for name in sorted(weights, key=lambda name: (-weights[name], name)):
        if draft.meets_target:
            return
        step = rebalance_keys(draft.loads, name, draft.context, forced=forced)
        draft.add_step_result(step.reason, step.verdicts)
        if step.table is not None:
            plan = replace(draft.plan, tables={**draft.plan.tables, name: step.table})
            draft.apply_change(plan, Trigger.IMBALANCE, Reason.KEYS, _describe_keys(name, step))


def _shrink_splits(draft: PlanDraft) -> None:
    """Give split keys that cooled down fewer workers."""
    if draft.context.config.keys == OFF:
        return
    for name in sorted(draft.loads.keyed_queries):
        step = shrink_splits(draft.loads, name, draft.context)
        if step.table is not None:
            plan = replace(draft.plan, tables={**draft.plan.tables, name: step.table})
            draft.apply_change(plan, Trigger.COOLED, Reason.KEYS, _describe_keys(name, step))


def _describe_keys(name: str, step: KeyRebalance) -> str:
    change = f"keys of {name}: from {step.before:.3f} to {step.after:.3f} times the mean"
    more = len(step.notes) - MAX_NOTES
    notes = [*step.notes[:MAX_NOTES], *([f"{more} more split keys change"] if more > 0 else [])]
    return "; ".join([change, *notes])


def _rebalance_queries(draft: PlanDraft, forced: bool) -> None:
    if draft.context.config.operators == OFF:
        draft.no_change_reasons |= {Reason.OFF} if draft.loads.whole_queries else set()
        return
    _apply_query_rebalance(draft, rebalance_queries(draft.loads, draft.context, forced=forced))


def _is_warmed_up(
    context: DecisionContext, snapshots: Sequence[Snapshot], decisions: Sequence[Decision]
) -> bool:
    """Tell whether the initial plan is due: once, when the warm-up has just ended."""
    config = context.config
    if config.initial == OFF or len(context.loads.snapshots) < config.warm_up:
        return False
    if any(decision.trigger == Trigger.INITIAL for decision in decisions):
        return False
    return len(busy_snapshots(snapshots)) <= config.warm_up + config.cooldown


def _tried_bursts_recently(context: DecisionContext, decisions: Sequence[Decision]) -> bool:
    """Return whether bursts were separated, or tried to be, within the cooldown."""
    cooldown = context.config.cooldown
    return any(
        decision.trigger == Trigger.BURSTS
        and decision.batch > context.last_snapshot.batch - cooldown
        for decision in decisions[-cooldown:]
    )


def _separate_bursts(draft: PlanDraft) -> None:
    if draft.context.config.operators != OFF:
        _apply_query_rebalance(draft, separate_bursts(draft.loads, draft.context))


def _apply_query_rebalance(draft: PlanDraft, step: QueryRebalance) -> None:
    draft.add_step_result(step.reason, step.verdicts)
    if step.placement is not None:
        plan = replace(draft.plan, placement={**draft.plan.placement, **step.placement})
        change = f"from {step.before:.3f} to {step.after:.3f} times the mean"
        first = step.trigger == Trigger.INITIAL
        measure = f"placed afresh by {draft.context.config.initial}, deviation " if first else ""
        message = f"{len(step.placement)} queries: {measure}{change}"
        draft.apply_change(plan, step.trigger, Reason.QUERIES, message)
    elif step.trigger != Trigger.NONE and draft.reason is None:
        draft.trigger = step.trigger


def _draft_decision(draft: PlanDraft) -> Decision:
    context, verdicts = draft.context, dict.fromkeys(draft.verdicts)
    if draft.reason is None or same_plan(draft.plan, context.next_plan):
        reason = _no_change_reason(draft)
        words = reason_words(reason)
        message = f"{words}: busiest worker at {context.before.imbalance:.3f} times the mean"
        if reason == Reason.NOT_WORTH_IT:
            message += _describe_excess(context)
        trigger = draft.trigger if draft.reason is None else Trigger.NONE
        return build_decision(context, trigger, reason, message, verdicts=verdicts)
    trigger, reason, message = draft.trigger, draft.reason, "; ".join(draft.messages)
    return build_decision(context, trigger, reason, message, target=draft.loads, verdicts=verdicts)


def _describe_excess(context: DecisionContext) -> str:
    """Return how much the excess of the busiest worker is, and what it is compared with."""
    excess = context.before.max_load - context.before.mean_load
    return (
        f", {1e3 * excess:.3g} ms more per batch; a plan needs {context.config.min_excess:.3g} of "
        f"the {context.interval:.3g} s from batch to batch (min_excess)"
    )


def _no_change_reason(draft: PlanDraft) -> Reason:
    config = draft.context.config
    if (config.keys, config.operators) == (OFF, OFF):
        return Reason.OFF
    if draft.context.before.mean_load <= 0:
        return Reason.NO_LOAD
    if {VerdictCode.ALL_DRAINED, VerdictCode.PINNED_ON_DRAINED} & {v.code for v in draft.verdicts}:
        return Reason.INFEASIBLE
    return next((r for r in NO_CHANGE_REASONS if r in draft.no_change_reasons), Reason.BALANCED)
