"""Whole queries: moved apart where a worker carries too much, or where bursts coincide.

Imbalance is that of the workers' mean loads, keyed shares included. Bursts are seen in the peak:
the busiest worker of each batch, averaged, over the mean load. A planner that looks at few samples
can make noise cancel out on paper, so a plan against bursts must show its gain on batches it has
not seen: it is made from one half of the window and tried on the other, both ways round.
"""

from dataclasses import dataclass, replace

import numpy as np

from evenflow.model import LoadSeries, Verdict
from evenflow.model.arrays import Bools, Floats, Workers
from evenflow.planning.joint.config import OFF, Balancing
from evenflow.planning.joint.floor import lowest
from evenflow.planning.joint.keyed import staying
from evenflow.planning.joint.levels import Levels
from evenflow.planning.joint.recent import Item
from evenflow.planning.operators import (
    OperatorConfig,
    OperatorSnapshot,
    SourceTraffic,
    plan_operators,
)

MOVABLE = 1000  # heaviest queries that take part in a plan: the search grows with their square


@dataclass(frozen=True, slots=True, eq=False)
class Whole:
    """Whole queries and the shares of keyed ones; workers are numbered among the active.

    samples  load of each query (row) in each batch (column)
    keyed    load of keyed queries on each worker (row) in each batch
    """

    names: tuple[str, ...]
    samples: Floats
    keyed: Floats
    placement: Workers
    movable: Bools
    state: Floats
    reads: tuple[tuple[str, ...], ...]
    active: tuple[int, ...]

    def workers(self, placement: Workers) -> Floats:
        """Return the load of every worker (column) in every batch (row)."""
        series = self.keyed.copy()
        np.add.at(series, placement, self.samples)
        result: Floats = series.T
        return result

    def part(self, rows: slice) -> "Whole":
        """Return the same as seen in some batches only."""
        return replace(self, samples=self.samples[:, rows], keyed=self.keyed[:, rows])


@dataclass(frozen=True, slots=True, eq=False)
class WholeStep:
    """What was found: a placement of the queries that move, or the reason why they stay."""

    reason: str
    trigger: str = "none"
    placement: dict[str, int] | None = None
    before: float = 1.0
    after: float = 1.0
    moved_bytes: float = 0.0
    verdicts: tuple[Verdict, ...] = ()


def even_out(
    levels: Levels,
    rates: dict[str, float],
    left: dict[Item, set[int]],
    config: Balancing,
    forced: bool = False,
) -> WholeStep:
    """Move whole queries off the fullest workers; `forced` takes a plan whatever it gains."""
    if not levels.names or len(levels.active) < 2:
        return WholeStep("balanced")
    whole = observe_whole(levels)
    loads = whole.workers(whole.placement)
    step = _even(whole, loads, left, _traffic(whole, rates, config), config, forced)
    verdicts = _heavy(levels, whole, config)
    if verdicts and step.reason == "gain_too_small":
        step = replace(step, reason="infeasible")
    return replace(step, verdicts=verdicts)


def keep_apart(
    levels: Levels, rates: dict[str, float], left: dict[Item, set[int]], config: Balancing
) -> WholeStep:
    """Move queries apart whose bursts coincide, if there are such."""
    loads = levels.total[:, levels.active]
    if not levels.names or len(levels.active) < 2 or len(loads) < 2 * config.samples:
        return WholeStep("balanced")
    if _peak(loads) <= 1 + config.max_imbalance:
        return WholeStep("balanced")
    whole = observe_whole(levels)
    return _apart(whole, loads, left, _traffic(whole, rates, config), config)


def observe_whole(levels: Levels) -> Whole:
    """Gather the whole queries and what the keyed ones leave them."""
    plan, names, last = levels.plan, levels.names, levels.last
    number = np.full(plan.workers, -1, dtype=np.int32)
    number[levels.active] = np.arange(len(levels.active))
    known = [last.queries.get(name) for name in names]
    return Whole(
        names,
        levels.samples,
        levels.shared[:, levels.active].T.copy(),
        number[[plan.placement[name] for name in names]],
        np.array([query is not None and not query.pinned for query in known], dtype=np.bool_),
        np.array([0.0 if query is None else query.state_bytes.sum() for query in known]),
        tuple(() if query is None else query.streams for query in known),
        plan.active,
    )


