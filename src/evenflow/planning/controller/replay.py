"""Replay: the controller over recorded statistics, in a closed loop.

What keys and queries needed is as recorded; where they run follows our own plans, with the delay
that the runtime has: what is decided at the border of batch b holds from b + 2 on. Plans for source
traffic are made beside one batch and judged at its end.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenflow.errors import InputError
from evenflow.model import (
    BalanceMetrics,
    Decision,
    KeyStats,
    Plan,
    QueryLoad,
    RoutingTable,
    Snapshot,
)
from evenflow.model.arrays import Floats
from evenflow.planning.controller.arrivals import (
    mean_query_loads,
    mean_stream_bytes,
    place_arriving_queries,
)
from evenflow.planning.controller.balance import measured_balance
from evenflow.planning.controller.config import Balancing
from evenflow.planning.controller.predict import redistribute_rest
from evenflow.planning.controller.propose import propose, used_repair
from evenflow.planning.controller.traffic_repair import is_repair_due, plan_traffic_repair
from evenflow.planning.controller.window import select_window


@dataclass(frozen=True, slots=True)
class Replay:
    """What would have been decided, and how balanced each batch was: recorded and replayed."""

    decisions: tuple[Decision, ...]
    recorded: tuple[BalanceMetrics, ...]
    replayed: tuple[BalanceMetrics, ...]


def replay_history(
    snapshots: Sequence[Snapshot], config: Balancing, workers: int | None = None
) -> Replay:
    """Run the controller over recorded batches, with the workers of the record or others."""
    if not snapshots:
        raise InputError("nothing was recorded: a replay needs at least one batch")
    if workers is not None and workers < 1:
        raise InputError(f"a replay needs at least one worker, got {workers}")
    first = snapshots[0].plan
    other = workers is not None and workers != first.workers
    plan = Plan(workers) if other and workers is not None else first
    following = plan
    seen: list[Snapshot] = []
    decisions: list[Decision] = []
    replayed: list[BalanceMetrics] = []
    planned: Snapshot | None = None
    repair: Plan | None = None
    for recorded in snapshots:
        following = _host_recorded_queries(following, recorded, seen, config)
        plan = _align_queries(plan, following)
        drain = frozenset[int]() if other else recorded.workers_to_drain
        seen = [
            *select_window(seen, config.window),
            snapshot_under_plan(recorded, plan, following, drain),
        ]
        replayed.append(measured_balance(seen[-1:]))
        decision = propose(seen, decisions, config, repair=repair)
        if used_repair(decision):
            repair = None
        if repair is None and decision.plan is None and is_repair_due(planned, seen[-1], config):
            planned, repair = seen[-1], plan_traffic_repair(seen, config)
        decisions.append(decision)
        plan, following = following, decisions[-1].plan or following
    original = tuple(measured_balance([recorded]) for recorded in snapshots)
    return Replay(tuple(decisions), original, tuple(replayed))


def _host_recorded_queries(
    plan: Plan, recorded: Snapshot, seen: Sequence[Snapshot], config: Balancing
) -> Plan:
    """Return the plan with the queries of a recorded batch: some came, some left."""
    queries = recorded.queries
    known = plan.placement.keys() | plan.tables.keys()
    new_keyed = {name for name in recorded.plan.tables if name in queries and name not in known}
    tables = {
        **{name: table for name, table in plan.tables.items() if name in queries},
        **{name: RoutingTable() for name in sorted(new_keyed)},
    }
    placement = {name: worker for name, worker in plan.placement.items() if name in queries}
    hosted = Plan(plan.workers, placement, tables, plan.drained)
    streams = {name: query.streams for name, query in queries.items()}
    window = select_window(seen, config.window)
    loads = mean_query_loads(window, placement)
    arrivals = place_arriving_queries(hosted, streams, loads, config, mean_stream_bytes(window))
    return replace(hosted, placement={**placement, **arrivals})


def _align_queries(plan: Plan, following: Plan) -> Plan:
    """Return the plan that holds with the queries of the one that follows it."""
    keyed = plan.tables.keys() & (following.tables.keys() | following.placement.keys())
    tables = {name: plan.tables[name] for name in sorted(keyed)}
    placement = {
        name: plan.placement[name]
        for name in (*following.placement, *following.tables)
        if name in plan.placement
    }
    for name, worker in following.placement.items():
        if name not in placement and name not in tables:
            placement[name] = worker
    for name, table in following.tables.items():
        if name not in placement and name not in tables:
            tables[name] = table
    return Plan(plan.workers, placement, tables, plan.drained)


def snapshot_under_plan(
    recorded: Snapshot, plan: Plan, following: Plan, drain: frozenset[int]
) -> Snapshot:
    """Return a recorded batch as it would have been observed under another plan."""
    queries = {
        name: _query_under_plan(query, name, recorded.plan, plan)
        for name, query in recorded.queries.items()
    }
    return Snapshot(
        recorded.batch,
        recorded.at,
        recorded.interval_seconds,
        plan,
        following,
        drain,
        queries,
        _shipped_under_plan(recorded, plan),
        sum((query.load for query in queries.values()), np.zeros(plan.workers)),
    )


def _query_under_plan(query: QueryLoad, name: str, before: Plan, after: Plan) -> QueryLoad:
    keys = None
    if name in after.placement:
        share = np.zeros(after.workers)
        share[after.placement[name]] = 1.0
        state = share * query.state_bytes.sum()
    elif query.keys is None:  # whole in the record: the hash deals it evenly, as far as is known
        share = _spread_evenly(1.0, after)
        state = share * query.state_bytes.sum()
    else:
        keys = _keys_under_plan(query.keys, name, before, after)
        heavy = np.bincount(keys.owner, weights=keys.cost, minlength=after.workers)
        load = heavy + keys.rest_cost
        share = load / load.sum() if load.sum() > 0 else _spread_evenly(1.0, after)
        state = np.bincount(keys.owner, weights=keys.state_bytes, minlength=after.workers)
        state = state + keys.rest_state_bytes
    return QueryLoad(
        query.streams,
        (share * query.rows_in.sum()).astype(np.int64),
        (share * query.rows_out.sum()).astype(np.int64),
        share * query.cpu_seconds.sum(),
        share * query.load.sum(),
        state,
        keys,
        query.pinned,
        query.keyable or query.keys is not None,
        query.publishes,
    )


def _keys_under_plan(keys: KeyStats, name: str, before: Plan, after: Plan) -> KeyStats:
    """Return the heavy keys on our workers, the light ones on those of the record, or dealt."""
    if before.workers == after.workers:
        counts, cost, state, fixed = (
            redistribute_rest(values.astype(np.float64), before, after)
            for values in (
                keys.rest_keys,
                keys.rest_cost,
                keys.rest_state_bytes,
                keys.rest_fixed_cost,
            )
        )
    else:
        counts, cost, state, fixed = (
            _spread_evenly(float(values.sum()), after)
            for values in (
                keys.rest_keys,
                keys.rest_cost,
                keys.rest_state_bytes,
                keys.rest_fixed_cost,
            )
        )
    owner = after.route(name, keys.hashes)
    heavy = (keys.hashes, owner, keys.cost, keys.state_bytes, keys.names)
    return KeyStats(*heavy, counts.astype(np.int64), cost, state, fixed, keys.rows)


def _spread_evenly(total: float, plan: Plan) -> Floats:
    parts = np.zeros(plan.workers)
    parts[list(plan.active)] = total / len(plan.active)
    return parts


def _shipped_under_plan(recorded: Snapshot, plan: Plan) -> dict[str, Floats]:
    """Return a stream once to each worker of its whole queries, evenly if only keyed ones read."""
    shipped: dict[str, Floats] = {}
    for stream, rate in mean_stream_bytes([recorded]).items():
        readers = {
            plan.placement[name]
            for name, query in recorded.queries.items()
            if stream in query.streams and name in plan.placement
        }
        sent = np.zeros(plan.workers)
        sent[list(readers)] = rate
        shipped[stream] = sent if readers else _spread_evenly(rate, plan)
    return shipped
