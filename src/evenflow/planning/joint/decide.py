"""The controller: a pure function of what was observed and decided so far.

At every border, in this order, all in one plan: workers that go or come; hot keys of keyed
queries; whole queries that outgrew a worker; whole queries that make a worker too full or whose
bursts coincide. A plan too large for the move budget is followed in steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from evenflow.errors import InputError
from evenflow.model import Decision, Judgement, Move, Plan, Snapshot, Verdict, moves
from evenflow.model.arrays import Floats
from evenflow.planning.joint.arrival import stream_rates
from evenflow.planning.joint.config import OFF, Balancing
from evenflow.planning.joint.draining import drainable, redrained
from evenflow.planning.joint.estimate import last_change, shares, usable
from evenflow.planning.joint.judge import judgement
from evenflow.planning.joint.keyed import plan_keys
from evenflow.planning.joint.projection import (
    moved_bytes,
    same_plan,
    shipped_bytes,
    whole_series,
    worker_loads,
)
from evenflow.planning.joint.promotion import outgrown, promoted
from evenflow.planning.joint.recent import Item, recent_moves
from evenflow.planning.joint.staging import refitted, stage
from evenflow.planning.joint.whole import plan_whole

QUIET = (
    "infeasible",
    "cooldown",
    "gain_too_small",
    "moves_in_flight",
    "not_sure",
    "few_samples",
    "balanced",
)
"""Why nothing is done, what matters most first."""


@dataclass(slots=True)
class _Draft:
    """A plan on its way through the steps, and what they say about it."""

    plan: Plan
    trigger: str = "none"
    reason: str = ""
    notes: list[str] = field(default_factory=list)
    reasons: set[str] = field(default_factory=set)
    verdicts: list[Verdict] = field(default_factory=list)

    def change(self, plan: Plan, trigger: str, reason: str, note: str) -> None:
        """Take a change in; the first one names the decision."""
        if not self.reason:
            self.trigger, self.reason = trigger, reason
        self.plan = plan
        self.notes.append(note)


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """What the steps look at: the window, its usable rows, and what holds since when."""

    snapshots: tuple[Snapshot, ...]
    rates: dict[str, float]
    left: dict[Item, set[int]]
    config: Balancing

    @property
    def last(self) -> Snapshot:
        """The batch that has just ended."""
        return self.snapshots[-1]

    def judge(self, plan: Plan) -> Judgement:
        """Judge a plan by the window."""
        loads = worker_loads(self.snapshots, plan)
        rows = usable(loads[:, list(plan.active)])
        shipped = shipped_bytes(plan, self.last, self.rates)
        if not len(rows):
            return judgement(loads, plan.active, shipped)
        return judgement(loads[rows], plan.active, shipped, self.since(loads[rows], plan))

    @staticmethod
    def since(loads: Floats, plan: Plan) -> int:
        """Return since which row the loads hold."""
        return last_change(shares(loads[:, list(plan.active)]))


def decide(
    snapshots: Sequence[Snapshot], decisions: Sequence[Decision], config: Balancing
) -> Decision:
    """Decide at the border after the last snapshot, given all decisions before."""
    if not snapshots:
        raise InputError("a decision needs at least one snapshot, got none")
    view = _view(snapshots, decisions, config)
    following = view.last.following
    before = view.judge(following)
    draft = _Draft(following)
    target = _unfinished(view, decisions, before)
    if target is not None:
        draft.change(target, "staged", "staged", "the next step of the plan before")
    else:
        _draining(draft, view)
        if before.mean_load > 0:
            _keys(draft, view, before)
            _promotion(draft, view, before)
            _queries(draft, view, decisions)
    return _closed(draft, view, before)


def _view(snapshots: Sequence[Snapshot], decisions: Sequence[Decision], config: Balancing) -> _View:
    window = tuple(snapshots[-config.window :])
    last = window[-1]
    left = recent_moves(decisions, last.batch, config.cooldown)
    return _View(window, stream_rates(window), left, config)


def _unfinished(view: _View, decisions: Sequence[Decision], before: Judgement) -> Plan | None:
    """Return where the steps before lead, if that is still worth it."""
    last = decisions[-1] if decisions else None
    if last is None or last.target is None or last.target.workers != view.last.plan.workers:
        return None
    target = refitted(last.target, view.last.following)
    drain, _ = drainable(view.last)
    pinned = {name for name, query in view.last.queries.items() if query.pinned}
    if target.drained != drain or any(
        target.placement.get(name) != view.last.following.placement.get(name) for name in pinned
    ):
        return None
    gains = target.drained != view.last.following.drained
    if not gains and view.judge(target).imbalance >= before.imbalance:
        return None
    return None if same_plan(target, view.last.following) else target


def _draining(draft: _Draft, view: _View) -> None:
    drain, verdicts = drainable(view.last)
    draft.verdicts += verdicts
    if drain == draft.plan.drained:
        return
    names = list(draft.plan.placement)
    known = whole_series(view.snapshots, names).mean(axis=1).tolist() if names else []
    loads = dict(zip(names, known, strict=True))
    goes, comes = drain - draft.plan.drained, draft.plan.drained - drain
    plan = redrained(view.last, drain, loads, view.rates, view.config)
    if comes:
        draft.change(plan, "activate", "activated", f"activates {_workers(comes)}")
    if goes:
        draft.change(plan, "drain", "drained", f"drains {_workers(goes)}")


def _keys(draft: _Draft, view: _View, before: Judgement) -> None:
    if view.config.keys == OFF:
        return
    forced = draft.plan.drained != view.last.following.drained
    for name in sorted(draft.plan.tables):
        step = plan_keys(
            view.snapshots, name, draft.plan, view.left, before.mean_load, view.config, forced
        )
        draft.reasons.add(step.reason)
        draft.verdicts += step.verdicts
        if step.table is not None:
            plan = replace(draft.plan, tables={**draft.plan.tables, name: step.table})
            note = f"keys of {name}: from {step.before:.3f} to {step.after:.3f} times the mean"
            draft.change(plan, "imbalance", "keys", note)


def _promotion(draft: _Draft, view: _View, before: Judgement) -> None:
    if view.config.keys == OFF or len(view.snapshots) < view.config.samples:
        return
    names = outgrown(view.snapshots, draft.plan, before.mean_load, view.config)
    if names:
        note = f"spreads {', '.join(names)} over all workers"
        draft.change(promoted(draft.plan, names), "promotion", "promoted", note)


def _queries(draft: _Draft, view: _View, decisions: Sequence[Decision]) -> None:
    if view.config.operators == OFF:
        return
    comes = view.last.following.drained - draft.plan.drained
    tried = any(
        decision.trigger == "bursts" and decision.batch > view.last.batch - view.config.cooldown
        for decision in decisions[-view.config.cooldown :]
    )
    step = plan_whole(
        view.snapshots, draft.plan, view.left, view.config, bool(comes), bursts=not tried
    )
    draft.reasons.add(step.reason)
    draft.verdicts += step.verdicts
    if step.placement is not None:
        plan = replace(draft.plan, placement={**draft.plan.placement, **step.placement})
        note = f"{step.trigger} of queries: from {step.before:.3f} to {step.after:.3f}"
        draft.change(plan, step.trigger, "queries", note)
    elif step.trigger != "none" and draft.trigger == "none":
        draft.trigger = step.trigger


def _closed(draft: _Draft, view: _View, before: Judgement) -> Decision:
    """Turn the draft into a decision; nothing changed is a decision as well."""
    last, following = view.last, view.last.following
    verdicts = tuple(dict.fromkeys(draft.verdicts))
    if not draft.reason or same_plan(draft.plan, following):
        reason = _why_quiet(draft, view, before)
        trigger = draft.trigger if not draft.reason else "none"
        message = f"{reason}: busiest worker at {before.imbalance:.3f} times the mean"
        return Decision(last.batch, last.at, trigger, reason, message, before, verdicts=verdicts)
    plan = stage(following, draft.plan, last, view.config)
    done = same_plan(plan, draft.plan)
    made: tuple[Move, ...] = moves(following, plan)
    return Decision(
        last.batch,
        last.at,
        draft.trigger,
        draft.reason,
        "; ".join(draft.notes),
        before,
        predicted=view.judge(plan),
        plan=plan,
        target=None if done else draft.plan,
        moves=made,
        moved_bytes=moved_bytes(following, plan, last),
        verdicts=verdicts,
    )


def _why_quiet(draft: _Draft, view: _View, before: Judgement) -> str:
    if (view.config.keys, view.config.operators) == (OFF, OFF):
        return OFF
    if before.mean_load <= 0:
        return "no_load"
    if any(verdict.code in ("all_drained", "pinned_on_drained") for verdict in draft.verdicts):
        return "infeasible"
    return next((reason for reason in QUIET if reason in draft.reasons), "balanced")


def _workers(numbers: frozenset[int]) -> str:
    return f"worker{'s' * (len(numbers) > 1)} {', '.join(map(str, sorted(numbers)))}"
