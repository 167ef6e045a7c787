"""Whole queries: moved off overloaded workers, or apart if their bursts coincide.

Imbalance is that of the workers' mean loads, keyed queries included. Bursts show in the peak: the
load of the busiest worker of each batch, averaged, over the mean load. With few samples a planner
can make noise cancel out on paper, so a plan against bursts is made from one half of the window
and must gain on the other half, both ways round.
"""

from dataclasses import dataclass, replace

import numpy as np

from evenflow.model import Reason, Trigger, Verdict, VerdictCode
from evenflow.model.arrays import Floats, Workers
from evenflow.planning.controller.build_decision import DecisionContext
from evenflow.planning.controller.config import OFF, Balancing
from evenflow.planning.controller.lower_bound import max_load_lower_bound
from evenflow.planning.controller.plan_queries import plan_queries_afresh, replan_queries
from evenflow.planning.controller.whole_query_loads import WholeQueryLoads
from evenflow.planning.controller.worker_loads import WorkerLoads
from evenflow.planning.operators.load_statistics import series_variance


@dataclass(frozen=True, slots=True, eq=False)
class QueryRebalance:
    """New workers of the queries that move, or the reason why none does.

    before, after  what the trigger measures: imbalance, or the mean peak ratio of bursts
    """

    reason: Reason
    trigger: Trigger = Trigger.NONE
    placement: dict[str, int] | None = None
    before: float = 1.0
    after: float = 1.0
    verdicts: tuple[Verdict, ...] = ()


def place_initially(loads: WorkerLoads, context: DecisionContext) -> QueryRebalance:
    """Place all whole queries afresh; `before` and `after` are the mean deviations of workers."""
    if not loads.whole_queries or len(loads.active_workers) < 2:
        return QueryRebalance(Reason.BALANCED)
    whole = WholeQueryLoads.collect(loads, context)
    placement = plan_queries_afresh(whole, context)
    change = _mean_deviation(whole, whole.placement), _mean_deviation(whole, placement)
    return _query_rebalance(whole, placement, False, Trigger.INITIAL, change)


def _mean_deviation(whole: WholeQueryLoads, placement: Workers) -> float:
    """Return the standard deviation of worker loads over time, in mean loads."""
    loads = whole.worker_loads(placement).T
    return float(np.sqrt(series_variance(loads)).mean() / max(float(loads.mean()), 1e-300))


def rebalance_queries(
    loads: WorkerLoads, context: DecisionContext, *, forced: bool = False
) -> QueryRebalance:
    """Move whole queries off the fullest workers; `forced` accepts a plan whatever it gains."""
    if not loads.whole_queries or len(loads.active_workers) < 2:
        return QueryRebalance(Reason.BALANCED)
    whole, config = WholeQueryLoads.collect(loads, context), context.config
    placement, cooling = _plan_without_moving_back(whole, context)
    before = whole.worker_loads(whole.placement).mean(axis=0)
    after = whole.worker_loads(placement).mean(axis=0)
    limit = (1 + config.target_imbalance) * before.mean()
    gain = float(np.maximum(before - limit, 0).sum() - np.maximum(after - limit, 0).sum())
    if not forced and not _is_worthwhile(whole, placement, gain, context):
        placement = whole.placement
    change = float(before.max() / before.mean()), float(after.max() / after.mean())
    step = _query_rebalance(whole, placement, cooling, Trigger.IMBALANCE, change)
    verdicts = _heavy_query_verdicts(loads, whole, config)
    if verdicts and step.reason == Reason.GAIN_TOO_SMALL:
        step = replace(step, reason=Reason.INFEASIBLE)
    return replace(step, verdicts=verdicts)


def separate_bursts(loads: WorkerLoads, context: DecisionContext) -> QueryRebalance:
    """Move queries apart whose bursts coincide, if that also helps in batches not planned from."""
    series, config = loads.total_series[:, loads.active_workers], context.config
    too_few = len(loads.active_workers) < 2 or len(series) < 2 * config.samples
    if not loads.whole_queries or too_few:
        return QueryRebalance(Reason.BALANCED)
    before = _mean_peak_ratio(series)
    if before <= 1 + config.max_imbalance:
        return QueryRebalance(Reason.BALANCED)
    if not context.is_worth_a_plan((before - 1) * float(series.mean())):
        return QueryRebalance(Reason.NOT_WORTH_IT)
    whole = WholeQueryLoads.collect(loads, context)
    half = len(series) // 2
    gains = []
    for seen, unseen in ((slice(0, half), slice(half, None)), (slice(half, None), slice(0, half))):
        tried, _ = _plan_without_moving_back(whole.select_batches(seen), context)
        after = whole.select_batches(unseen).worker_loads(tried)
        gains.append(series[unseen].max(axis=1) - after.max(axis=1))
    gain = np.concatenate(gains)
    sure_gain = gain.mean() - config.confidence / 2 * gain.std() / np.sqrt(len(gain))
    if sure_gain < config.min_gain * series.mean():
        return QueryRebalance(Reason.GAIN_TOO_SMALL, Trigger.BURSTS)
    placement, cooling = _plan_without_moving_back(whole, context)
    after = whole.worker_loads(placement)
    mean_gain = float(series.max(axis=1).mean() - after.max(axis=1).mean())
    if not _is_worthwhile(whole, placement, mean_gain, context):
        placement = whole.placement
    change = before, _mean_peak_ratio(after)
    return _query_rebalance(whole, placement, cooling, Trigger.BURSTS, change)


