"""Calls the operator planners for whole queries; large clusters are planned in parts.

Keyed load takes part as an operator that cannot move, on each worker that has any.
"""

import numpy as np

from evenflow.model import LoadSeries
from evenflow.model.arrays import NOWHERE, Bools, Workers
from evenflow.planning.controller.build_decision import DecisionContext
from evenflow.planning.controller.whole_query_loads import WholeQueryLoads
from evenflow.planning.operators import (
    OperatorConfig,
    OperatorSnapshot,
    plan_large_cluster,
    plan_operators,
    relabel_workers,
)


def replan_queries(whole: WholeQueryLoads, movable: Bools, context: DecisionContext) -> Workers:
    """Return the placement that `operators` makes from the running one."""
    snapshot = _operator_snapshot(whole, movable)
    settings = _operator_config(whole, snapshot, context)
    if settings is None:
        return whole.placement
    config, rng = context.config, context.config.new_rng()
    if snapshot.workers > config.large_workers or int(movable.sum()) > config.large_queries:
        placement = plan_large_cluster(
            config.operators,
            snapshot,
            settings,
            rng,
            config.large_cluster if snapshot.workers > config.large_workers else "central",
            domain_size=config.domain_size,
            max_operators=config.large_queries,
        )
    else:
        placement = plan_operators(config.operators, snapshot, settings, rng).placement
    return placement[: len(whole.queries)]


def plan_queries_afresh(whole: WholeQueryLoads, context: DecisionContext) -> Workers:
    """Return the placement that `initial` makes, wherever the movable queries run now.

    Workers are numbered so that the least load moves.
    """
    running = _operator_snapshot(whole, whole.movable)
    settings = _operator_config(whole, running, context)
    if settings is None:
        return whole.placement
    nowhere = np.where(running.series.movable, NOWHERE, running.placement)
    fresh = OperatorSnapshot(running.series, running.workers, nowhere)
    config = context.config
    plan = plan_operators(config.initial, fresh, settings, config.new_rng())
    return relabel_workers(running, plan.placement)[: len(whole.queries)]


def _operator_snapshot(whole: WholeQueryLoads, movable: Bools) -> OperatorSnapshot:
    """Return queries and keyed load as operators."""
    keyed = np.flatnonzero(whole.keyed_load.any(axis=1))
    series = LoadSeries(
        (*whole.queries, *(f"keyed {whole.active_workers[worker]}" for worker in keyed)),
        np.concatenate([whole.samples, whole.keyed_load[keyed]]),
        np.concatenate([movable, np.zeros(len(keyed), dtype=np.bool_)]),
    )
    placement = np.concatenate([whole.placement, keyed])
    return OperatorSnapshot(series, len(whole.active_workers), placement)


def _operator_config(
    whole: WholeQueryLoads, snapshot: OperatorSnapshot, context: DecisionContext
) -> OperatorConfig | None:
    """Return the settings of the planners, or None if there is no load."""
    mean = float(snapshot.load.sum()) / snapshot.workers
    if mean <= 0:
        return None
    config, capacity = context.config, _worker_capacity(mean, context)
    return OperatorConfig(
        balance=config.target_imbalance * mean / capacity,
        exchange=config.delta,
        correlation=config.theta,
        capacity=capacity,
        max_moves=len(whole.queries),
        traffic=whole.traffic_with_keyed(len(snapshot.placement) - len(whole.queries)),
    )


def _worker_capacity(mean: float, context: DecisionContext) -> float:
    """Return the load above which a paper planner (cor-*) takes a worker for overloaded.

    The others use it as the unit of loads only: for them it is the mean load.
    """
    config = context.config
    if not config.operators.startswith("cor-"):
        return mean
    if config.capacity is None or context.interval <= 0:
        return (1 + config.max_imbalance) * mean
    return config.capacity * context.interval
