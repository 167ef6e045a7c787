"""Staging: a plan reached in several steps, each within a budget, each a valid plan.

Workers that come are active from the first step on; those that go are drained with the last one,
when nothing that a plan names is left on them.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from evenflow.model import (
    KeyStats,
    Move,
    MoveOrder,
    Plan,
    RoutingTable,
    Snapshot,
    Verdict,
    VerdictCode,
    home_workers,
    moves_between,
)
from evenflow.planning.controller.config import Balancing

LoadAndState = tuple[float, float]  # load and state


def next_stage(following: Plan, target: Plan, snapshot: Snapshot, config: Balancing) -> Plan:
    """Return the next plan on the way to a target: the target itself where the budget allows."""
    items = moves_between(following, target)
    if config.budget_bytes is None and config.budget_items is None:
        return target
    weights = _move_weights(items, snapshot)
    size = sum(bytes_ for _, bytes_ in weights.values())
    if len(items) <= (config.budget_items or len(items)) and size <= (config.budget_bytes or size):
        return target
    chosen: list[Move] = []
    spent = 0.0
    for move in sorted(
        items, key=lambda move: _move_priority(move, weights[move], following, config)
    ):
        if config.budget_items is not None and len(chosen) >= config.budget_items:
            break
        # A move that alone exceeds the budget must still come through some day: it goes first.
        if chosen and spent + weights[move][1] > (config.budget_bytes or np.inf):
            break
        chosen.append(move)
        spent += weights[move][1]
    return partial_plan(following, target, chosen)


def over_budget_verdicts(bytes_: float, config: Balancing) -> tuple[Verdict, ...]:
    """Say so if a step moves more state than asked for: some of it cannot be moved in parts."""
    if config.budget_bytes is None or bytes_ <= config.budget_bytes:
        return ()
    message = (
        f"this step moves {bytes_:,.0f} bytes, the budget is {config.budget_bytes:,.0f}: a query "
        "or a key goes with all its state, a query that becomes keyed is spread at once, and "
        "light keys follow the hash in the batch in which a worker goes or comes"
    )
    return (Verdict(VerdictCode.OVER_BUDGET, "plan", message),)


def _move_priority(
    move: Move, weight: LoadAndState, following: Plan, config: Balancing
) -> tuple[bool, float, str, int]:
    """Order moves: keys that free an entry of their table, then by load or state, then by name."""
    load, state = weight
    table = following.tables.get(move.query)
    frees = (
        table is not None
        and move.key_hash is not None
        and len(table) > config.max_table // 2
        and _home_worker(following, move.key_hash) == move.after
    )
    by = -load if config.order == MoveOrder.HOT else state
    return (not frees, by, move.query, move.key_hash or 0)


def _home_worker(plan: Plan, key_hash: int) -> int:
    return int(home_workers(np.array([key_hash], dtype=np.uint64), plan.workers, plan.drained)[0])


def _move_weights(items: tuple[Move, ...], snapshot: Snapshot) -> dict[Move, LoadAndState]:
    """Return load and state of everything that moves; what was not measured weighs nothing."""
    weights: dict[Move, LoadAndState] = {}
    known: dict[str, Mapping[int, LoadAndState]] = {}
    for move in items:
        query = snapshot.queries.get(move.query)
        if query is None:
            weights[move] = (0.0, 0.0)
        elif move.key_hash is None:
            weights[move] = (float(query.load.sum()), float(query.state_bytes.sum()))
        else:
            if move.query not in known:
                known[move.query] = _key_weights(query.keys)
            weights[move] = known[move.query].get(move.key_hash, (0.0, 0.0))
    return weights


def _key_weights(keys: KeyStats | None) -> dict[int, LoadAndState]:
    if keys is None:
        return {}
    pairs = zip(keys.cost.tolist(), keys.state_bytes.tolist(), strict=True)
    return dict(zip(keys.hashes.tolist(), pairs, strict=True))


def partial_plan(following: Plan, target: Plan, chosen: list[Move]) -> Plan:
    """Return the plan in which only the chosen moves have been made."""
    drained = following.drained & target.drained
    whole = {move.query for move in chosen if move.key_hash is None}
    waiting = following.placement.keys() & target.tables.keys() - whole
    placement = {
        **{
            name: worker if name in whole else following.placement.get(name, worker)
            for name, worker in target.placement.items()
        },
        **{name: following.placement[name] for name in sorted(waiting)},
    }
    keys: dict[str, list[int]] = {}
    for move in chosen:
        if move.key_hash is not None:
            keys.setdefault(move.query, []).append(move.key_hash)
    tables = {
        name: _partial_table(name, following, target, drained, keys.get(name, []))
        if name in following.tables
        else table
        for name, table in target.tables.items()
        if name not in waiting
    }
    return Plan(target.workers, placement, tables, drained)


def _partial_table(
    name: str, following: Plan, target: Plan, drained: frozenset[int], keys: list[int]
) -> RoutingTable:
    listed = np.union1d(following.tables[name].hashes, target.tables[name].hashes)
    owners = following.route(name, listed)
    moved = np.isin(listed, np.array(keys, dtype=np.uint64))
    owners[moved] = target.route(name, listed[moved])
    away = owners != home_workers(listed, target.workers, drained)
    return RoutingTable.from_entries(listed[away], owners[away])


def refit_target(target: Plan, following: Plan) -> Plan:
    """Return a target for what is hosted by now: queries came and went since it was made."""
    placement = {
        name: target.placement.get(name, worker)
        for name, worker in following.placement.items()
        if name not in target.tables
    }
    promoted = target.tables.keys() & following.placement.keys()
    tables = {
        name: target.tables.get(name, following.tables.get(name, RoutingTable()))
        for name in (*following.tables, *sorted(promoted))
    }
    return replace(target, placement=placement, tables=tables)