def _peak(loads: Floats) -> float:
    """Return the load of the busiest worker of each batch, on average, over the mean load."""
    return float(loads.max(axis=1).mean() / loads.mean())


def _even(
    whole: Whole,
    loads: Floats,
    left: dict[Item, set[int]],
    traffic: SourceTraffic,
    config: Balancing,
    forced: bool,
) -> WholeStep:
    """Move load off the fullest workers."""
    placement, back = _planned(whole, left, traffic, config)
    before, after = loads.mean(axis=0), whole.workers(placement).mean(axis=0)
    step = WholeStep(
        "gain_too_small",
        "imbalance",
        before=float(before.max() / before.mean()),
        after=float(before.max() / before.mean()),
    )
    limit = (1 + config.aim) * before.mean()
    gain = float(np.maximum(before - limit, 0).sum() - np.maximum(after - limit, 0).sum())
    moved = placement != whole.placement
    if not moved.any() or not (forced or _pays(whole, placement, gain, traffic, config)):
        return replace(step, reason="cooldown" if back else step.reason)
    return replace(
        step,
        reason="queries",
        placement=_named(whole, placement),
        after=float(after.max() / after.mean()),
        moved_bytes=float(whole.state[moved].sum()),
    )


def _apart(
    whole: Whole,
    loads: Floats,
    left: dict[Item, set[int]],
    traffic: SourceTraffic,
    config: Balancing,
) -> WholeStep:
    """Move queries apart whose bursts coincide, if that helps in batches not planned from."""
    step = WholeStep("gain_too_small", "bursts", before=_peak(loads), after=_peak(loads))
    half = len(loads) // 2
    gains = []
    for seen, unseen in ((slice(0, half), slice(half, None)), (slice(half, None), slice(0, half))):
        tried, _ = _planned(whole.part(seen), left, traffic, config)
        gains.append(loads[unseen].max(axis=1) - whole.part(unseen).workers(tried).max(axis=1))
    gain = np.concatenate(gains)
    sure = gain.mean() - config.confidence / 2 * gain.std() / np.sqrt(len(gain))
    if sure < config.min_gain * loads.mean():
        return step
    placement, back = _planned(whole, left, traffic, config)
    after, moved = whole.workers(placement), placement != whole.placement
    gained = float(loads.max(axis=1).mean() - after.max(axis=1).mean())
    if not moved.any() or not _pays(whole, placement, gained, traffic, config):
        return replace(step, reason="cooldown" if back else step.reason)
    return replace(
        step,
        reason="queries",
        placement=_named(whole, placement),
        after=_peak(after),
        moved_bytes=float(whole.state[moved].sum()),
    )


def _pays(
    whole: Whole, placement: Workers, gain: float, traffic: SourceTraffic, config: Balancing
) -> bool:
    """Tell whether a placement is worth the state it moves and the streams it ships anew."""
    before, after = whole.workers(whole.placement), whole.workers(placement)
    mean, state = float(before.mean()), whole.state[placement != whole.placement].sum()
    calmer = float((before**2).mean(axis=0).sum() - (after**2).mean(axis=0).sum()) / mean**2
    workers = len(whole.active)
    keyed = np.arange(workers, dtype=np.int32)
    shipped, would = (
        traffic.shipped_rate(np.concatenate([places, keyed]), workers)
        for places in (whole.placement, placement)
    )
    return (
        gain >= config.min_gain * mean
        and gain * config.payback >= config.move_seconds_per_mb * float(state) / 1e6
        and calmer >= traffic.price * (would - shipped)
    )


def _planned(
    whole: Whole, left: dict[Item, set[int]], traffic: SourceTraffic, config: Balancing
) -> tuple[Workers, bool]:
    """Return the planner's placement, in which nothing returns that left lately.

    Where something would, it is held and the others are planned again; also tell whether.
    """
    movable, held = _heaviest(whole).copy(), False
    while True:
        placement = _call(whole, movable, traffic, config)
        back = [
            at
            for at in np.flatnonzero(placement != whole.placement)
            if whole.active[placement[at]] in left.get((whole.names[at], None), ())
        ]
        if not back:
            return placement, held
        movable[back], held = False, True  # each round holds at least one more


