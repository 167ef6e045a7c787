"""Staging: a plan reached in several steps, each within a budget, each a valid plan.

Workers that come are active from the first step on; those that go are drained with the last one,
when nothing that a plan names is left on them.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from evenflow.model import KeyStats, Move, Plan, RoutingTable, Snapshot, Verdict, home, moves
from evenflow.planning.joint.config import Balancing

Weights = tuple[float, float]  # load and state


def stage(following: Plan, target: Plan, snapshot: Snapshot, config: Balancing) -> Plan:
    """Return the next plan on the way to a target: the target itself where the budget allows."""
    items = moves(following, target)
    if config.budget_bytes is None and config.budget_items is None:
        return target
    weights = _weights(items, snapshot)
    size = sum(bytes_ for _, bytes_ in weights.values())
    if len(items) <= (config.budget_items or len(items)) and size <= (config.budget_bytes or size):
        return target
    chosen: list[Move] = []
    spent = 0.0
    for move in sorted(items, key=lambda move: _rank(move, weights[move], following, config)):
        if config.budget_items is not None and len(chosen) >= config.budget_items:
            break
        # A move that alone exceeds the budget must still come through some day: it goes first.
        if chosen and spent + weights[move][1] > (config.budget_bytes or np.inf):
            break
        chosen.append(move)
        spent += weights[move][1]
    return between(following, target, chosen)


def over_budget(bytes_: float, config: Balancing) -> tuple[Verdict, ...]:
    """Say so if a step moves more state than asked for: some of it cannot be moved in parts."""
    if config.budget_bytes is None or bytes_ <= config.budget_bytes:
        return ()
    message = (
        f"this step moves {bytes_:,.0f} bytes, the budget is {config.budget_bytes:,.0f}: a query "
        "or a key goes with all its state, a query that becomes keyed is spread at once, and "
        "light keys follow the hash in the batch in which a worker goes or comes"
    )
    return (Verdict("over_budget", "plan", message),)


def _rank(
    move: Move, weight: Weights, following: Plan, config: Balancing
) -> tuple[bool, float, str, int]:
    """Order moves: keys that free an entry of their table, then by load or state, then by name."""
    load, state = weight
    table = following.tables.get(move.query)
    frees = (
        table is not None
        and move.key_hash is not None
        and len(table) > config.max_table // 2
        and _home(following, move.key_hash) == move.after
    )
    by = -load if config.order == "hot" else state
    return (not frees, by, move.query, move.key_hash or 0)


def _home(plan: Plan, key_hash: int) -> int:
    return int(home(np.array([key_hash], dtype=np.uint64), plan.workers, plan.drained)[0])


def _weights(items: tuple[Move, ...], snapshot: Snapshot) -> dict[Move, Weights]:
    """Return load and state of everything that moves; what was not measured weighs nothing."""
    weights: dict[Move, Weights] = {}
    known: dict[str, Mapping[int, Weights]] = {}
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


def _key_weights(keys: KeyStats | None) -> dict[int, Weights]:
    if keys is None:
        return {}
    pairs = zip(keys.cost.tolist(), keys.state.tolist(), strict=True)
    return dict(zip(keys.hashes.tolist(), pairs, strict=True))


def between(following: Plan, target: Plan, chosen: list[Move]) -> Plan:
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
        name: _between(name, following, target, drained, keys.get(name, []))
        if name in following.tables
        else table
        for name, table in target.tables.items()
        if name not in waiting
    }
    return Plan(target.workers, placement, tables, drained)


def _between(
    name: str, following: Plan, target: Plan, drained: frozenset[int], keys: list[int]
) -> RoutingTable:
    listed = np.union1d(following.tables[name].hashes, target.tables[name].hashes)
    owners = following.route(name, listed)
    moved = np.isin(listed, np.array(keys, dtype=np.uint64))
    owners[moved] = target.route(name, listed[moved])
    away = owners != home(listed, target.workers, drained)
    return RoutingTable.of(listed[away], owners[away])


def refitted(target: Plan, following: Plan) -> Plan:
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
