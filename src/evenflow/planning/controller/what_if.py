"""What-if: the plan that the controller would choose with other workers, rates or pins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenflow.errors import InputError
from evenflow.model import (
    BalanceMetrics,
    KeyStats,
    Move,
    Plan,
    QueryLoad,
    Snapshot,
    Verdict,
    VerdictCode,
    moves_between,
)
from evenflow.model.snapshot import WORKER_FIELDS
from evenflow.names import join_names
from evenflow.planning.controller.build_decision import DecisionContext
from evenflow.planning.controller.config import OFF, Balancing
from evenflow.planning.controller.decide import decide
from evenflow.planning.controller.predict import moved_bytes
from evenflow.planning.controller.traffic_repair import decide_traffic_repair, plan_traffic_repair
from evenflow.planning.controller.window import select_window


@dataclass(frozen=True, slots=True)
class Scenario:
    """Changes to evaluate: workers added and dropped, a factor on all rates, queries pinned.

    `added_workers` are drained workers first, then workers that the flow does not have yet.
    """

    added_workers: int = 0
    dropped_workers: frozenset[int] = frozenset()
    rate_factor: float = 1.0
    pins: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.added_workers < 0:
            raise InputError(f"added workers must not be negative, got {self.added_workers}")
        if not np.isfinite(self.rate_factor) or self.rate_factor <= 0:
            raise InputError(f"the rate factor must be a positive number, got {self.rate_factor}")


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """The plan that the controller would choose, and its effect. The run itself does not change.

    `message` says what the plan does, such as which keys it splits; empty: nothing.
    """

    plan: Plan
    before: BalanceMetrics
    after: BalanceMetrics
    moves: tuple[Move, ...]
    moved_bytes: float
    verdicts: tuple[Verdict, ...]
    message: str = ""


def evaluate_scenario(
    snapshots: Sequence[Snapshot], scenario: Scenario, config: Balancing
) -> ScenarioResult:
    """Return the plan for a scenario; one batch is enough, moves are free and without a budget."""
    if not snapshots:
        raise InputError("no batches are recorded; a scenario needs at least one")
    window = select_window(snapshots, config.window)
    changed = _apply_scenario(window, scenario)
    eager = replace(
        config, samples=1, confidence=0.0, min_excess=0.0, min_gain=0.0, move_seconds_per_mb=0.0,
        cooldown=0, budget_bytes=None, budget_items=None, autoscale=None,
    )  # fmt: skip
    decision = decide(changed, (), eager)
    last = changed[-1]
    if config.repair != OFF:
        balanced = [*changed[:-1], replace(last, next_plan=decision.plan or last.next_plan)]
        repair = decide_traffic_repair(plan_traffic_repair(balanced, eager), balanced, (), eager)
        if repair.plan is not None:
            decision = replace(repair, verdicts=(*decision.verdicts, *repair.verdicts))
    plan = decision.plan or last.next_plan
    after = decision.predicted or decision.before
    current = replace(last.next_plan, placement=window[-1].next_plan.placement)  # no pins
    return ScenarioResult(
        plan=plan,
        before=DecisionContext.build(window, (), config).before,
        after=after,
        moves=moves_between(current, plan),
        moved_bytes=moved_bytes(current, plan, last),
        verdicts=(*decision.verdicts, *_overload_verdicts(after, last)),
        message=decision.message if decision.plan is not None else "",
    )


def _overload_verdicts(after: BalanceMetrics, last: Snapshot) -> tuple[Verdict, ...]:
    """Return a verdict if the busiest worker needs longer than the time between batches."""
    if after.max_load <= last.interval_seconds:
        return ()
    message = (
        f"the busiest worker would need {after.max_load:.3g} s per batch, but a batch starts every "
        f"{last.interval_seconds:.3g} s; workers need {after.mean_load:.3g} s on average"
    )
    mean_utilisation = after.mean_load / last.interval_seconds
    return (Verdict(VerdictCode.OVERLOAD, "workers", message, mean_utilisation),)


def _apply_scenario(window: Sequence[Snapshot], scenario: Scenario) -> list[Snapshot]:
    """Return the window as if the workers, rates and pins of the scenario had been recorded."""
    plan = window[-1].next_plan
    _check_scenario(scenario, plan)
    activated = sorted(plan.drained)[: scenario.added_workers]
    workers = plan.workers + scenario.added_workers - len(activated)
    workers_to_drain = (plan.drained - set(activated)) | scenario.dropped_workers
    rate_factor, pins = scenario.rate_factor, scenario.pins
    return [
        replace(
            snapshot,
            plan=_resize_plan(snapshot.plan, workers, {}),
            next_plan=_resize_plan(snapshot.next_plan, workers, pins),
            workers_to_drain=workers_to_drain,
            queries={
                name: _scale_query(query, workers, rate_factor, name in pins)
                for name, query in snapshot.queries.items()
            },
            shipped_bytes={
                stream: _pad_workers(sent, workers) * rate_factor
                for stream, sent in snapshot.shipped_bytes.items()
            },
            worker_cpu_seconds=_pad_workers(snapshot.worker_cpu_seconds, workers) * rate_factor,
        )
        for snapshot in window
    ]


def _check_scenario(scenario: Scenario, plan: Plan) -> None:
    not_active = [worker for worker in scenario.dropped_workers if worker not in plan.active]
    if not_active:
        active = ", ".join(map(str, plan.active))
        raise InputError(f"worker {not_active[0]} cannot be dropped; active workers are {active}")
    for name, worker in scenario.pins.items():
        if name not in plan.placement:
            whole = join_names(plan.placement)
            raise InputError(f"{name!r} cannot be pinned; whole queries are {whole}")
        if not 0 <= worker < plan.workers:
            raise InputError(f"workers are 0..{plan.workers - 1}, got {worker} for {name!r}")


def _resize_plan(plan: Plan, workers: int, pins: Mapping[str, int]) -> Plan:
    """Return the plan with added workers, drained as yet, and queries on the workers of `pins`."""
    added = frozenset(range(plan.workers, workers))
    pinned = {name: worker for name, worker in pins.items() if name in plan.placement}
    return Plan(workers, {**plan.placement, **pinned}, plan.tables, plan.drained | added)


def _pad_workers(values: NDArray[Any], workers: int) -> NDArray[Any]:
    return np.pad(values, (0, max(workers - len(values), 0)))


def _scale_query(query: QueryLoad, workers: int, rate_factor: float, pinned: bool) -> QueryLoad:
    scaled: dict[str, Any] = {
        name: _pad_workers(getattr(query, name), workers) * rate_factor for name in WORKER_FIELDS
    }
    keys = None if query.keys is None else _scale_keys(query.keys, workers, rate_factor)
    return replace(query, **scaled, keys=keys, pinned=query.pinned or pinned)


def _scale_keys(keys: KeyStats, workers: int, rate_factor: float) -> KeyStats:
    return replace(
        keys,
        cost=keys.cost * rate_factor,
        shared_cost=keys.shared_cost * rate_factor,
        state_bytes=keys.state_bytes * rate_factor,
        rest_keys=_pad_workers(keys.rest_keys, workers),
        rest_cost=_pad_workers(keys.rest_cost, workers) * rate_factor,
        rest_state_bytes=_pad_workers(keys.rest_state_bytes, workers) * rate_factor,
        rest_fixed_cost=_pad_workers(keys.rest_fixed_cost, workers) * rate_factor,
    )
