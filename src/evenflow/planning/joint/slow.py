"""Slow planning of source traffic: run beside the batches, adopted at a border if still valid."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evenflow.model import Decision, Plan, Snapshot, moves
from evenflow.planning.joint.arrival import capacities, stream_rates, subscriptions
from evenflow.planning.joint.config import OFF, Balancing
from evenflow.planning.joint.draining import drainable
from evenflow.planning.joint.judge import predicted
from evenflow.planning.joint.levels import Levels
from evenflow.planning.joint.projection import moved_bytes, same_plan
from evenflow.planning.joint.staging import stage
from evenflow.planning.queries import NOWHERE, Fleet, Problem, plan_queries


def global_plan(snapshots: Sequence[Snapshot], config: Balancing) -> Plan:
    """Place all whole queries for the least traffic within the bound; takes as long as it takes."""
    window = snapshots[-config.window :]
    last, plan = window[-1], window[-1].following
    streams = {name: last.queries[name].streams for name in plan.placement if name in last.queries}
    if config.repair == OFF or not streams:
        return plan
    levels = Levels.of(window, plan)
    loads = dict(zip(levels.names, levels.samples.mean(axis=1).tolist(), strict=True))
    asked = subscriptions(streams, loads, stream_rates(window))
    current = np.array([plan.placement[name] for name in streams], dtype=np.int32)
    pinned = np.array([last.queries[name].pinned for name in streams], dtype=np.bool_)
    held = np.bincount(current[pinned], weights=asked.loads[pinned], minlength=plan.workers)
    # Pins are there already: where they alone exceed the bound, the bound makes room for them.
    slack = max(config.slack, float(held.max() * len(plan.active) / asked.loads.sum()) - 1 + 1e-6)
    problem = Problem.of(
        asked,
        Fleet(capacities(plan), slack, config.absolute_slack),
        np.where(pinned, current, NOWHERE).astype(np.int32),
        current,
    )
    found = plan_queries(problem, config.repair, config.rng()).workers
    placed = {name: int(worker) for name, worker in zip(streams, found, strict=True)}
    return replace(plan, placement={**plan.placement, **placed})


def still_valid(plan: Plan, snapshot: Snapshot) -> bool:
    """Tell whether a plan made a while ago fits what is hosted now."""
    following = snapshot.following
    return (
        (plan.workers, plan.drained) == (following.workers, following.drained)
        and plan.drained == drainable(snapshot)[0]
        and plan.placement.keys() == following.placement.keys()
        and plan.tables.keys() == following.tables.keys()
        and all(
            plan.placement[name] == following.placement[name]
            for name, query in snapshot.queries.items()
            if query.pinned and name in plan.placement
        )
    )


def adopt(plan: Plan, snapshots: Sequence[Snapshot], config: Balancing) -> Decision:
    """Decide whether to follow a plan of `global_plan`: it must fit, ship less, and stay even.

    Tables are those of the border, which the slow planner does not touch.
    """
    window = snapshots[-config.window :]
    last, following, rates = window[-1], window[-1].following, stream_rates(window)
    before = predicted(Levels.of(window, following), last, rates)

    def quiet(reason: str) -> Decision:
        return Decision(last.batch, last.at, "traffic", reason, f"{reason}: kept", before)

    if not still_valid(plan, last):
        return quiet("stale")
    target = replace(plan, tables=following.tables)
    after = predicted(Levels.of(window, target), last, rates)
    if same_plan(target, following) or after.shipped_bytes > before.shipped_bytes * (
        1 - config.min_gain
    ):
        return quiet("gain_too_small")
    if after.imbalance > max(1 + config.max_imbalance, before.imbalance):
        return quiet("infeasible")
    step = stage(following, target, last, config)
    done = same_plan(step, target)
    return Decision(
        last.batch,
        last.at,
        "traffic",
        "queries",
        f"ships {after.shipped_bytes:.4g} instead of {before.shipped_bytes:.4g} bytes a batch",
        before,
        predicted=after if done else predicted(Levels.of(window, step), last, rates),
        plan=step,
        target=None if done else target,
        moves=moves(following, step),
        moved_bytes=moved_bytes(following, step, last),
    )
