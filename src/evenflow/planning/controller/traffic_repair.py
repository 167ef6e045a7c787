"""Slow planning of source traffic: run beside the batches, adopted at a border if still worth it.

Measured loads differ a little from query to query, and a search that may only move queries one by
one gets stuck: what reads the same streams and costs about the same counts as equal, so that whole
types can move. The best of some tries is taken, under the names of workers that move the least.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from evenflow.model import Decision, LoadSeries, Plan, Reason, Snapshot, Trigger, moves_between
from evenflow.model.arrays import Workers
from evenflow.planning.controller.arrivals import (
    StreamsByQuery,
    active_capacities,
    build_subscriptions,
    mean_query_loads,
    mean_stream_bytes,
)
from evenflow.planning.controller.balance import predicted_balance
from evenflow.planning.controller.config import OFF, Balancing
from evenflow.planning.controller.drain import drainable_workers
from evenflow.planning.controller.predict import moved_bytes, same_plan
from evenflow.planning.controller.stage import next_stage, over_budget_verdicts
from evenflow.planning.controller.window import recently_left_workers, select_window
from evenflow.planning.controller.worker_loads import WorkerLoads
from evenflow.planning.operators.problem import OperatorSnapshot
from evenflow.planning.operators.relabel_workers import relabel_workers
from evenflow.planning.queries import NOWHERE, Fleet, PlacementProblem, plan_queries
from evenflow.planning.queries.metrics import total_traffic

REPAIR_TRIES = 8
SIMILAR_LOAD_FACTOR = 2.0
REPLACEABLE_REASONS = (
    Reason.BALANCED,
    Reason.NO_LOAD,
    Reason.OFF,
)  # reasons that give way to why traffic is left as it is


def plan_traffic_repair(snapshots: Sequence[Snapshot], config: Balancing) -> Plan:
    """Place all whole queries for the least traffic within the bound; takes as long as it takes."""
    window = select_window(snapshots, config.window)
    last, plan = window[-1], window[-1].next_plan
    streams = {name: last.queries[name].streams for name in plan.placement if name in last.queries}
    if config.repair == OFF or not streams:
        return plan
    loads = average_similar_loads(streams, mean_query_loads(window, streams))
    asked = build_subscriptions(streams, loads, mean_stream_bytes(window))
    current = np.array([plan.placement[name] for name in streams], dtype=np.int32)
    pinned = np.array([last.queries[name].pinned for name in streams], dtype=np.bool_)
    held = np.bincount(current[pinned], weights=asked.loads[pinned], minlength=plan.workers)
    # Pins are there already: where they alone exceed the bound, the bound makes room for them.
    slack = max(config.slack, float(held.max() * len(plan.active) / asked.loads.sum()) - 1 + 1e-6)
    problem = PlacementProblem.of(
        asked,
        Fleet(active_capacities(plan), slack, config.absolute_slack),
        np.where(pinned, current, NOWHERE).astype(np.int32),
        current,
    )
    tries = (
        plan_queries(problem, config.repair, rng) for rng in config.new_rng().spawn(REPAIR_TRIES)
    )
    found = min(
        (one.workers for one in tries), key=lambda at: total_traffic(asked, at, plan.workers)
    )
    placed = dict(zip(streams, _relabel_workers(found, problem, plan).tolist(), strict=True))
    return replace(plan, placement={**plan.placement, **placed})


def average_similar_loads(streams: StreamsByQuery, loads: Mapping[str, float]) -> dict[str, float]:
    """Return loads with one value for queries of the same streams within a factor of two.

    >>> reads = {"a": ("s",), "b": ("s",), "c": ("s",), "d": ("t",)}
    >>> average_similar_loads(reads, {"a": 1.0, "b": 1.5, "c": 8.0, "d": 1.0})
    {'a': 1.25, 'b': 1.25, 'c': 8.0, 'd': 1.0}
    """
    known = [name for name in streams if loads.get(name, 0.0) > 0]
    groups: list[list[str]] = []
    for name in sorted(known, key=lambda name: (streams[name], loads[name])):
        first = groups[-1][0] if groups else None
        if (
            first is None
            or streams[first] != streams[name]
            or loads[name] > SIMILAR_LOAD_FACTOR * loads[first]
        ):
            groups.append([])
        groups[-1].append(name)
    means = {
        name: mean
        for group in groups
        for mean in (float(np.mean([loads[one] for one in group])),)
        for name in group
    }
    return {name: means[name] for name in known}


def _relabel_workers(workers: Workers, problem: PlacementProblem, plan: Plan) -> Workers:
    """Return the placement with active workers renamed so that the least load moves."""
    number = np.full(plan.workers, NOWHERE, dtype=np.int32)
    number[list(plan.active)] = np.arange(len(plan.active))
    series = LoadSeries(
        tuple(map(str, range(len(workers)))),
        problem.subscriptions.loads[:, None],
        problem.pinned == NOWHERE,
    )
    running = OperatorSnapshot(series, len(plan.active), number[problem.current])
    renamed: Workers = np.array(plan.active, dtype=np.int32)[
        relabel_workers(running, number[workers])
    ]
    return renamed


def is_still_valid(plan: Plan, snapshot: Snapshot) -> bool:
    """Tell whether a plan made a while ago is for the workers and pins of now."""
    following = snapshot.next_plan
    return (
        (plan.workers, plan.drained) == (following.workers, following.drained)
        and plan.drained == drainable_workers(snapshot)[0]
        and all(
            plan.placement.get(name, following.placement[name]) == following.placement[name]
            for name, query in snapshot.queries.items()
            if query.pinned and name in following.placement
        )
    )


def is_repair_due(planned: Snapshot | None, last: Snapshot, config: Balancing) -> bool:
    """Tell whether to plan again: what is hosted has changed, or moved, or a while has passed.

    `planned` is what the last plan was made from.
    """
    return config.repair != OFF and (
        planned is None
        or last.batch >= planned.batch + config.cooldown
        or not same_plan(planned.next_plan, last.next_plan)
    )


def with_repair_result(quiet: Decision, adopted: Decision) -> Decision:
    """Return what is decided where nothing else was: a plan for traffic, or why not even that."""
    if adopted.plan is not None:
        return adopted
    told = replace(quiet, message=f"{quiet.message}; {adopted.message}")
    if quiet.trigger != Trigger.NONE or quiet.reason not in REPLACEABLE_REASONS:
        return told
    return replace(told, trigger=adopted.trigger, reason=adopted.reason)


def decide_traffic_repair(
    plan: Plan, snapshots: Sequence[Snapshot], decisions: Sequence[Decision], config: Balancing
) -> Decision:
    """Decide whether to follow a plan of `plan_traffic_repair`: it must fit, pay, and keep the load even.

    Queries that came meanwhile stay where they are, as do those that would go back to where they
    have just come from. Tables are those of the border, which the slow planner does not touch.
    """
    window = select_window(snapshots, config.window)
    last, following, rates = window[-1], window[-1].next_plan, mean_stream_bytes(window)
    before = predicted_balance(WorkerLoads.under_plan(window, following), last, rates)

    def quiet(reason: Reason) -> Decision:
        message = f"a plan for source traffic is not followed: {reason}"
        return Decision(last.batch, last.at, Trigger.TRAFFIC, reason, message, before)

    if not is_still_valid(plan, last):
        return quiet(Reason.STALE)
    left = recently_left_workers(decisions, last.batch, config.cooldown)
    wanted = {
        name: worker
        for name, worker in plan.placement.items()
        if name in following.placement and worker not in left.get((name, None), ())
    }
    target = replace(following, placement={**following.placement, **wanted})
    after = predicted_balance(WorkerLoads.under_plan(window, target), last, rates)
    saved, moved = before.shipped_bytes - after.shipped_bytes, moved_bytes(following, target, last)
    if (
        saved <= 0
        or saved < config.min_gain * before.shipped_bytes
        or saved * config.payback < moved
    ):
        return quiet(Reason.GAIN_TOO_SMALL)
    if after.imbalance > max(1 + config.max_imbalance, before.imbalance):
        return quiet(Reason.INFEASIBLE)
    step = next_stage(following, target, last, config)
    done = same_plan(step, target)
    moved = moved_bytes(following, step, last)
    return Decision(
        last.batch,
        last.at,
        Trigger.TRAFFIC,
        Reason.QUERIES,
        f"ships {after.shipped_bytes:.4g} instead of {before.shipped_bytes:.4g} bytes a batch",
        before,
        predicted=after
        if done
        else predicted_balance(WorkerLoads.under_plan(window, step), last, rates),
        plan=step,
        target=None if done else target,
        moves=moves_between(following, step),
        moved_bytes=moved,
        verdicts=over_budget_verdicts(moved, config),
    )