def _mean_peak_ratio(loads: Floats) -> float:
    """Return the load of the busiest worker of each batch, averaged, over the mean load."""
    return float(loads.max(axis=1).mean() / loads.mean())


def _query_rebalance(
    whole: WholeQueryLoads,
    placement: Workers,
    cooling: bool,
    trigger: Trigger,
    change: tuple[float, float],
) -> QueryRebalance:
    """Return the result of a placement; the current one means that nothing moves."""
    moved = {
        whole.queries[query]: whole.active_workers[placement[query]]
        for query in np.flatnonzero(placement != whole.placement)
    }
    if not moved:
        return QueryRebalance(Reason.COOLDOWN if cooling else Reason.GAIN_TOO_SMALL, trigger)
    return QueryRebalance(Reason.QUERIES, trigger, moved, *change)


def _is_worthwhile(
    whole: WholeQueryLoads, placement: Workers, gain: float, context: DecisionContext
) -> bool:
    """Return whether a placement gains enough for the state it moves and the streams it ships."""
    before = whole.worker_loads(whole.placement)
    mean, state = float(before.mean()), whole.state_bytes[placement != whole.placement].sum()
    pays = context.pays_for_moves(gain, float(state))
    if gain < context.config.min_gain * mean or not pays:
        return False
    after = whole.worker_loads(placement)
    calmer = float((before**2).mean(axis=0).sum() - (after**2).mean(axis=0).sum()) / mean**2
    workers = len(whole.active_workers)
    shipped_before, shipped_after = (
        whole.traffic.shipped_rate(hosts, workers) for hosts in (whole.placement, placement)
    )
    return calmer >= whole.traffic.price * (shipped_after - shipped_before)


def _plan_without_moving_back(
    whole: WholeQueryLoads, context: DecisionContext
) -> tuple[Workers, bool]:
    """Return a placement in which no query returns to a worker it left recently.

    Queries that would return are held and the others planned again; also returns whether any was.
    """
    movable, held = whole.movable.copy(), False
    while True:
        placement = replan_queries(whole, movable, context)
        back = [
            query
            for query in np.flatnonzero(placement != whole.placement)
            if whole.active_workers[placement[query]]
            in context.recently_left.get((whole.queries[query], None), ())
        ]
        if not back:
            return placement, held
        movable[back], held = False, True  # each round holds at least one more


def _heavy_query_verdicts(
    loads: WorkerLoads, whole: WholeQueryLoads, config: Balancing
) -> tuple[Verdict, ...]:
    """Name the query that prevents the bound in every placement, even if heavy keys make way."""
    load, mean = whole.samples.mean(axis=1), float(loads.mean_loads.mean())
    limit, workers = 1 + config.max_imbalance, len(whole.active_workers)
    if mean <= 0:
        return ()
    pinned = np.bincount(whole.placement, np.where(whole.movable, 0.0, load), minlength=workers)
    free, fixed = np.flatnonzero(whole.movable), pinned + whole.keyed_load.mean(axis=1)
    bound = max_load_lower_bound(load[free] / mean, fixed / mean, config.max_imbalance)
    if bound.load > limit and config.keys != OFF:
        fixed = pinned + loads.immovable_keyed_load()
        bound = max_load_lower_bound(load[free] / mean, fixed / mean, config.max_imbalance)
    if bound.load <= limit:
        return ()
    if bound.limiting_item is not None:
        worst, note, remedy = int(free[bound.limiting_item]), "", "give it a key"
    else:
        hosted = ~whole.movable & (whole.placement == fixed.argmax())
        if not hosted.any():
            return ()
        worst, note, remedy = int(np.where(hosted, load, -1.0).argmax()), ", pinned,", "unpin it"
    name, reachable = whole.queries[worst], bound.reachable_load(config)
    message = (
        f"query {name}{note} needs {load[worst] / mean:.3g} times the mean load of a worker"
        f"{bound.describe_others('queries')}; with the load that stays (light keys, fixed cost of "
        f"keyed queries), no plan gets the busiest worker below {bound.load:.4g} times, plans "
        f"worth their moves reach {reachable:.4g}, the bound is {limit:.4g}: {remedy}, or use "
        "fewer workers"
    )
    return (Verdict(VerdictCode.HEAVY_QUERY, name, message, reachable),)
