"""Keyed queries: a new routing table that evens out the load of all workers.

Everything that does not move counts as fixed load: light keys, which are not known one by one, and
all other queries. So a hot key moves away from a heavy whole query as it does from other hot keys.
"""

from dataclasses import dataclass, replace

import numpy as np

from evenflow.model import KeyLoads, Reason, RoutingTable, Verdict, VerdictCode
from evenflow.model.arrays import Bools, Indices, Workers
from evenflow.planning.controller.build_decision import DecisionContext
from evenflow.planning.controller.config import Balancing
from evenflow.planning.controller.key_estimate import KeyEstimate
from evenflow.planning.controller.lower_bound import LowerBound, max_load_lower_bound
from evenflow.planning.controller.window import RecentlyLeft
from evenflow.planning.controller.worker_loads import WorkerLoads
from evenflow.planning.keys import ALGORITHMS, KeyConfig

CORRECTION_GAIN = 2.0  # times `min_gain`, for a plan after another one for the same shares
RECENT_MOVE_PENALTY = 10.0  # factor on the state of keys that moved recently: others move first


@dataclass(frozen=True, slots=True, eq=False)
class KeyRebalance:
    """A new table for one query, or the reason to keep the old one.

    before, after  load of the busiest worker, in mean loads
    """

    reason: Reason
    table: RoutingTable | None = None
    before: float = 1.0
    after: float = 1.0
    verdicts: tuple[Verdict, ...] = ()


def rebalance_keys(
    loads: WorkerLoads, name: str, context: DecisionContext, *, forced: bool = False
) -> KeyRebalance:
    """Plan one keyed query so that the total load of the workers becomes even.

    `forced` accepts a plan from a single batch, whatever it gains.
    """
    measured = loads.snapshots_with_keys(name)
    if not measured:
        return KeyRebalance(Reason.FEW_SAMPLES)
    if not forced and measured[-1].plan.drained != loads.plan.drained:
        return KeyRebalance(Reason.MOVES_IN_FLIGHT)  # light keys are not measured at their owners
    return _plan_best_target(loads.key_estimate(name), context, forced)


def _plan_best_target(keys: KeyEstimate, context: DecisionContext, forced: bool) -> KeyRebalance:
    """Aim at the configured balance, or as near to it as heavy keys allow.

    Heavy keys stay on their workers unless moving them lowers the bound by more than `min_gain`.
    """
    config = context.config
    if not keys.worker_loads().any():
        return KeyRebalance(Reason.BALANCED)
    least, in_place = _lower_bounds(keys, config)
    step, bound = KeyRebalance(Reason.GAIN_TOO_SMALL), in_place
    if in_place.load > least.load + config.min_gain:
        step, bound = _plan_for_target(keys, least, context, forced), least
    if step.table is None:
        step, bound = _plan_for_target(keys, in_place, context, forced), in_place
    verdicts = _heavy_key_verdicts(keys, least, bound.reachable_load(config), config)
    unchanged = step.reason in (Reason.BALANCED, Reason.GAIN_TOO_SMALL)
    if bound.load > 1 + config.max_imbalance and unchanged:
        step = replace(step, reason=Reason.INFEASIBLE if verdicts else Reason.NOT_SURE)
    return replace(step, verdicts=verdicts)


