"""The controller: a pure function of what was observed and decided so far.

At every border, all in one plan: workers that go or come; whole queries that outgrew a worker;
where a worker surely carries too much, hot keys and whole queries, those first that cause it;
bursts that coincide. A plan too large for the move budget is followed in steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evenflow.errors import InputError
from evenflow.model import Decision, Judgement, Plan, Snapshot, Verdict, moves
from evenflow.planning.joint.arrival import stream_rates
from evenflow.planning.joint.config import OFF, Balancing
from evenflow.planning.joint.draining import drainable, redrained
from evenflow.planning.joint.judge import predicted
from evenflow.planning.joint.keyed import plan_keys
from evenflow.planning.joint.levels import Levels
from evenflow.planning.joint.projection import moved_bytes, same_plan
from evenflow.planning.joint.promotion import outgrown, promoted
from evenflow.planning.joint.recent import Item, last_known, recent_moves, remembered
from evenflow.planning.joint.staging import over_budget, refitted, stage
from evenflow.planning.joint.whole import WholeStep, even_out, keep_apart

QUIET = (
    "infeasible",
    "cooldown",
    "gain_too_small",
    "moves_in_flight",
    "not_sure",
    "few_samples",
    OFF,
    "balanced",
)
"""Why nothing is done, what matters most first."""


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """What the steps look at besides the loads."""

    window: tuple[Snapshot, ...]
    rates: dict[str, float]
    left: dict[Item, set[int]]
    config: Balancing
    bursts_tried: bool

    @property
    def last(self) -> Snapshot:
        """The batch that has just ended."""
        return self.window[-1]

    @property
    def following(self) -> Plan:
        """The plan to be changed."""
        return self.last.following

    def judge(self, levels: Levels) -> Judgement:
        """Judge the plan of some levels."""
        return predicted(levels, self.last, self.rates)


@dataclass(slots=True)
class Draft:
    """A plan on its way through the steps, the loads under it, and what they say about it."""

    levels: Levels
    view: View
    trigger: str = "none"
    reason: str = ""
    notes: list[str] = field(default_factory=list)
    reasons: set[str] = field(default_factory=set)
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def plan(self) -> Plan:
        """The plan as it stands."""
        return self.levels.plan

    def change(self, plan: Plan, trigger: str, reason: str, note: str) -> None:
        """Take a change in; the first one names the decision."""
        if not self.reason:
            self.trigger, self.reason = trigger, reason
        self.levels = Levels.of(self.view.window, plan)
        self.notes.append(note)

    def note(self, step_reason: str, verdicts: tuple[Verdict, ...]) -> None:
        """Keep what a step found, whether or not it changes anything."""
        self.reasons.add(step_reason)
        self.verdicts += verdicts


def decide(
    snapshots: Sequence[Snapshot], decisions: Sequence[Decision], config: Balancing
) -> Decision:
    """Decide at the border after the last snapshot, given all decisions before."""
    if not snapshots:
        raise InputError("a decision needs at least one snapshot, got none")
    view = _view(snapshots, decisions, config)
    draft = Draft(Levels.of(view.window, view.following), view)
    before = view.judge(draft.levels)
    target = _unfinished(view, decisions, before)
    if target is not None:
        draft.change(target, "staged", "staged", "the next step of the plan before")
        return _closed(draft, before)
    _draining(draft)
    if before.mean_load > 0:
        _promotion(draft, before)
        _imbalance(draft)
        _bursts(draft)
    return _closed(draft, before)


def _view(snapshots: Sequence[Snapshot], decisions: Sequence[Decision], config: Balancing) -> View:
    window = remembered(snapshots, config.window)
    batch = window[-1].batch
    left = recent_moves(decisions, batch, config.cooldown)
    tried = any(
        decision.trigger == "bursts" and decision.batch > batch - config.cooldown
        for decision in decisions[-config.cooldown :]
    )
    return View(window, stream_rates(window), left, config, tried)


def _unfinished(view: View, decisions: Sequence[Decision], before: Judgement) -> Plan | None:
    """Return where the steps before lead, if that is still worth it."""
    last, following = decisions[-1] if decisions else None, view.following
    if last is None or last.target is None or last.target.workers != following.workers:
        return None
    target = refitted(last.target, following)
    pinned = [name for name, query in view.last.queries.items() if query.pinned]
    if target.drained != drainable(view.last)[0] or any(
        target.placement.get(name) != following.placement.get(name) for name in pinned
    ):
        return None
    if target.drained == following.drained:
        after = view.judge(Levels.of(view.window, target))
        lighter = after.shipped_bytes < before.shipped_bytes
        even = after.imbalance <= 1 + view.config.max_imbalance
        if after.imbalance >= before.imbalance and not (lighter and even):
            return None
    return None if same_plan(target, following) else target


def _draining(draft: Draft) -> None:
    view, plan = draft.view, draft.plan
    drain, verdicts = drainable(view.last)
    draft.verdicts += verdicts
    if drain == plan.drained:
        return
    samples = draft.levels.samples
    known = samples.mean(axis=1) if samples.size else np.zeros(len(draft.levels.names))
    loads = dict(zip(draft.levels.names, known.tolist(), strict=True))
    goes, comes = drain - plan.drained, plan.drained - drain
    changed = redrained(view.last, drain, loads, view.rates, view.config)
    if comes:
        draft.change(changed, "activate", "activated", f"activates {_workers(comes)}")
    if goes:
        draft.change(changed, "drain", "drained", f"drains {_workers(goes)}")


def _promotion(draft: Draft, before: Judgement) -> None:
    view = draft.view
    if view.config.keys == OFF:
        return
    names = outgrown(view.window, draft.plan, before.mean_load, view.config)
    if names:
        note = f"spreads {', '.join(names)} over all workers"
        draft.change(promoted(draft.plan, names), "promotion", "promoted", note)


def _imbalance(draft: Draft) -> None:
    """Even out the load if a worker surely carries too much, or workers come or go."""
    config, levels = draft.view.config, draft.levels
    forced = draft.plan.drained != draft.view.following.drained
    if not forced:
        if len(levels.snapshots) < config.samples:
            draft.reasons.add("few_samples")
            return
        if levels.surely(config.confidence) <= 1 + config.max_imbalance:
            even = draft.view.judge(levels).imbalance <= 1 + config.max_imbalance
            draft.reasons.add("balanced" if even else "not_sure")
            return
    steps = [_keys, _queries]
    for step in steps if _keys_cause_it(levels) else reversed(steps):
        if draft.levels.means.max() > (1 + config.aim) * draft.levels.means.mean():
            step(draft, forced)


def _keys_cause_it(levels: Levels) -> bool:
    """Tell whether the busiest worker is that by its keys rather than by its whole queries."""
    busiest = int(levels.means.argmax())
    shared = levels.shared[:, levels.active].mean(axis=0)
    whole = levels.whole[:, levels.active].mean(axis=0)
    return bool(shared[busiest] - shared.mean() >= whole[busiest] - whole.mean())


def _keys(draft: Draft, forced: bool) -> None:
    """Plan keyed queries, the heaviest first, until the load is even."""
    view, config = draft.view, draft.view.config
    if config.keys == OFF:
        draft.reasons |= {OFF} if draft.levels.keyed else set()
        return
    weight = {name: float(part.series.sum()) for name, part in draft.levels.keyed.items()}
    for name in sorted(weight, key=lambda name: (-weight[name], name)):
        means = draft.levels.means
        if means.max() <= (1 + config.aim) * means.mean():
            return
        step = plan_keys(draft.levels, name, view.left, config, forced)
        draft.note(step.reason, step.verdicts)
        if step.table is not None:
            plan = replace(draft.plan, tables={**draft.plan.tables, name: step.table})
            note = f"keys of {name}: from {step.before:.3f} to {step.after:.3f} times the mean"
            draft.change(plan, "imbalance", "keys", note)


def _queries(draft: Draft, forced: bool) -> None:
    view = draft.view
    if view.config.operators == OFF:
        draft.reasons |= {OFF} if draft.levels.names else set()
        return
    _take(draft, even_out(draft.levels, view.rates, view.left, view.config, forced))


def _bursts(draft: Draft) -> None:
    """Move bursts apart; a try that failed is not repeated within the cooldown."""
    view = draft.view
    if view.config.operators != OFF and not draft.reason and not view.bursts_tried:
        _take(draft, keep_apart(draft.levels, view.rates, view.left, view.config))


def _take(draft: Draft, step: WholeStep) -> None:
    draft.note(step.reason, step.verdicts)
    if step.placement is not None:
        plan = replace(draft.plan, placement={**draft.plan.placement, **step.placement})
        note = f"{len(step.placement)} queries: from {step.before:.3f} to {step.after:.3f}"
        draft.change(plan, step.trigger, "queries", f"{note} times the mean")
    elif step.trigger != "none" and not draft.reason:
        draft.trigger = step.trigger


def _closed(draft: Draft, before: Judgement) -> Decision:
    """Turn the draft into a decision; nothing changed is a decision as well."""
    view, following = draft.view, draft.view.following
    last, verdicts = view.last, tuple(dict.fromkeys(draft.verdicts))
    if not draft.reason or same_plan(draft.plan, following):
        reason = _why_quiet(draft, before)
        message = f"{reason}: busiest worker at {before.imbalance:.3f} times the mean"
        trigger = "none" if draft.reason else draft.trigger
        return Decision(last.batch, last.at, trigger, reason, message, before, verdicts=verdicts)
    known = last_known(view.window)
    plan = stage(following, draft.plan, known, view.config)
    done = same_plan(plan, draft.plan)
    moved = moved_bytes(following, plan, known)
    return Decision(
        last.batch,
        last.at,
        draft.trigger,
        draft.reason,
        "; ".join(draft.notes),
        before,
        predicted=view.judge(draft.levels if done else Levels.of(view.window, plan)),
        plan=plan,
        target=None if done else draft.plan,
        moves=moves(following, plan),
        moved_bytes=moved,
        verdicts=(*verdicts, *over_budget(moved, view.config)),
    )


def _why_quiet(draft: Draft, before: Judgement) -> str:
    config = draft.view.config
    if (config.keys, config.operators) == (OFF, OFF):
        return OFF
    if before.mean_load <= 0:
        return "no_load"
    if any(verdict.code in ("all_drained", "pinned_on_drained") for verdict in draft.verdicts):
        return "infeasible"
    return next((reason for reason in QUIET if reason in draft.reasons), "balanced")


def _workers(numbers: frozenset[int]) -> str:
    return f"worker{'s' * (len(numbers) > 1)} {', '.join(map(str, sorted(numbers)))}"
