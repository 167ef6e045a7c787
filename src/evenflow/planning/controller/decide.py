"""The controller: a pure function of what was observed and decided so far.

At every border, all in one plan: workers that go or come; whole queries that outgrew a worker;
where a worker surely carries too much, hot keys and whole queries, those first that cause it;
bursts that coincide. A plan too large for the move budget is followed in steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evenflow.errors import InputError
from evenflow.model import (
    BalanceMetrics,
    Decision,
    Plan,
    Reason,
    Snapshot,
    Trigger,
    Verdict,
    VerdictCode,
    moves_between,
)
from evenflow.planning.controller.arrivals import mean_stream_bytes
from evenflow.planning.controller.balance import predicted_balance
from evenflow.planning.controller.config import OFF, Balancing
from evenflow.planning.controller.drain import drainable_workers, plan_with_drained
from evenflow.planning.controller.predict import moved_bytes, same_plan
from evenflow.planning.controller.promotion import promote_queries, queries_to_promote
from evenflow.planning.controller.rebalance_keys import rebalance_keys
from evenflow.planning.controller.rebalance_queries import (
    QueryRebalance,
    rebalance_queries,
    separate_bursts,
)
from evenflow.planning.controller.stage import next_stage, over_budget_verdicts, refit_target
from evenflow.planning.controller.window import (
    MovableItem,
    last_snapshot_with_keys,
    recently_left_workers,
    select_window,
)
from evenflow.planning.controller.worker_loads import WorkerLoads

NO_CHANGE_REASONS = (
    Reason.INFEASIBLE,
    Reason.COOLDOWN,
    Reason.GAIN_TOO_SMALL,
    Reason.MOVES_IN_FLIGHT,
    Reason.NOT_SURE,
    Reason.FEW_SAMPLES,
    Reason.OFF,
    Reason.BALANCED,
)
"""Why nothing is done, what matters most first."""


@dataclass(frozen=True, slots=True, eq=False)
class DecisionContext:
    """What the steps look at besides the loads."""

    window: tuple[Snapshot, ...]
    stream_bytes: dict[str, float]
    recently_left: dict[MovableItem, set[int]]
    config: Balancing
    bursts_tried_recently: bool

    @property
    def last_snapshot(self) -> Snapshot:
        """The batch that has just ended."""
        return self.window[-1]

    @property
    def next_plan(self) -> Plan:
        """The plan to be changed."""
        return self.last_snapshot.next_plan

    def predict_balance(self, levels: WorkerLoads) -> BalanceMetrics:
        """Judge the plan of some levels."""
        return predicted_balance(levels, self.last_snapshot, self.stream_bytes)


@dataclass(slots=True)
class PlanDraft:
    """A plan on its way through the steps, the loads under it, and what they say about it."""

    loads: WorkerLoads
    context: DecisionContext
    trigger: Trigger = Trigger.NONE
    reason: Reason | None = None
    messages: list[str] = field(default_factory=list)
    no_change_reasons: set[Reason] = field(default_factory=set)
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def plan(self) -> Plan:
        """The plan as it stands."""
        return self.loads.plan

    def apply_change(self, plan: Plan, trigger: Trigger, reason: Reason, note: str) -> None:
        """Take a change in; the first one names the decision."""
        if self.reason is None:
            self.trigger, self.reason = trigger, reason
        self.loads = WorkerLoads.under_plan(self.context.window, plan)
        self.messages.append(note)

    def add_step_result(self, step_reason: Reason, verdicts: tuple[Verdict, ...]) -> None:
        """Keep what a step found, whether or not it changes anything."""
        self.no_change_reasons.add(step_reason)
        self.verdicts += verdicts


def decide(
    snapshots: Sequence[Snapshot], decisions: Sequence[Decision], config: Balancing
) -> Decision:
    """Decide at the border after the last snapshot, given all decisions before."""
    if not snapshots:
        raise InputError("a decision needs at least one snapshot, got none")
    view = _build_context(snapshots, decisions, config)
    draft = PlanDraft(WorkerLoads.under_plan(view.window, view.next_plan), view)
    before = view.predict_balance(draft.loads)
    target = _unfinished_target(view, decisions, before)
    if target is not None:
        draft.apply_change(
            target, Trigger.STAGED, Reason.STAGED, "the next step of the plan before"
        )
        return _build_decision(draft, before)
    _apply_drains(draft)
    if before.mean_load > 0:
        _apply_promotions(draft, before)
        _fix_imbalance(draft)
        _separate_bursts(draft)
    return _build_decision(draft, before)


def _build_context(
    snapshots: Sequence[Snapshot], decisions: Sequence[Decision], config: Balancing
) -> DecisionContext:
    window = select_window(snapshots, config.window)
    batch = window[-1].batch
    left = recently_left_workers(decisions, batch, config.cooldown)
    tried = any(
        decision.trigger == Trigger.BURSTS and decision.batch > batch - config.cooldown
        for decision in decisions[-config.cooldown :]
    )
    return DecisionContext(window, mean_stream_bytes(window), left, config, tried)


def _unfinished_target(
    view: DecisionContext, decisions: Sequence[Decision], before: BalanceMetrics
) -> Plan | None:
    """Return where the steps before lead, if that is still worth it."""
    last, following = decisions[-1] if decisions else None, view.next_plan
    if last is None or last.target is None or last.target.workers != following.workers:
        return None
    target = refit_target(last.target, following)
    pinned = [name for name, query in view.last_snapshot.queries.items() if query.pinned]
    if target.drained != drainable_workers(view.last_snapshot)[0] or any(
        target.placement.get(name) != following.placement.get(name) for name in pinned
    ):
        return None
    if target.drained == following.drained:
        after = view.predict_balance(WorkerLoads.under_plan(view.window, target))
        lighter = after.shipped_bytes < before.shipped_bytes
        even = after.imbalance <= 1 + view.config.max_imbalance
        if after.imbalance >= before.imbalance and not (lighter and even):
            return None
    return None if same_plan(target, following) else target


def _apply_drains(draft: PlanDraft) -> None:
    view, plan = draft.context, draft.plan
    drain, verdicts = drainable_workers(view.last_snapshot)
    draft.verdicts += verdicts
    if drain == plan.drained:
        return
    samples = draft.loads.whole_query_loads
    known = samples.mean(axis=1) if samples.size else np.zeros(len(draft.loads.whole_queries))
    loads = dict(zip(draft.loads.whole_queries, known.tolist(), strict=True))
    goes, comes = drain - plan.drained, plan.drained - drain
    changed = plan_with_drained(view.last_snapshot, drain, loads, view.stream_bytes, view.config)
    if comes:
        draft.apply_change(
            changed, Trigger.ACTIVATE, Reason.ACTIVATED, f"activates {_format_workers(comes)}"
        )
    if goes:
        draft.apply_change(
            changed, Trigger.DRAIN, Reason.DRAINED, f"drains {_format_workers(goes)}"
        )


def _apply_promotions(draft: PlanDraft, before: BalanceMetrics) -> None:
    view = draft.context
    if view.config.keys == OFF:
        return
    names = queries_to_promote(view.window, draft.plan, before.mean_load, view.config)
    if names:
        note = f"spreads {', '.join(names)} over all workers"
        draft.apply_change(
            promote_queries(draft.plan, names), Trigger.PROMOTION, Reason.PROMOTED, note
        )


def _fix_imbalance(draft: PlanDraft) -> None:
    """Even out the load if a worker surely carries too much, or workers come or go."""
    config, levels = draft.context.config, draft.loads
    forced = draft.plan.drained != draft.context.next_plan.drained
    if not forced:
        if len(levels.snapshots) < config.samples:
            draft.no_change_reasons.add(Reason.FEW_SAMPLES)
            return
        if levels.confident_imbalance(config.confidence) <= 1 + config.max_imbalance:
            even = draft.context.predict_balance(levels).imbalance <= 1 + config.max_imbalance
            draft.no_change_reasons.add(Reason.BALANCED if even else Reason.NOT_SURE)
            return
    steps = [_rebalance_keys, _rebalance_queries]
    for step in steps if _keys_cause_imbalance(levels) else reversed(steps):
        if (
            draft.loads.mean_loads.max()
            > (1 + config.target_imbalance) * draft.loads.mean_loads.mean()
        ):
            step(draft, forced)


def _keys_cause_imbalance(levels: WorkerLoads) -> bool:
    """Tell whether the busiest worker is that by its keys rather than by its whole queries."""
    busiest = int(levels.mean_loads.argmax())
    shared = levels.keyed_series[:, levels.active_workers].mean(axis=0)
    whole = levels.whole_series[:, levels.active_workers].mean(axis=0)
    return bool(shared[busiest] - shared.mean() >= whole[busiest] - whole.mean())


def _rebalance_keys(draft: PlanDraft, forced: bool) -> None:
    """Plan keyed queries, the heaviest first, until the load is even."""
    view, config = draft.context, draft.context.config
    if config.keys == OFF:
        draft.no_change_reasons |= {Reason.OFF} if draft.loads.keyed_queries else set()
        return
    weight = {name: float(part.series.sum()) for name, part in draft.loads.keyed_queries.items()}
    for name in sorted(weight, key=lambda name: (-weight[name], name)):
        means = draft.loads.mean_loads
        if means.max() <= (1 + config.target_imbalance) * means.mean():
            return
        step = rebalance_keys(draft.loads, name, view.recently_left, config, forced)
        draft.add_step_result(step.reason, step.verdicts)
        if step.table is not None:
            plan = replace(draft.plan, tables={**draft.plan.tables, name: step.table})
            note = f"keys of {name}: from {step.before:.3f} to {step.after:.3f} times the mean"
            draft.apply_change(plan, Trigger.IMBALANCE, Reason.KEYS, note)


def _rebalance_queries(draft: PlanDraft, forced: bool) -> None:
    view = draft.context
    if view.config.operators == OFF:
        draft.no_change_reasons |= {Reason.OFF} if draft.loads.whole_queries else set()
        return
    _apply_query_rebalance(
        draft,
        rebalance_queries(draft.loads, view.stream_bytes, view.recently_left, view.config, forced),
    )


def _separate_bursts(draft: PlanDraft) -> None:
    """Move bursts apart; a try that failed is not repeated within the cooldown."""
    view = draft.context
    if view.config.operators != OFF and draft.reason is None and not view.bursts_tried_recently:
        _apply_query_rebalance(
            draft, separate_bursts(draft.loads, view.stream_bytes, view.recently_left, view.config)
        )


def _apply_query_rebalance(draft: PlanDraft, step: QueryRebalance) -> None:
    draft.add_step_result(step.reason, step.verdicts)
    if step.placement is not None:
        plan = replace(draft.plan, placement={**draft.plan.placement, **step.placement})
        note = f"{len(step.placement)} queries: from {step.before:.3f} to {step.after:.3f}"
        draft.apply_change(plan, step.trigger, Reason.QUERIES, f"{note} times the mean")
    elif step.trigger != Trigger.NONE and draft.reason is None:
        draft.trigger = step.trigger


def _build_decision(draft: PlanDraft, before: BalanceMetrics) -> Decision:
    """Turn the draft into a decision; nothing changed is a decision as well."""
    view, following = draft.context, draft.context.next_plan
    last, verdicts = view.last_snapshot, tuple(dict.fromkeys(draft.verdicts))
    if draft.reason is None or same_plan(draft.plan, following):
        reason = _no_change_reason(draft, before)
        message = f"{reason}: busiest worker at {before.imbalance:.3f} times the mean"
        trigger = Trigger.NONE if draft.reason else draft.trigger
        return Decision(last.batch, last.at, trigger, reason, message, before, verdicts=verdicts)
    known = last_snapshot_with_keys(view.window)
    plan = next_stage(following, draft.plan, known, view.config)
    done = same_plan(plan, draft.plan)
    moved = moved_bytes(following, plan, known)
    return Decision(
        last.batch,
        last.at,
        draft.trigger,
        draft.reason,
        "; ".join(draft.messages),
        before,
        predicted=view.predict_balance(
            draft.loads if done else WorkerLoads.under_plan(view.window, plan)
        ),
        plan=plan,
        target=None if done else draft.plan,
        moves=moves_between(following, plan),
        moved_bytes=moved,
        verdicts=(*verdicts, *over_budget_verdicts(moved, view.config)),
    )


def _no_change_reason(draft: PlanDraft, before: BalanceMetrics) -> Reason:
    config = draft.context.config
    if (config.keys, config.operators) == (OFF, OFF):
        return Reason.OFF
    if before.mean_load <= 0:
        return Reason.NO_LOAD
    if any(
        verdict.code in (VerdictCode.ALL_DRAINED, VerdictCode.PINNED_ON_DRAINED)
        for verdict in draft.verdicts
    ):
        return Reason.INFEASIBLE
    return next(
        (reason for reason in NO_CHANGE_REASONS if reason in draft.no_change_reasons),
        Reason.BALANCED,
    )


def _format_workers(numbers: frozenset[int]) -> str:
    return f"worker{'s' * (len(numbers) > 1)} {', '.join(map(str, sorted(numbers)))}"
