"""Replay: runs the controller over recorded batches, in a closed loop.

The load of keys and queries is as recorded; their workers follow the replayed plans, with the delay
of the runtime: a decision at the end of batch b is in force from b + 2 on. A plan for source
traffic takes one batch to make and is proposed at the end of it.
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
from evenflow.model.arrays import Floats, Indices
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
    """The replayed decisions, and the balance of each batch as recorded and as replayed."""

    decisions: tuple[Decision, ...]
    recorded: tuple[BalanceMetrics, ...]
    replayed: tuple[BalanceMetrics, ...]


def replay_history(
    snapshots: Sequence[Snapshot], config: Balancing, workers: int | None = None
) -> Replay:
    """Run the controller over recorded batches, with the recorded number of workers or another."""
    if not snapshots:
        raise InputError("no batches are recorded; a replay needs at least one")
    if workers is not None and workers < 1:
        raise InputError(f"a replay needs at least one worker, got {workers}")
    plan = snapshots[0].plan
    resized = workers is not None and workers != plan.workers
    if workers is not None and resized:
        plan = Plan(workers)
    next_plan = plan
    window: list[Snapshot] = []
    decisions: list[Decision] = []
    replayed: list[BalanceMetrics] = []
    basis: Snapshot | None = None  # last snapshot that `repair` was planned from
    repair: Plan | None = None
    for recorded in snapshots:
        next_plan = _host_recorded_queries(next_plan, recorded, window, config)
        plan = _align_queries(plan, next_plan)
        drain = frozenset[int]() if resized else recorded.workers_to_drain
        snapshot = snapshot_under_plan(recorded, plan, next_plan, drain)
        window = [*select_window(window, config.window), snapshot]
        replayed.append(measured_balance([snapshot]))
        decision = propose(window, decisions, config, repair)
        if used_repair(decision):
            repair = None
        if repair is None and decision.plan is None and is_repair_due(basis, snapshot, config):
            basis, repair = snapshot, plan_traffic_repair(window, config)
        decisions.append(decision)
        plan, next_plan = next_plan, decision.plan or next_plan
    original = tuple(measured_balance([recorded]) for recorded in snapshots)
    return Replay(tuple(decisions), original, tuple(replayed))


def _host_recorded_queries(
    plan: Plan, recorded: Snapshot, snapshots: Sequence[Snapshot], config: Balancing
) -> Plan:
    """Return the plan with the queries of a recorded batch: some arrived, some left."""
    queries = recorded.queries
    known = plan.placement.keys() | plan.tables.keys()
    new_keyed = sorted(recorded.plan.tables.keys() & queries.keys() - known)
    tables = {name: table for name, table in plan.tables.items() if name in queries}
    tables |= {name: RoutingTable() for name in new_keyed}
    placement = {name: worker for name, worker in plan.placement.items() if name in queries}
    hosted = replace(plan, placement=placement, tables=tables)
    streams = {name: query.streams for name, query in queries.items()}
    window = select_window(snapshots, config.window)
    loads = mean_query_loads(window, placement)
    arrivals = place_arriving_queries(hosted, streams, loads, config, mean_stream_bytes(window))
    return replace(hosted, placement={**placement, **arrivals})


def _align_queries(plan: Plan, next_plan: Plan) -> Plan:
    """Return the plan in force with the queries of the next plan."""
    hosted = (*next_plan.placement, *next_plan.tables)
    tables = {name: plan.tables[name] for name in sorted(plan.tables.keys() & set(hosted))}
    placement = {name: plan.placement[name] for name in hosted if name in plan.placement}
    known = placement.keys() | tables.keys()
    placement |= {name: w for name, w in next_plan.placement.items() if name not in known}
    tables |= {name: table for name, table in next_plan.tables.items() if name not in known}
    return replace(plan, placement=placement, tables=tables)


def snapshot_under_plan(
    recorded: Snapshot, plan: Plan, next_plan: Plan, drain: frozenset[int]
) -> Snapshot:
    """Return a recorded batch as it would have been measured under another plan."""
    queries = {
        name: _query_under_plan(query, name, recorded.plan, plan)
        for name, query in recorded.queries.items()
    }
    return Snapshot(
        batch=recorded.batch,
        at=recorded.at,
        interval_seconds=recorded.interval_seconds,
        plan=plan,
        next_plan=next_plan,
        workers_to_drain=drain,
        queries=queries,
        shipped_bytes=_shipped_under_plan(recorded, plan),
        worker_cpu_seconds=sum((q.load for q in queries.values()), np.zeros(plan.workers)),
    )


def _query_under_plan(query: QueryLoad, name: str, before: Plan, after: Plan) -> QueryLoad:
    keys, total_state = None, query.state_bytes.sum()
    if name in after.placement:
        share = np.zeros(after.workers)
        share[after.placement[name]] = 1.0
        state = share * total_state
    elif query.keys is None:  # recorded as a whole query: assume that the hash spreads it evenly
        share = _spread_evenly(1.0, after)
        state = share * total_state
    else:
        keys = _keys_under_plan(query.keys, name, before, after)
        heavy = np.bincount(keys.owner, weights=keys.cost, minlength=after.workers)
        load = heavy + keys.rest_cost
        share = load / load.sum() if load.sum() > 0 else _spread_evenly(1.0, after)
        state = np.bincount(keys.owner, weights=keys.state_bytes, minlength=after.workers)
        state = state + keys.rest_state_bytes
    return replace(
        query,
        rows_in=(share * query.rows_in.sum()).astype(np.int64),
        rows_out=(share * query.rows_out.sum()).astype(np.int64),
        cpu_seconds=share * query.cpu_seconds.sum(),
        load=share * query.load.sum(),
        state_bytes=state,
        keys=keys,
        keyable=query.keyable or query.keys is not None,
    )


def _keys_under_plan(keys: KeyStats, name: str, before: Plan, after: Plan) -> KeyStats:
    """Return the key statistics; light keys are spread evenly if the number of workers differs."""

    def light(values: Floats | Indices) -> Floats:
        if before.workers == after.workers:
            return redistribute_rest(values.astype(np.float64), before, after)
        return _spread_evenly(float(values.sum()), after)

    return replace(
        keys,
        owner=after.route(name, keys.hashes),
        rest_keys=light(keys.rest_keys).astype(np.int64),
        rest_cost=light(keys.rest_cost),
        rest_state_bytes=light(keys.rest_state_bytes),
        rest_fixed_cost=light(keys.rest_fixed_cost),
    )


def _spread_evenly(total: float, plan: Plan) -> Floats:
    parts = np.zeros(plan.workers)
    parts[list(plan.active)] = total / len(plan.active)
    return parts


def _shipped_under_plan(recorded: Snapshot, plan: Plan) -> dict[str, Floats]:
    """Return each stream once per worker of its whole queries; spread evenly if it has none."""
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
