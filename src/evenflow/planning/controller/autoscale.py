"""How many workers the load needs, after DS2 (Kalavri et al., OSDI 2018, section 3.2).

DS2 divides the rate at which rows arrive by the true processing rate of an instance: rows per
second of *useful* time, in which it works and does not wait. The useful time of a worker is its CPU
time in a batch. A micro-batch takes the rows that arrived during the one before, so rows per second
of wall time is the rate of arrival; a source that limits rows per batch hides what waits.

Deviations: a worker is planned to be useful for a part `target` of the time only, as the batch has
other work too (planning, shuffle, commit); the uneven part that balancing leaves is added; and the
fixed cost of stepping a keyed query, which every worker has, is not divided by their number.

To avoid flapping, workers are added by the last batches and removed only if the peak of the whole
window would fit with room to spare, and not within `cooldown` batches after another change.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenflow.model import Decision, Plan, Snapshot, Trigger, VerdictCode
from evenflow.model.arrays import Floats
from evenflow.model.scaling_advice import ScalingAdvice
from evenflow.planning.controller.config import Balancing
from evenflow.planning.controller.window import busy_snapshots

MANY = 1 << 30  # no number of workers suffices
ROOM_TO_REMOVE = 0.8  # part of the target that the peak must fit in before workers are removed
_SCALING = (Trigger.AUTOSCALE, Trigger.DRAIN, Trigger.ACTIVATE)


@dataclass(frozen=True, slots=True)
class _Demand:
    """Useful seconds per second: those that rows cause, and those that every worker adds."""

    variable: float
    fixed: float

    def workers(self, target: float, uneven: float) -> int:
        """Return the fewest workers of which none is useful for more than `target`."""
        room = target / uneven - self.fixed
        return MANY if room <= 0 else min(max(math.ceil(self.variable / room - 1e-9), 1), MANY)


def advise(
    snapshots: Sequence[Snapshot], decisions: Sequence[Decision], config: Balancing
) -> ScalingAdvice | None:
    """Return how many workers the load of the last batches needs; None: too few batches."""
    recent = _recent(snapshots, config)
    if recent is None:
        return None
    plan, target = snapshots[-1].next_plan, config.scaling.target
    demand, active = _demand(recent), len(plan.active)
    most = min(config.scaling.max or plan.workers, plan.workers)
    needed = demand.workers(target, 1 + config.max_imbalance)
    workers = min(max(needed, config.scaling.min), most)
    seconds = sum(s.interval_seconds for s in recent)
    useful = float(sum(_useful_seconds(s).sum() for s in recent))
    rows = sum(int(query.rows_in.sum()) for s in recent for query in s.queries.values())
    busy = useful / seconds
    rate = rows / useful if useful > 0 else 0.0
    message = (
        f"{rows / seconds:,.0f} rows/s arrive and a worker processes {rate:,.0f} rows in a second "
        f"of useful time, so {busy:.2f} workers are busy; at {target:.0%} utilisation and "
        f"{config.max_imbalance:.0%} imbalance that needs {workers} "
        f"worker{'' if workers == 1 else 's'}, {active} {'is' if active == 1 else 'are'} active"
    )
    message += _limits(needed, most, decisions[-1] if decisions else None)
    return ScalingAdvice(
        workers=workers,
        active=active,
        rows_per_second=rows / seconds,
        true_rate=rate,
        busy_workers=busy,
        utilisation=busy / active,
        target=target,
        message=message,
    )


def scaled_workers(
    snapshots: Sequence[Snapshot], decisions: Sequence[Decision], config: Balancing
) -> int | None:
    """Return the number of active workers to change to; None: leave it."""
    if config.autoscale is None or not snapshots:
        return None
    plan = snapshots[-1].next_plan
    active, low = len(plan.active), min(config.autoscale.min, plan.workers)
    high = min(config.autoscale.max or plan.workers, plan.workers)
    if not low <= active <= high:
        return low if active < low else high
    recent = _recent(snapshots, config)
    settled = [s.batch for s in snapshots if s.plan.drained == plan.drained]
    if recent is None or recent[0].batch not in settled:
        return None  # the last change is not measured yet
    uneven, target = 1 + config.max_imbalance, config.autoscale.target
    needed = min(_demand(recent).workers(target, uneven), high)
    if needed > active:
        return needed
    window = busy_snapshots(snapshots)[-config.window :]
    changed = any(
        decision.trigger in _SCALING and decision.plan is not None
        for decision in decisions
        if decision.batch > snapshots[-1].batch - config.cooldown
    )
    if changed or len(window) < config.window:
        return None
    ends = range(config.samples, len(window) + 1)
    peaks = (_demand(window[end - config.samples : end]) for end in ends)
    room = ROOM_TO_REMOVE * target
    enough = max(low, *(demand.workers(room, uneven) for demand in peaks))
    return enough if enough < active else None


def workers_to_drain(plan: Plan, active: int, snapshot: Snapshot) -> frozenset[int]:
    """Return the drained workers if so many are active: the last ones without pinned queries."""
    pinned = {
        plan.placement[name]
        for name, query in snapshot.queries.items()
        if query.pinned and name in plan.placement
    }
    if active >= len(plan.active):
        back = sorted(plan.drained)[: active - len(plan.active)]
        return plan.drained - set(back)
    free = [worker for worker in reversed(plan.active) if worker not in pinned]
    return plan.drained | set(free[: len(plan.active) - active])


def _recent(snapshots: Sequence[Snapshot], config: Balancing) -> list[Snapshot] | None:
    recent = busy_snapshots(snapshots)[-config.samples :]
    enough = len(recent) == config.samples and all(s.interval_seconds > 0 for s in recent)
    return recent if enough else None


def _demand(snapshots: Sequence[Snapshot]) -> _Demand:
    seconds = sum(s.interval_seconds for s in snapshots)
    useful = float(sum(_useful_seconds(s).sum() for s in snapshots))
    fixed = sum(_fixed_seconds(s) for s in snapshots)
    per_worker = sum(_fixed_seconds(s) / len(s.plan.active) for s in snapshots)
    return _Demand(max(useful - fixed, 0.0) / seconds, per_worker / seconds)


def _useful_seconds(snapshot: Snapshot) -> Floats:
    """Return the CPU seconds of each worker, at least those of its queries."""
    loads = snapshot.worker_loads()
    if len(snapshot.worker_cpu_seconds) != len(loads):
        return loads
    result: Floats = np.maximum(snapshot.worker_cpu_seconds, loads)
    return result


def _fixed_seconds(snapshot: Snapshot) -> float:
    """Return the cost of keyed queries that no row causes, over all workers."""
    keys = (query.keys for query in snapshot.queries.values())
    return float(sum(each.rest_fixed_cost.sum() for each in keys if each is not None))


def _limits(needed: int, most: int, last: Decision | None) -> str:
    """Say what keeps more workers from being used, or from helping."""
    if needed == MANY:
        return "; stepping the queries alone takes longer than that, so batches must be longer"
    if needed > most:
        return f"; it would need {needed:,}, there may be {most}"
    heavy = (VerdictCode.HEAVY_KEY, VerdictCode.HEAVY_QUERY)
    found = [verdict for verdict in last.verdicts if verdict.code in heavy] if last else []
    return f"; more workers do not relieve {found[0].subject}" if found else ""