def _heaviest(whole: Whole) -> Bools:
    """Mark the movable queries, or only the heaviest on each worker if there are too many."""
    if int(whole.movable.sum()) <= MOVABLE:
        return whole.movable
    chosen = np.zeros(len(whole.names), dtype=np.bool_)
    load = whole.samples.mean(axis=1)
    for worker in range(len(whole.active)):
        here = np.flatnonzero(whole.movable & (whole.placement == worker))
        chosen[here[np.argsort(-load[here], kind="stable")[: MOVABLE // len(whole.active)]]] = True
    return chosen


def _call(whole: Whole, movable: Bools, traffic: SourceTraffic, config: Balancing) -> Workers:
    workers = len(whole.active)
    series = LoadSeries(
        (*whole.names, *(f"keyed {worker}" for worker in whole.active)),
        np.concatenate([whole.samples, whole.keyed]),
        np.concatenate([movable, np.zeros(workers, dtype=np.bool_)]),
    )
    everyone = np.arange(workers, dtype=np.int32)
    snapshot = OperatorSnapshot(series, workers, np.concatenate([whole.placement, everyone]))
    mean = float(series.samples.mean(axis=1).sum()) / workers
    if mean <= 0:
        return whole.placement
    settings = OperatorConfig(
        balance=config.aim, capacity=mean, max_moves=len(whole.names), traffic=traffic
    )
    found = plan_operators(config.operators, snapshot, settings, config.rng())
    return found.placement[: len(whole.names)]


def _traffic(whole: Whole, rates: dict[str, float], config: Balancing) -> SourceTraffic:
    """Price what a move ships anew, in parts of all streams shipped once."""
    streams = sorted({stream for read in whole.reads for stream in read})
    number = {stream: at for at, stream in enumerate(streams)}
    sizes = np.array([rates.get(stream, 0.0) for stream in streams])
    sizes = sizes / sizes.sum() if sizes.sum() > 0 else np.ones(len(streams)) / max(len(streams), 1)
    reads: list[list[int]] = [[number[stream] for stream in read] for read in whole.reads]
    return SourceTraffic.of([*reads, *([] for _ in whole.active)], sizes, config.traffic_price)


def _heavy(levels: Levels, whole: Whole, config: Balancing) -> tuple[Verdict, ...]:
    """Name the query to blame if no placement keeps the bound, whichever known keys make way."""
    load, mean = whole.samples.mean(axis=1), float(levels.means.mean())
    bound, workers = 1 + config.max_imbalance, len(whole.active)
    if mean <= 0:
        return ()
    pinned = np.bincount(whole.placement, np.where(whole.movable, 0.0, load), minlength=workers)
    free, stays = np.flatnonzero(whole.movable), pinned + whole.keyed.mean(axis=1)
    floor = lowest(load[free] / mean, stays / mean, config.max_imbalance)
    if floor.load > bound and config.keys != OFF:
        stays = pinned + staying(levels)
        floor = lowest(load[free] / mean, stays / mean, config.max_imbalance)
    if floor.load <= bound:
        return ()
    if floor.item is not None:
        worst, how, remedy = int(free[floor.item]), "", "give it a key"
    else:
        here = ~whole.movable & (whole.placement == stays.argmax())
        if not here.any():
            return ()
        worst, how, remedy = int(np.where(here, load, -1.0).argmax()), ", pinned,", "unpin it"
    name, reachable = whole.names[worst], floor.reachable(config)
    message = (
        f"query {name}{how} needs {load[worst] / mean:.3g} times the mean load of a worker"
        f"{floor.others('queries')}; beside what stays (light keys, fixed cost of keyed "
        f"queries) no plan gets the busiest worker below {floor.load:.4g} times, plans that "
        f"are worth it reach {reachable:.4g}, the bound is {bound:.4g}: {remedy}, or use fewer "
        "workers"
    )
    return (Verdict("heavy_query", name, message, reachable),)


def _named(whole: Whole, placement: Workers) -> dict[str, int]:
    """Return the queries that move, by name, and their workers."""
    return {
        whole.names[at]: whole.active[placement[at]]
        for at in np.flatnonzero(placement != whole.placement)
    }
