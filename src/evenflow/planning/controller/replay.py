"""Replay: runs the controller over recorded batches; its plans change where the load is.

The load of each key and query is as recorded; its worker is the one of the replayed plan. As in a
run, a plan decided at the end of batch b is in force from b + 2 on, and traffic repair takes one
batch: it starts at the end of b and its plan is considered at the end of b + 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from evenflow.errors import InputError
from evenflow.model import (
    BalanceMetrics,
    Decision,
    KeyStats,
    Plan,
    Proposal,
    QueryLoad,
    RoutingTable,
    Snapshot,
)
from evenflow.model.arrays import Floats, Indices
from evenflow.planning.controller.approval import await_approval, follow_approved
from evenflow.planning.controller.arrivals import (
    mean_query_loads,
    mean_stream_bytes,
    place_arriving_queries,
)
from evenflow.planning.controller.balance import measured_balance
from evenflow.planning.controller.config import Balancing
from evenflow.planning.controller.predict import heavy_key_loads, redistribute_rest
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
    snapshots: Sequence[Snapshot],
    config: Balancing,
    workers: int | None = None,
    answers: Mapping[int, bool] = MappingProxyType({}),
) -> Replay:
    """Run the controller over recorded batches, with the recorded number of workers or another.

    `answers` to proposals are by batch (`recorded_answers`).
    """
    if not snapshots:
        raise InputError("no batches are recorded; a replay needs at least one")
    first_plan = snapshots[0].plan
    workers = first_plan.workers if workers is None else workers
    if workers < 1:
        raise InputError(f"a replay needs at least one worker, got {workers}")
    resized = workers != first_plan.workers
    plan = next_plan = Plan(workers) if resized else first_plan
    window: list[Snapshot] = []
    decisions: list[Decision] = []
    replayed: list[BalanceMetrics] = []
    repair_basis: Snapshot | None = None  # the last one that a repair was planned from
    repair: Plan | None = None
    standing: Proposal | None = None
    for recorded in snapshots:
        next_plan = _host_recorded_queries(next_plan, recorded, window, config)
        plan = _align_queries(plan, next_plan)
        workers_to_drain = frozenset[int]() if resized else recorded.workers_to_drain
        if config.autoscale is not None:
            workers_to_drain = next_plan.drained  # the recorded ones may be those of autoscaling
        snapshot = snapshot_under_plan(recorded, plan, next_plan, workers_to_drain)
        window = [*select_window(window, config.window), snapshot]
        replayed.append(measured_balance([snapshot]))
        if standing is not None and snapshot.batch in answers:
            standing = standing.answer(approve=answers[snapshot.batch])
        decision = follow_approved(standing, window, decisions, config) or propose(
            window, decisions, config, repair
        )
        if used_repair(decision):
            repair = None
        decision, standing, _ = await_approval(decision, standing, window, decisions, config)
        may_repair = repair is None and decision.plan is None
        if may_repair and is_repair_due(repair_basis, snapshot, config):
            repair_basis, repair = snapshot, plan_traffic_repair(window, config)
        decisions.append(decision)
        plan, next_plan = next_plan, decision.plan or next_plan
    recorded_balance = tuple(measured_balance([snapshot]) for snapshot in snapshots)
    return Replay(tuple(decisions), recorded_balance, tuple(replayed))


def _host_recorded_queries(
    plan: Plan, recorded: Snapshot, earlier: Sequence[Snapshot], config: Balancing
) -> Plan:
    """Return the plan without queries that left before the recorded batch, with those that came."""
    queries = recorded.queries
    planned = plan.placement.keys() | plan.tables.keys()
    new_keyed = sorted(recorded.plan.tables.keys() & queries.keys() - planned)
    tables = {name: table for name, table in plan.tables.items() if name in queries}
    tables |= {name: RoutingTable() for name in new_keyed}
    placement = {name: worker for name, worker in plan.placement.items() if name in queries}
    plan = replace(plan, placement=placement, tables=tables)
    streams = {name: query.streams for name, query in queries.items()}
    window = select_window(earlier, config.window)
    loads = mean_query_loads(window, placement)
    arrivals = place_arriving_queries(plan, streams, loads, config, mean_stream_bytes(window))
    return replace(plan, placement={**placement, **arrivals})


def _align_queries(plan: Plan, next_plan: Plan) -> Plan:
    """Return the plan in force for the queries of the next plan; new ones as in that plan."""
    queries = (*next_plan.placement, *next_plan.tables)
    tables = {name: plan.tables[name] for name in sorted(plan.tables.keys() & set(queries))}
    placement = {name: plan.placement[name] for name in queries if name in plan.placement}
    planned = placement.keys() | tables.keys()
    placement |= {name: w for name, w in next_plan.placement.items() if name not in planned}
    tables |= {name: table for name, table in next_plan.tables.items() if name not in planned}
    return replace(plan, placement=placement, tables=tables)


def snapshot_under_plan(
    recorded: Snapshot, plan: Plan, next_plan: Plan, workers_to_drain: frozenset[int]
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
        workers_to_drain=workers_to_drain,
        queries=queries,
        shipped_bytes=_shipped_under_plan(recorded, plan),
        worker_cpu_seconds=sum((q.load for q in queries.values()), np.zeros(plan.workers)),
    )


def _query_under_plan(query: QueryLoad, name: str, recorded_plan: Plan, plan: Plan) -> QueryLoad:
    keys, total_state = None, query.state_bytes.sum()
    if name in plan.placement:
        share = np.zeros(plan.workers)
        share[plan.placement[name]] = 1.0
        state = share * total_state
    elif query.keys is None:  # recorded as a whole query: assume that the hash spreads it evenly
        share = _spread_evenly(1.0, plan)
        state = share * total_state
    else:
        keys = _keys_under_plan(query.keys, name, recorded_plan, plan)
        load = heavy_key_loads(keys, name, plan, keys.owner) + keys.rest_cost
        share = load / load.sum() if load.sum() > 0 else _spread_evenly(1.0, plan)
        state = np.bincount(keys.owner, weights=keys.state_bytes, minlength=plan.workers)
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


def _keys_under_plan(keys: KeyStats, name: str, recorded_plan: Plan, plan: Plan) -> KeyStats:
    """Return where keys would be; if the number of workers differs, light keys spread evenly."""

    def redistribute(values: Floats | Indices) -> Floats:
        if recorded_plan.workers == plan.workers:
            return redistribute_rest(values.astype(np.float64), recorded_plan, plan)
        return _spread_evenly(float(values.sum()), plan)

    return replace(
        keys,
        owner=plan.route(name, keys.hashes),
        rest_keys=redistribute(keys.rest_keys).astype(np.int64),
        rest_cost=redistribute(keys.rest_cost),
        rest_state_bytes=redistribute(keys.rest_state_bytes),
        rest_fixed_cost=redistribute(keys.rest_fixed_cost),
    )


def _spread_evenly(total: float, plan: Plan) -> Floats:
    per_worker = np.zeros(plan.workers)
    per_worker[list(plan.active)] = total / len(plan.active)
    return per_worker


def _shipped_under_plan(recorded: Snapshot, plan: Plan) -> dict[str, Floats]:
    """Return bytes by stream: all to each worker whose whole queries read it, or spread evenly."""
    shipped: dict[str, Floats] = {}
    for stream, size in mean_stream_bytes([recorded]).items():
        workers = {
            plan.placement[name]
            for name, query in recorded.queries.items()
            if stream in query.streams and name in plan.placement
        }
        copies = np.zeros(plan.workers)
        copies[list(workers)] = size
        shipped[stream] = copies if workers else _spread_evenly(size, plan)
    return shipped