def _plan_for_target(
    keys: KeyEstimate, bound: LowerBound, context: DecisionContext, forced: bool
) -> KeyRebalance:
    """Plan for the configured imbalance, or for a lower bound above it."""
    config, left = context.config, context.recently_left
    loads = keys.worker_loads()
    mean = float(loads.mean())
    before, target = float(loads.max()) / mean, bound.target_load(config)
    unchanged = KeyRebalance(Reason.GAIN_TOO_SMALL, None, before, before)
    if before <= target:
        return replace(unchanged, reason=Reason.BALANCED)
    light_entries = _light_table_entries(keys)
    room = max(config.max_table - len(light_entries), config.max_table // 2)
    owner = _run_planner(keys, _recently_moved(keys, left), target - 1, config, room)
    back = _moves_back(keys, owner, left)
    owner[back] = keys.owner[back]
    fits = _trim_to_table_size(keys, owner, left, config.max_table)
    moved = owner != keys.owner
    after = keys.worker_loads(owner)
    limit = target * mean
    gain = float(np.maximum(loads - limit, 0).sum() - np.maximum(after - limit, 0).sum())
    pays = context.pays_for_moves(gain, float(keys.state_bytes[moved].sum()))
    corrects = keys.query in context.queries_planned_since_change()
    least_gain = config.min_gain * limit * (CORRECTION_GAIN if corrects else 1.0)
    worth = forced or (gain >= least_gain and pays)
    if not moved.any() or not worth or not fits:
        return replace(unchanged, reason=Reason.COOLDOWN if back.any() else Reason.GAIN_TOO_SMALL)
    table = _build_table(keys, owner, light_entries, config.max_table)
    return KeyRebalance(Reason.KEYS, table, before, float(after.max()) / mean)


def _run_planner(
    keys: KeyEstimate, recent: Bools, max_imbalance: float, config: Balancing, room: int
) -> Workers:
    """Return the owners that the configured planner chooses; keys that moved recently cost more."""
    state = keys.state_bytes.copy()
    state[keys.heavy][recent] *= RECENT_MOVE_PENALTY
    immovable = np.zeros(len(state), dtype=np.bool_)
    immovable[keys.immovable] = True
    workers = len(keys.plan.active)
    problem = KeyLoads(keys.cost, state, keys.home, keys.owner, workers, immovable=immovable)
    limits = KeyConfig(max_imbalance, room)
    return ALGORITHMS[config.keys](problem, limits, config.new_rng()).owner.copy()


def _lower_bounds(keys: KeyEstimate, config: Balancing) -> tuple[LowerBound, LowerBound]:
    """Return the lower bound of all routing tables, and of those that leave heavy keys in place.

    Heavy are keys that exceed the target next to the fixed load of the emptiest worker; each
    worker keeps its heaviest one.
    """
    mean = float(keys.worker_loads().mean())
    cost, fixed = keys.cost[keys.heavy] / mean, keys.cost[keys.immovable] / mean
    least = max_load_lower_bound(cost, fixed, config.target_imbalance)
    heavy = np.flatnonzero(cost + fixed.min() > 1 + config.target_imbalance)
    order = heavy[np.argsort(-cost[heavy], kind="stable")][: len(fixed)]
    owner = keys.owner[order]
    heaviest = np.zeros(len(owner), dtype=np.bool_)
    heaviest[np.unique(owner, return_index=True)[1]] = True
    other_load = np.where(heaviest, fixed[owner], fixed.min())
    in_place = float((cost[order] + other_load).max(initial=0.0))
    return least, replace(least, load=max(least.load, in_place))


def _heavy_key_verdicts(
    keys: KeyEstimate, least: LowerBound, reachable: float, config: Balancing
) -> tuple[Verdict, ...]:
    """Name the key that limits all tables if no table keeps the configured bound."""
    if least.limiting_item is None or least.load <= 1 + config.max_imbalance:
        return ()
    name = keys.display_name(least.limiting_item)
    needs = keys.cost[least.limiting_item] / float(keys.worker_loads().mean())
    message = (
        f"key {name} of {keys.query} needs {needs:.3g} times the mean load of a worker"
        f"{least.describe_others('keys')}; with the load that stays, no routing table gets the "
        f"busiest worker below {least.load:.4g} times, plans worth their moves reach "
        f"{reachable:.4g}, the bound is {1 + config.max_imbalance:.4g}: use fewer workers or a "
        "finer key"
    )
    return (Verdict(VerdictCode.HEAVY_KEY, f"{keys.query}: {name}", message, reachable),)


def _recently_moved(keys: KeyEstimate, left: RecentlyLeft) -> Bools:
    moved = [key for query, key in left if query == keys.query and key is not None]
    return np.isin(keys.hashes, np.array(moved, dtype=np.uint64))


def _moves_back(keys: KeyEstimate, owner: Workers, left: RecentlyLeft) -> Bools:
    """Mark the keys that would return to a worker that they left recently."""
    back = np.zeros(len(owner), dtype=np.bool_)
    for key in np.flatnonzero(owner != keys.owner) if left else ():
        back[key] = _left_recently(keys, int(key), int(owner[key]), left)
    return back


def _left_recently(keys: KeyEstimate, key: int, worker: int, left: RecentlyLeft) -> bool:
    return keys.plan.active[worker] in left.get((keys.query, int(keys.hashes[key])), ())


def _trim_to_table_size(
    keys: KeyEstimate, owner: Workers, left: RecentlyLeft, max_table: int
) -> bool:
    """Send the lightest keys home until the table fits; return whether it fits then."""
    away = np.flatnonzero(owner[keys.heavy] != keys.home[keys.heavy])
    excess = len(away) - max_table
    for key in away[np.argsort(keys.cost[away], kind="stable")] if excess > 0 else ():
        if excess > 0 and not _left_recently(keys, int(key), int(keys.home[key]), left):
            owner[key] = keys.home[key]
            excess -= 1
    return excess <= 0


def _light_table_entries(keys: KeyEstimate) -> Indices:
    """Return the entries of the current table that are light keys."""
    return np.flatnonzero(~np.isin(keys.plan.tables[keys.query].hashes, keys.hashes))


def _build_table(
    keys: KeyEstimate, owner: Workers, light_entries: Indices, max_table: int
) -> RoutingTable:
    """Return the table of the new owners; entries of light keys stay while there is room."""
    heavy = owner[keys.heavy]
    away = np.flatnonzero(heavy != keys.home[keys.heavy])
    active = np.array(keys.plan.active, dtype=np.int32)
    table = keys.plan.tables[keys.query]
    light = light_entries[: max_table - len(away)]
    return RoutingTable.from_entries(
        np.concatenate([keys.hashes[away], table.hashes[light]]),
        np.concatenate([active[heavy[away]], table.owners[light]]),
    )
