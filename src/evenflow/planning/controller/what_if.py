"""What if: the plan that would follow if workers, rates or pins were other than they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

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
from evenflow.model.arrays import Floats
from evenflow.planning.controller.arrivals import mean_stream_bytes
from evenflow.planning.controller.balance import predicted_balance
from evenflow.planning.controller.config import OFF, Balancing
from evenflow.planning.controller.decide import decide
from evenflow.planning.controller.predict import moved_bytes
from evenflow.planning.controller.traffic_repair import decide_traffic_repair, plan_traffic_repair
from evenflow.planning.controller.window import select_window
from evenflow.planning.controller.worker_loads import WorkerLoads


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is asked about: workers added, workers dropped, all rates times x, queries pinned.

    Added are drained workers first, then slots that the flow does not have yet.
    """

    added_workers: int = 0
    dropped_workers: frozenset[int] = frozenset()
    rate_factor: float = 1.0
    pins: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.added_workers < 0:
            raise InputError(
                f"the number of added workers must not be negative, got {self.added_workers}"
            )
        if not np.isfinite(self.rate_factor) or self.rate_factor <= 0:
            raise InputError(
                f"rates can be multiplied by a positive number, got {self.rate_factor}"
            )


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """The plan that would follow, and what it changes. Nothing has been changed by asking."""

    plan: Plan
    before: BalanceMetrics
    after: BalanceMetrics
    moves: tuple[Move, ...]
    moved_bytes: float
    verdicts: tuple[Verdict, ...]


def evaluate_scenario(
    snapshots: Sequence[Snapshot], change: Scenario, config: Balancing
) -> ScenarioResult:
    """Plan for a change as if it were made now, without waiting for proof and without a budget."""
    if not snapshots:
        raise InputError("nothing was recorded: a question needs at least one batch")
    window = select_window(snapshots, config.window)
    before = _current_balance(window)
    asked = _apply_scenario(window, change)
    bold = replace(
        config, samples=1, confidence=0.0, min_gain=0.0, move_seconds_per_mb=0.0, cooldown=0,
        budget_bytes=None, budget_items=None,
    )  # fmt: skip
    decision = decide(asked, (), bold)
    last = asked[-1]
    if config.repair != OFF:
        then = [*asked[:-1], replace(last, next_plan=decision.plan or last.next_plan)]
        lighter = decide_traffic_repair(plan_traffic_repair(then, bold), then, (), bold)
        if lighter.plan is not None:
            decision = replace(lighter, verdicts=(*decision.verdicts, *lighter.verdicts))
    plan = decision.plan or last.next_plan
    after = decision.predicted or decision.before
    present = replace(last.next_plan, placement=window[-1].next_plan.placement)
    return ScenarioResult(
        plan,
        before,
        after,
        moves_between(present, plan),
        moved_bytes(present, plan, last),
        (*decision.verdicts, *_overload_verdicts(after, last)),
    )


def _current_balance(window: Sequence[Snapshot]) -> BalanceMetrics:
    levels = WorkerLoads.under_plan(window, window[-1].next_plan)
    return predicted_balance(levels, window[-1], mean_stream_bytes(window))


def _overload_verdicts(after: BalanceMetrics, last: Snapshot) -> tuple[Verdict, ...]:
    """Say so if the busiest worker would need longer than the time between batches."""
    if after.max_load <= last.interval_seconds:
        return ()
    message = (
        f"the busiest worker would need {after.max_load:.3g} s a batch, batches come every "
        f"{last.interval_seconds:.3g} s; all need {after.mean_load:.3g} s on average"
    )
    return (
        Verdict(VerdictCode.OVERLOAD, "workers", message, after.mean_load / last.interval_seconds),
    )


def _apply_scenario(window: Sequence[Snapshot], change: Scenario) -> list[Snapshot]:
    """Return the window as if it had been recorded with the change just asked for."""
    following = window[-1].next_plan
    unknown = [worker for worker in change.dropped_workers if worker not in following.active]
    if unknown:
        raise InputError(
            f"worker {unknown[0]} cannot be dropped; active are {_format_list(following.active)}"
        )
    for name, worker in change.pins.items():
        if name not in following.placement:
            raise InputError(
                f"{name!r} is no whole query; there are {_format_list(sorted(following.placement))}"
            )
        if not 0 <= worker < following.workers:
            raise InputError(f"workers are 0..{following.workers - 1}, got {worker} for {name!r}")
    idle = sorted(following.drained)[: change.added_workers]
    slots = following.workers + change.added_workers - len(idle)
    drain = (following.drained - set(idle)) | change.dropped_workers
    return [
        replace(
            snapshot,
            plan=_resize_plan(snapshot.plan, slots, {}),
            next_plan=_resize_plan(snapshot.next_plan, slots, change.pins),
            workers_to_drain=drain,
            queries={
                name: _scale_query(query, slots, change.rate_factor, name in change.pins)
                for name, query in snapshot.queries.items()
            },
            shipped_bytes={
                stream: _pad_workers(sent, slots) * change.rate_factor
                for stream, sent in snapshot.shipped_bytes.items()
            },
            worker_cpu_seconds=_pad_workers(snapshot.worker_cpu_seconds, slots)
            * change.rate_factor,
        )
        for snapshot in window
    ]


def _resize_plan(plan: Plan, slots: int, pins: Mapping[str, int]) -> Plan:
    """Return a plan with more slots, drained so far, and queries on the workers of their pins."""
    new = frozenset(range(plan.workers, slots))
    pinned = {name: worker for name, worker in pins.items() if name in plan.placement}
    return Plan(slots, {**plan.placement, **pinned}, plan.tables, plan.drained | new)


def _pad_workers(values: Floats, slots: int) -> Floats:
    result: Floats = np.pad(values, (0, max(slots - len(values), 0)))
    return result


def _scale_query(query: QueryLoad, slots: int, rate: float, pinned: bool) -> QueryLoad:
    keys = query.keys
    return replace(
        query,
        rows_in=(_pad_workers(query.rows_in.astype(np.float64), slots) * rate).astype(np.int64),
        rows_out=(_pad_workers(query.rows_out.astype(np.float64), slots) * rate).astype(np.int64),
        cpu_seconds=_pad_workers(query.cpu_seconds, slots) * rate,
        load=_pad_workers(query.load, slots) * rate,
        state_bytes=_pad_workers(query.state_bytes, slots) * rate,
        keys=None if keys is None else _scale_keys(keys, slots, rate),
        pinned=query.pinned or pinned,
    )


def _scale_keys(keys: KeyStats, slots: int, rate: float) -> KeyStats:
    return replace(
        keys,
        cost=keys.cost * rate,
        state_bytes=keys.state_bytes * rate,
        rest_keys=_pad_workers(keys.rest_keys.astype(np.float64), slots).astype(np.int64),
        rest_cost=_pad_workers(keys.rest_cost, slots) * rate,
        rest_state_bytes=_pad_workers(keys.rest_state_bytes, slots) * rate,
        rest_fixed_cost=_pad_workers(keys.rest_fixed_cost, slots) * rate,
    )


def _format_list(names: Sequence[object]) -> str:
    return ", ".join(map(str, names)) or "none"
