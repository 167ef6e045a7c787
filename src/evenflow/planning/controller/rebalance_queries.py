"""Whole queries: moved apart where a worker carries too much, or where bursts coincide.

Imbalance is that of the workers' mean loads, keyed shares included. Bursts are seen in the peak:
the busiest worker of each batch, averaged, over the mean load. A planner that looks at few samples
can make noise cancel out on paper, so a plan against bursts must show its gain on batches it has
not seen: it is made from one half of the window and tried on the other, both ways round.
"""

from dataclasses import dataclass, replace

import numpy as np

from evenflow.model import LoadSeries, Reason, Trigger, Verdict, VerdictCode
from evenflow.model.arrays import Bools, Floats, Workers
from evenflow.planning.controller.config import OFF, Balancing
from evenflow.planning.controller.lower_bound import max_load_lower_bound
from evenflow.planning.controller.rebalance_keys import immovable_keyed_load
from evenflow.planning.controller.window import MovableItem
from evenflow.planning.controller.worker_loads import WorkerLoads
from evenflow.planning.operators import (
    OperatorConfig,
    OperatorSnapshot,
    SourceTraffic,
    plan_operators,
)

MAX_MOVABLE_QUERIES = (
    1000  # heaviest queries that take part in a plan: the search grows with their square
)


@dataclass(frozen=True, slots=True, eq=False)
class WholeQueryLoads:
    """Whole queries and the shares of keyed ones; workers are numbered among the active.

    samples  load of each query (row) in each batch (column)
    keyed_load  load of keyed queries on each worker (row) in each batch
    """

    queries: tuple[str, ...]
    samples: Floats
    keyed_load: Floats
    placement: Workers
    movable: Bools
    state_bytes: Floats
    streams: tuple[tuple[str, ...], ...]
    active_workers: tuple[int, ...]

    def worker_loads(self, placement: Workers) -> Floats:
        """Return the load of every worker (column) in every batch (row)."""
        series = self.keyed_load.copy()
        np.add.at(series, placement, self.samples)
        result: Floats = series.T
        return result

    def select_batches(self, rows: slice) -> "WholeQueryLoads":
        """Return the same as seen in some batches only."""
        return replace(self, samples=self.samples[:, rows], keyed_load=self.keyed_load[:, rows])


@dataclass(frozen=True, slots=True, eq=False)
class QueryRebalance:
    """What was found: a placement of the queries that move, or the reason why they stay."""

    reason: Reason
    trigger: Trigger = Trigger.NONE
    placement: dict[str, int] | None = None
    before: float = 1.0
    after: float = 1.0
    moved_bytes: float = 0.0
    verdicts: tuple[Verdict, ...] = ()


def rebalance_queries(
    levels: WorkerLoads,
    rates: dict[str, float],
    left: dict[MovableItem, set[int]],
    config: Balancing,
    forced: bool = False,
) -> QueryRebalance:
    """Move whole queries off the fullest workers; `forced` takes a plan whatever it gains."""
    if not levels.whole_queries or len(levels.active_workers) < 2:
        return QueryRebalance(Reason.BALANCED)
    whole = collect_whole_queries(levels)
    loads = whole.worker_loads(whole.placement)
    step = _reduce_imbalance(
        whole, loads, left, _build_traffic(whole, rates, config), config, forced
    )
    verdicts = _heavy_query_verdicts(levels, whole, config)
    if verdicts and step.reason == Reason.GAIN_TOO_SMALL:
        step = replace(step, reason=Reason.INFEASIBLE)
    return replace(step, verdicts=verdicts)


def separate_bursts(
    levels: WorkerLoads,
    rates: dict[str, float],
    left: dict[MovableItem, set[int]],
    config: Balancing,
) -> QueryRebalance:
    """Move queries apart whose bursts coincide, if there are such."""
    loads = levels.total_series[:, levels.active_workers]
    if (
        not levels.whole_queries
        or len(levels.active_workers) < 2
        or len(loads) < 2 * config.samples
    ):
        return QueryRebalance(Reason.BALANCED)
    if _mean_peak_ratio(loads) <= 1 + config.max_imbalance:
        return QueryRebalance(Reason.BALANCED)
    whole = collect_whole_queries(levels)
    return _reduce_bursts(whole, loads, left, _build_traffic(whole, rates, config), config)


def collect_whole_queries(levels: WorkerLoads) -> WholeQueryLoads:
    """Gather the whole queries and what the keyed ones leave them."""
    plan, names, last = levels.plan, levels.whole_queries, levels.last_snapshot
    number = np.full(plan.workers, -1, dtype=np.int32)
    number[levels.active_workers] = np.arange(len(levels.active_workers))
    known = [last.queries.get(name) for name in names]
    return WholeQueryLoads(
        names,
        levels.whole_query_loads,
        levels.keyed_series[:, levels.active_workers].T.copy(),
        number[[plan.placement[name] for name in names]],
        np.array([query is not None and not query.pinned for query in known], dtype=np.bool_),
        np.array([0.0 if query is None else query.state_bytes.sum() for query in known]),
        tuple(() if query is None else query.streams for query in known),
        plan.active,
    )


