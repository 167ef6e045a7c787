"""Traffic repair: plans whole queries for less traffic, on a thread while batches run.

The search moves groups of equal queries; moving single queries gets stuck. Measured loads are never
equal, so queries of the same streams and similar load get their mean load first. The best of
several tries is taken, with workers renumbered so that the least load moves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from evenflow.model import Decision, LoadSeries, Plan, Reason, Snapshot, StreamsByQuery, Trigger
from evenflow.model.arrays import Workers
from evenflow.model.words import reason_words
from evenflow.planning.controller.arrivals import (
    active_capacities,
    build_subscriptions,
    mean_query_loads,
    mean_stream_bytes,
)
from evenflow.planning.controller.build_decision import DecisionContext, build_decision
from evenflow.planning.controller.config import OFF, Balancing
from evenflow.planning.controller.drain import drainable_workers
from evenflow.planning.controller.predict import moved_bytes, same_plan
from evenflow.planning.controller.window import select_window
from evenflow.planning.operators.problem import OperatorSnapshot
from evenflow.planning.operators.relabel_workers import relabel_workers
from evenflow.planning.queries import NOWHERE, Fleet, PlacementProblem, plan_queries
from evenflow.planning.queries.metrics import total_traffic

REPAIR_TRIES = 8
SIMILAR_LOAD_FACTOR = 2.0
# The reason why a repair was rejected replaces these reasons for no plan.
REPLACEABLE_REASONS = (Reason.BALANCED, Reason.NO_LOAD, Reason.OFF)


def plan_traffic_repair(snapshots: Sequence[Snapshot], config: Balancing) -> Plan:
    """Place all whole queries for the least traffic within the balance bound; slow."""
    window = select_window(snapshots, config.window)
    last, plan = window[-1], window[-1].next_plan
    streams = {name: last.queries[name].streams for name in plan.placement if name in last.queries}
    if config.repair == OFF or not streams:
        return plan
    loads = average_similar_loads(streams, mean_query_loads(window, streams))
    subscriptions = build_subscriptions(streams, loads, mean_stream_bytes(window))
    current = np.array([plan.placement[name] for name in streams], dtype=np.int32)
    pinned = np.array([last.queries[name].pinned for name in streams], dtype=np.bool_)
    query_loads = subscriptions.loads
    pinned_load = np.bincount(current[pinned], weights=query_loads[pinned], minlength=plan.workers)
    # Pinned queries alone may exceed the bound; then raise it to what they need.
    needed = float(pinned_load.max() * len(plan.active) / query_loads.sum()) - 1 + 1e-6
    problem = PlacementProblem.of(
        subscriptions,
        Fleet(active_capacities(plan), max(config.slack, needed), config.absolute_slack),
        np.where(pinned, current, NOWHERE).astype(np.int32),
        current,
    )
    tries = (
        plan_queries(problem, config.repair, rng).workers
        for rng in config.new_rng().spawn(REPAIR_TRIES)
    )
    best = min(tries, key=lambda workers: total_traffic(subscriptions, workers, plan.workers))
    placed = dict(zip(streams, _relabel_workers(best, problem, plan).tolist(), strict=True))
    return replace(plan, placement={**plan.placement, **placed})


def average_similar_loads(streams: StreamsByQuery, loads: Mapping[str, float]) -> dict[str, float]:
    """Return loads; queries of the same streams with loads within a factor of two get their mean.

    >>> reads = {"a": ("s",), "b": ("s",), "c": ("s",), "d": ("t",)}
    >>> average_similar_loads(reads, {"a": 1.0, "b": 1.5, "c": 8.0, "d": 1.0})
    {'a': 1.25, 'b': 1.25, 'c': 8.0, 'd': 1.0}
    """
    known = [name for name in streams if loads.get(name, 0.0) > 0]
    groups: list[list[str]] = []
    for name in sorted(known, key=lambda name: (streams[name], loads[name])):
        lightest = groups[-1][0] if groups else name
        similar = loads[name] <= SIMILAR_LOAD_FACTOR * loads[lightest]
        if not groups or streams[lightest] != streams[name] or not similar:
            groups.append([])
        groups[-1].append(name)
    means: dict[str, float] = {}
    for group in groups:
        means |= dict.fromkeys(group, float(np.mean([loads[name] for name in group])))
    return {name: means[name] for name in known}


def _relabel_workers(workers: Workers, problem: PlacementProblem, plan: Plan) -> Workers:
    """Renumber the active workers of a placement so that the least load moves."""
    active = np.array(plan.active, dtype=np.int32)
    position = np.full(plan.workers, NOWHERE, dtype=np.int32)  # of each worker in `active`
    position[active] = np.arange(len(active))
    series = LoadSeries(
        tuple(map(str, range(len(workers)))),
        problem.subscriptions.loads[:, None],
        problem.pinned == NOWHERE,
    )
    running = OperatorSnapshot(series, len(active), position[problem.current])
    return active[relabel_workers(running, position[workers])]


def is_still_valid(plan: Plan, snapshot: Snapshot) -> bool:
    """Return whether a plan made earlier fits the current workers and pins."""
    current = snapshot.next_plan
    return (
        (plan.workers, plan.drained) == (current.workers, current.drained)
        and plan.drained == drainable_workers(snapshot)[0]
        and all(
            plan.placement.get(name, current.placement[name]) == current.placement[name]
            for name, query in snapshot.queries.items()
            if query.pinned and name in current.placement
        )
    )


def is_repair_due(basis: Snapshot | None, last: Snapshot, config: Balancing) -> bool:
    """Return whether to plan again: queries came, left or moved, or the cooldown has passed.

    `basis` is the last snapshot that the previous repair was planned from.
    """
    return config.repair != OFF and (
        basis is None
        or last.batch >= basis.batch + config.cooldown
        or not same_plan(basis.next_plan, last.next_plan)
    )


def with_repair_result(unchanged: Decision, repair: Decision) -> Decision:
    """Return `repair` if it has a plan; else `unchanged`, with the reason for no repair."""
    if repair.plan is not None:
        return repair
    combined = replace(unchanged, message=f"{unchanged.message}; {repair.message}")
    if unchanged.trigger != Trigger.NONE or unchanged.reason not in REPLACEABLE_REASONS:
        return combined
    return replace(combined, trigger=repair.trigger, reason=repair.reason)


def decide_traffic_repair(
    plan: Plan, snapshots: Sequence[Snapshot], decisions: Sequence[Decision], config: Balancing
) -> Decision:
    """Decide whether to follow a result of `plan_traffic_repair`.

    It must fit the current workers and pins, pay for its moves and keep the load even. Queries that
    arrived after it was planned or would return to a worker they left recently stay where they are.
    """
    context = DecisionContext.build(snapshots, decisions, config)
    current, before, last = context.next_plan, context.before, context.last_snapshot

    def rejected(reason: Reason) -> Decision:
        message = f"traffic repair rejected: {reason_words(reason)}"
        return build_decision(context, Trigger.TRAFFIC, reason, message)

    if not is_still_valid(plan, last):
        return rejected(Reason.STALE)
    placement = {
        name: worker
        for name, worker in plan.placement.items()
        if name in current.placement and worker not in context.recently_left.get((name, None), ())
    }
    target = replace(current, placement={**current.placement, **placement})
    loads = context.loads_under(target)
    after = context.predict_balance(loads)
    saved, moved = before.shipped_bytes - after.shipped_bytes, moved_bytes(current, target, last)
    gains_enough = saved > 0 and saved >= config.min_gain * before.shipped_bytes
    if not gains_enough or saved * config.payback < moved:
        return rejected(Reason.GAIN_TOO_SMALL)
    if after.imbalance > max(1 + config.max_imbalance, before.imbalance):
        return rejected(Reason.INFEASIBLE)
    message = f"ships {after.shipped_bytes:.4g} instead of {before.shipped_bytes:.4g} bytes a batch"
    return build_decision(context, Trigger.TRAFFIC, Reason.QUERIES, message, target=loads)
