"""What if: the plan that would follow if workers, rates or pins were other than they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evenflow.errors import InputError
from evenflow.model import Judgement, KeyStats, Move, Plan, QueryLoad, Snapshot, Verdict, moves
from evenflow.model.arrays import Floats
from evenflow.planning.joint.arrival import stream_rates
from evenflow.planning.joint.config import OFF, Balancing
from evenflow.planning.joint.decide import decide
from evenflow.planning.joint.judge import predicted
from evenflow.planning.joint.levels import Levels
from evenflow.planning.joint.projection import moved_bytes
from evenflow.planning.joint.recent import remembered
from evenflow.planning.joint.slow import adopt, global_plan


@dataclass(frozen=True, slots=True)
class Change:
    """What is asked about: workers added, workers dropped, all rates times x, queries pinned.

    Added are drained workers first, then slots that the flow does not have yet.
    """

    add: int = 0
    drop: frozenset[int] = frozenset()
    rate: float = 1.0
    pins: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.add < 0:
            raise InputError(f"the number of added workers must not be negative, got {self.add}")
        if not np.isfinite(self.rate) or self.rate <= 0:
            raise InputError(f"rates can be multiplied by a positive number, got {self.rate}")


@dataclass(frozen=True, slots=True)
class Answer:
    """The plan that would follow, and what it changes. Nothing has been changed by asking."""

    plan: Plan
    before: Judgement
    after: Judgement
    moves: tuple[Move, ...]
    moved_bytes: float
    verdicts: tuple[Verdict, ...]


def whatif(snapshots: Sequence[Snapshot], change: Change, config: Balancing) -> Answer:
    """Plan for a change as if it were made now, without waiting for proof and without a budget."""
    if not snapshots:
        raise InputError("nothing was recorded: a question needs at least one batch")
    window = remembered(snapshots, config.window)
    before = _judged(window)
    asked = _changed(window, change)
    bold = replace(
        config, samples=1, confidence=0.0, min_gain=0.0, move_seconds_per_mb=0.0, cooldown=0,
        budget_bytes=None, budget_items=None,
    )  # fmt: skip
    decision = decide(asked, (), bold)
    last = asked[-1]
    if config.repair != OFF:
        then = [*asked[:-1], replace(last, following=decision.plan or last.following)]
        lighter = adopt(global_plan(then, bold), then, (), bold)
        if lighter.plan is not None:
            decision = replace(lighter, verdicts=(*decision.verdicts, *lighter.verdicts))
    plan = decision.plan or last.following
    after = decision.predicted or decision.before
    present = replace(last.following, placement=window[-1].following.placement)
    return Answer(
        plan,
        before,
        after,
        moves(present, plan),
        moved_bytes(present, plan, last),
        (*decision.verdicts, *_overload(after, last)),
    )


def _judged(window: Sequence[Snapshot]) -> Judgement:
    levels = Levels.of(window, window[-1].following)
    return predicted(levels, window[-1], stream_rates(window))


def _overload(after: Judgement, last: Snapshot) -> tuple[Verdict, ...]:
    """Say so if the busiest worker would need longer than the time between batches."""
    if after.max_load <= last.seconds:
        return ()
    message = (
        f"the busiest worker would need {after.max_load:.3g} s a batch, batches come every "
        f"{last.seconds:.3g} s; all need {after.mean_load:.3g} s on average"
    )
    return (Verdict("overload", "workers", message, after.mean_load / last.seconds),)


def _changed(window: Sequence[Snapshot], change: Change) -> list[Snapshot]:
    """Return the window as if it had been recorded with the change just asked for."""
    following = window[-1].following
    unknown = [worker for worker in change.drop if worker not in following.active]
    if unknown:
        raise InputError(
            f"worker {unknown[0]} cannot be dropped; active are {_listed(following.active)}"
        )
    for name, worker in change.pins.items():
        if name not in following.placement:
            raise InputError(
                f"{name!r} is no whole query; there are {_listed(sorted(following.placement))}"
            )
        if not 0 <= worker < following.workers:
            raise InputError(f"workers are 0..{following.workers - 1}, got {worker} for {name!r}")
    idle = sorted(following.drained)[: change.add]
    slots = following.workers + change.add - len(idle)
    drain = (following.drained - set(idle)) | change.drop
    return [
        replace(
            snapshot,
            plan=_resized(snapshot.plan, slots, {}),
            following=_resized(snapshot.following, slots, change.pins),
            drain=drain,
            queries={
                name: _scaled(query, slots, change.rate, name in change.pins)
                for name, query in snapshot.queries.items()
            },
            shipped={
                stream: _padded(sent, slots) * change.rate
                for stream, sent in snapshot.shipped.items()
            },
            worker_seconds=_padded(snapshot.worker_seconds, slots) * change.rate,
        )
        for snapshot in window
    ]


def _resized(plan: Plan, slots: int, pins: Mapping[str, int]) -> Plan:
    """Return a plan with more slots, drained so far, and queries on the workers of their pins."""
    new = frozenset(range(plan.workers, slots))
    pinned = {name: worker for name, worker in pins.items() if name in plan.placement}
    return Plan(slots, {**plan.placement, **pinned}, plan.tables, plan.drained | new)


def _padded(values: Floats, slots: int) -> Floats:
    result: Floats = np.pad(values, (0, max(slots - len(values), 0)))
    return result


def _scaled(query: QueryLoad, slots: int, rate: float, pinned: bool) -> QueryLoad:
    keys = query.keys
    return replace(
        query,
        rows_in=(_padded(query.rows_in.astype(np.float64), slots) * rate).astype(np.int64),
        rows_out=(_padded(query.rows_out.astype(np.float64), slots) * rate).astype(np.int64),
        cpu_seconds=_padded(query.cpu_seconds, slots) * rate,
        load=_padded(query.load, slots) * rate,
        state_bytes=_padded(query.state_bytes, slots) * rate,
        keys=None if keys is None else _scaled_keys(keys, slots, rate),
        pinned=query.pinned or pinned,
    )


def _scaled_keys(keys: KeyStats, slots: int, rate: float) -> KeyStats:
    return replace(
        keys,
        cost=keys.cost * rate,
        state=keys.state * rate,
        rest_keys=_padded(keys.rest_keys.astype(np.float64), slots).astype(np.int64),
        rest_cost=_padded(keys.rest_cost, slots) * rate,
        rest_state=_padded(keys.rest_state, slots) * rate,
        rest_fixed=_padded(keys.rest_fixed, slots) * rate,
    )


def _listed(names: Sequence[object]) -> str:
    return ", ".join(map(str, names)) or "none"