def _mean_peak_ratio(loads: Floats) -> float:
    """Return the load of the busiest worker of each batch, on average, over the mean load."""
    return float(loads.max(axis=1).mean() / loads.mean())


def _reduce_imbalance(
    whole: WholeQueryLoads,
    loads: Floats,
    left: dict[MovableItem, set[int]],
    traffic: SourceTraffic,
    config: Balancing,
    forced: bool,
) -> QueryRebalance:
    """Move load off the fullest workers."""
    placement, back = _plan_without_moving_back(whole, left, traffic, config)
    before, after = loads.mean(axis=0), whole.worker_loads(placement).mean(axis=0)
    step = QueryRebalance(
        Reason.GAIN_TOO_SMALL,
        Trigger.IMBALANCE,
        before=float(before.max() / before.mean()),
        after=float(before.max() / before.mean()),
    )
    limit = (1 + config.target_imbalance) * before.mean()
    gain = float(np.maximum(before - limit, 0).sum() - np.maximum(after - limit, 0).sum())
    moved = placement != whole.placement
    if not moved.any() or not (forced or _is_worthwhile(whole, placement, gain, traffic, config)):
        return replace(step, reason=Reason.COOLDOWN if back else step.reason)
    return replace(
        step,
        reason=Reason.QUERIES,
        placement=_moved_queries(whole, placement),
        after=float(after.max() / after.mean()),
        moved_bytes=float(whole.state_bytes[moved].sum()),
    )


def _reduce_bursts(
    whole: WholeQueryLoads,
    loads: Floats,
    left: dict[MovableItem, set[int]],
    traffic: SourceTraffic,
    config: Balancing,
) -> QueryRebalance:
    """Move queries apart whose bursts coincide, if that helps in batches not planned from."""
    step = QueryRebalance(
        Reason.GAIN_TOO_SMALL,
        Trigger.BURSTS,
        before=_mean_peak_ratio(loads),
        after=_mean_peak_ratio(loads),
    )
    half = len(loads) // 2
    gains = []
    for seen, unseen in ((slice(0, half), slice(half, None)), (slice(half, None), slice(0, half))):
        tried, _ = _plan_without_moving_back(whole.select_batches(seen), left, traffic, config)
        gains.append(
            loads[unseen].max(axis=1) - whole.select_batches(unseen).worker_loads(tried).max(axis=1)
        )
    gain = np.concatenate(gains)
    sure = gain.mean() - config.confidence / 2 * gain.std() / np.sqrt(len(gain))
    if sure < config.min_gain * loads.mean():
        return step
    placement, back = _plan_without_moving_back(whole, left, traffic, config)
    after, moved = whole.worker_loads(placement), placement != whole.placement
    gained = float(loads.max(axis=1).mean() - after.max(axis=1).mean())
    if not moved.any() or not _is_worthwhile(whole, placement, gained, traffic, config):
        return replace(step, reason=Reason.COOLDOWN if back else step.reason)
    return replace(
        step,
        reason=Reason.QUERIES,
        placement=_moved_queries(whole, placement),
        after=_mean_peak_ratio(after),
        moved_bytes=float(whole.state_bytes[moved].sum()),
    )


def _is_worthwhile(
    whole: WholeQueryLoads,
    placement: Workers,
    gain: float,
    traffic: SourceTraffic,
    config: Balancing,
) -> bool:
    """Tell whether a placement is worth the state it moves and the streams it ships anew."""
    before, after = whole.worker_loads(whole.placement), whole.worker_loads(placement)
    mean, state = float(before.mean()), whole.state_bytes[placement != whole.placement].sum()
    calmer = float((before**2).mean(axis=0).sum() - (after**2).mean(axis=0).sum()) / mean**2
    workers = len(whole.active_workers)
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


def _plan_without_moving_back(
    whole: WholeQueryLoads,
    left: dict[MovableItem, set[int]],
    traffic: SourceTraffic,
    config: Balancing,
) -> tuple[Workers, bool]:
    """Return the planner's placement, in which nothing returns that left lately.

    Where something would, it is held and the others are planned again; also tell whether.
    """
    movable, held = _movable_queries(whole).copy(), False
    while True:
        placement = _run_planner(whole, movable, traffic, config)
        back = [
            at
            for at in np.flatnonzero(placement != whole.placement)
            if whole.active_workers[placement[at]] in left.get((whole.queries[at], None), ())
        ]
        if not back:
            return placement, held
        movable[back], held = False, True  # each round holds at least one more


