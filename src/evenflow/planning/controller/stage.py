"""Staging: a plan reached in several stages, each within the move budget, each a valid plan.

Activated workers are active from the first stage on; drained workers are drained in the last one,
when no query or listed key is left on them.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import numpy as np

from evenflow.model import (
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
from evenflow.planning.controller.predict import copied_bytes, split_hashes

LoadAndState = tuple[float, float]


def next_stage(current: Plan, target: Plan, snapshot: Snapshot, config: Balancing) -> Plan:
    """Return the next plan on the way to a target: the target itself if the budget allows."""
    if config.budget_bytes is None and config.budget_items is None:
        return target
    moves = moves_between(current, target)
    weights = _move_weights(moves, snapshot)
    size = sum(state for _, state in weights.values())
    if len(moves) <= (config.budget_items or len(moves)) and size <= (config.budget_bytes or size):
        return target
    chosen: list[Move] = []
    spent = 0.0
    ordered = sorted(moves, key=lambda move: _move_priority(move, weights[move], current, config))
    for move in ordered[: config.budget_items]:
        # A move that exceeds the budget on its own must still happen some day: it goes first.
        if chosen and spent + weights[move][1] > (config.budget_bytes or np.inf):
            break
        chosen.append(move)
        spent += weights[move][1]
    return partial_plan(current, target, chosen)


def over_budget_verdicts(moved_bytes: float, config: Balancing) -> tuple[Verdict, ...]:
    """Return a verdict if a stage exceeds the budget because its state cannot be split."""
    if config.budget_bytes is None or moved_bytes <= config.budget_bytes:
        return ()
    message = (
        f"this step moves {moved_bytes:,.0f} bytes, the budget is {config.budget_bytes:,.0f}: a "
        "query or key moves with all its state, a query that becomes keyed is spread in one batch, "
        "and light keys follow the hash in the batch in which a worker is drained or activated"
    )
    return (Verdict(VerdictCode.OVER_BUDGET, "plan", message),)


def _move_priority(
    move: Move, weight: LoadAndState, current: Plan, config: Balancing
) -> tuple[bool, float, str, int]:
    """Order moves: first keys that free an entry of a large table, then by load or state."""
    load, state = weight
    table = current.tables.get(move.query)
    frees_entry = False
    if table is not None and move.key_hash is not None and len(table) > config.max_table // 2:
        key = np.array([move.key_hash], dtype=np.uint64)
        frees_entry = home_workers(key, current.workers, current.drained)[0] == move.after
    weight_order = -load if config.order == MoveOrder.HOT else state
    return (not frees_entry, weight_order, move.query, move.key_hash or 0)


def _move_weights(moves: Iterable[Move], snapshot: Snapshot) -> dict[Move, LoadAndState]:
    """Return load and state of each move; zero if they were not measured."""

    @cache
    def query_weights(name: str) -> dict[int | None, LoadAndState]:
        query = snapshot.queries.get(name)
        if query is None:
            return {}
        whole = (float(query.load.sum()), float(query.state_bytes.sum()))
        keys = query.keys
        if keys is None:
            return {None: whole}
        weights = zip(keys.cost.tolist(), keys.state_bytes.tolist(), strict=True)
        return {None: whole, **dict(zip(keys.hashes.tolist(), weights, strict=True))}

    weights = {move: query_weights(move.query).get(move.key_hash, (0.0, 0.0)) for move in moves}
    for move, (load, state) in weights.items():
        if move.owners_after:
            weights[move] = load, copied_bytes(state, move.owners_before, move.owners_after)
    return weights


def partial_plan(current: Plan, target: Plan, chosen: list[Move]) -> Plan:
    """Return the current plan after only the chosen moves."""
    drained = current.drained & target.drained
    moved = {move.query for move in chosen if move.key_hash is None}
    not_yet_keyed = current.placement.keys() & target.tables.keys() - moved
    placement = {
        name: worker if name in moved else current.placement.get(name, worker)
        for name, worker in target.placement.items()
    } | {name: current.placement[name] for name in sorted(not_yet_keyed)}
    keys: dict[str, list[int]] = {}
    for move in chosen:
        if move.key_hash is not None:
            keys.setdefault(move.query, []).append(move.key_hash)
    tables = {
        name: _partial_table(name, current, target, drained, keys.get(name, []))
        if name in current.tables
        else table
        for name, table in target.tables.items()
        if name not in not_yet_keyed
    }
    return Plan(target.workers, placement, tables, drained)


def _partial_table(
    name: str, current: Plan, target: Plan, drained: frozenset[int], keys: list[int]
) -> RoutingTable:
    tables = current.tables[name], target.tables[name]
    split = split_hashes(name, current, target)
    listed = np.unique(
        np.concatenate([*(table.hashes for table in tables), np.array(split, dtype=np.uint64)])
    )
    owners = current.route(name, listed)
    moved = np.isin(listed, np.array(keys, dtype=np.uint64))
    owners[moved] = target.route(name, listed[moved])
    away = owners != home_workers(listed, target.workers, drained)
    chosen = set(keys)
    splits = (tables[key in chosen].split_of(key) for key in split)
    kept = [one for one in splits if one is not None]
    table = RoutingTable.from_entries(listed[away], owners[away])
    return table.with_splits(kept) if kept else table


def refit_target(target: Plan, current: Plan) -> Plan:
    """Return the target for the queries hosted now: some arrived or left since it was made."""
    placement = {
        name: target.placement.get(name, worker)
        for name, worker in current.placement.items()
        if name not in target.tables
    }
    promoted = target.tables.keys() & current.placement.keys()
    tables = {
        name: target.tables.get(name, current.tables.get(name, RoutingTable()))
        for name in (*current.tables, *sorted(promoted))
    }
    return replace(target, placement=placement, tables=tables)