def _movable_queries(whole: WholeQueryLoads) -> Bools:
    """Mark the movable queries, or only the heaviest on each worker if there are too many."""
    if int(whole.movable.sum()) <= MAX_MOVABLE_QUERIES:
        return whole.movable
    chosen = np.zeros(len(whole.queries), dtype=np.bool_)
    load = whole.samples.mean(axis=1)
    for worker in range(len(whole.active_workers)):
        here = np.flatnonzero(whole.movable & (whole.placement == worker))
        chosen[
            here[
                np.argsort(-load[here], kind="stable")[
                    : MAX_MOVABLE_QUERIES // len(whole.active_workers)
                ]
            ]
        ] = True
    return chosen


def _run_planner(
    whole: WholeQueryLoads, movable: Bools, traffic: SourceTraffic, config: Balancing
) -> Workers:
    workers = len(whole.active_workers)
    series = LoadSeries(
        (*whole.queries, *(f"keyed {worker}" for worker in whole.active_workers)),
        np.concatenate([whole.samples, whole.keyed_load]),
        np.concatenate([movable, np.zeros(workers, dtype=np.bool_)]),
    )
    everyone = np.arange(workers, dtype=np.int32)
    snapshot = OperatorSnapshot(series, workers, np.concatenate([whole.placement, everyone]))
    mean = float(series.samples.mean(axis=1).sum()) / workers
    if mean <= 0:
        return whole.placement
    settings = OperatorConfig(
        balance=config.target_imbalance,
        capacity=mean,
        max_moves=len(whole.queries),
        traffic=traffic,
    )
    found = plan_operators(config.operators, snapshot, settings, config.new_rng())
    return found.placement[: len(whole.queries)]


def _build_traffic(
    whole: WholeQueryLoads, rates: dict[str, float], config: Balancing
) -> SourceTraffic:
    """Price what a move ships anew, in parts of all streams shipped once."""
    streams = sorted({stream for read in whole.streams for stream in read})
    number = {stream: at for at, stream in enumerate(streams)}
    sizes = np.array([rates.get(stream, 0.0) for stream in streams])
    sizes = sizes / sizes.sum() if sizes.sum() > 0 else np.ones(len(streams)) / max(len(streams), 1)
    reads: list[list[int]] = [[number[stream] for stream in read] for read in whole.streams]
    return SourceTraffic.of(
        [*reads, *([] for _ in whole.active_workers)], sizes, config.traffic_price
    )


def _heavy_query_verdicts(
    levels: WorkerLoads, whole: WholeQueryLoads, config: Balancing
) -> tuple[Verdict, ...]:
    """Name the query to blame if no placement keeps the bound, whichever known keys make way."""
    load, mean = whole.samples.mean(axis=1), float(levels.mean_loads.mean())
    bound, workers = 1 + config.max_imbalance, len(whole.active_workers)
    if mean <= 0:
        return ()
    pinned = np.bincount(whole.placement, np.where(whole.movable, 0.0, load), minlength=workers)
    free, stays = np.flatnonzero(whole.movable), pinned + whole.keyed_load.mean(axis=1)
    floor = max_load_lower_bound(load[free] / mean, stays / mean, config.max_imbalance)
    if floor.load > bound and config.keys != OFF:
        stays = pinned + immovable_keyed_load(levels)
        floor = max_load_lower_bound(load[free] / mean, stays / mean, config.max_imbalance)
    if floor.load <= bound:
        return ()
    if floor.limiting_item is not None:
        worst, how, remedy = int(free[floor.limiting_item]), "", "give it a key"
    else:
        here = ~whole.movable & (whole.placement == stays.argmax())
        if not here.any():
            return ()
        worst, how, remedy = int(np.where(here, load, -1.0).argmax()), ", pinned,", "unpin it"
    name, reachable = whole.queries[worst], floor.reachable_load(config)
    message = (
        f"query {name}{how} needs {load[worst] / mean:.3g} times the mean load of a worker"
        f"{floor.describe_others('queries')}; beside what stays (light keys, fixed cost of keyed "
        f"queries) no plan gets the busiest worker below {floor.load:.4g} times, plans that "
        f"are worth it reach {reachable:.4g}, the bound is {bound:.4g}: {remedy}, or use fewer "
        "workers"
    )
    return (Verdict(VerdictCode.HEAVY_QUERY, name, message, reachable),)


def _moved_queries(whole: WholeQueryLoads, placement: Workers) -> dict[str, int]:
    """Return the queries that move, by name, and their workers."""
    return {
        whole.queries[at]: whole.active_workers[placement[at]]
        for at in np.flatnonzero(placement != whole.placement)
    }
