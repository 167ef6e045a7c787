"""Keyed queries: a new routing table that evens out the load of all workers.

Everything that does not move counts as fixed load: light keys, which are not known one by one, and
all other queries. So a hot key moves away from a heavy whole query as it does from other hot keys.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenflow.model import Reason, RoutingTable, Verdict, VerdictCode
from evenflow.model.arrays import Bools
from evenflow.planning.controller.build_decision import DecisionContext
from evenflow.planning.controller.config import Balancing
from evenflow.planning.controller.key_change import KeyChange, key_change, light_table_entries
from evenflow.planning.controller.key_estimate import KeyEstimate
from evenflow.planning.controller.lower_bound import LowerBound, max_load_lower_bound
from evenflow.planning.controller.window import RecentlyLeft
from evenflow.planning.controller.worker_loads import WorkerLoads
from evenflow.planning.keys import ALGORITHMS, CHOICE_PLANNERS, KeyConfig
from evenflow.planning.keys.split import plan_fewer_owners, plan_with_splits

CORRECTION_GAIN = 2.0  # times `min_gain`, for a plan after another one for the same shares
MAX_REPLANS = 3  # each leaves some more keys in place
RECENT_MOVE_PENALTY = 10.0  # factor on the state of keys that moved recently: others move first


@dataclass(frozen=True, slots=True, eq=False)
class KeyRebalance:
    """A new table for one query, or the reason to keep the old one.

    before, after  load of the busiest worker, in mean loads
    notes          what happens to split keys, for people
    """

    reason: Reason
    table: RoutingTable | None = None
    before: float = 1.0
    after: float = 1.0
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()


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
    keys = loads.key_estimate(name)
    if (verdict := _not_divisible(keys, context.config)) is not None:
        return KeyRebalance(Reason.INFEASIBLE, verdicts=(verdict,))
    return _plan_best_target(keys, context, forced)


def _not_divisible(keys: KeyEstimate, config: Balancing) -> Verdict | None:
    """Refuse a planner that divides the rows of every key for a query that does not allow it."""
    heavy = keys.heavy
    if config.keys not in CHOICE_PLANNERS or (keys.shared[heavy] <= 1e-9 * keys.cost[heavy]).all():
        return None
    message = (
        f"keys of {keys.query} stay where they are: {config.keys} divides the rows of a key, but "
        "these must be copied (a join), cannot be merged (an operator without `merge`) or are "
        "combined before they are sent (`combine`); use another planner of keys, such as cover"
    )
    return Verdict(VerdictCode.NOT_DIVISIBLE, keys.query, message)


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
    config, loads = context.config, keys.worker_loads()
    before, target = float(loads.max() / loads.mean()), bound.target_load(config)
    if before <= target:
        return KeyRebalance(Reason.BALANCED, None, before, before)
    change = _run_planner(keys, target - 1, context)
    after, limit = change.loads, target * keys.mean_load_when_split(config.most_owners)
    gain = float(np.maximum(loads - limit, 0).sum() - np.maximum(after - limit, 0).sum())
    corrects = keys.query in context.queries_planned_since_change()
    least_gain = config.min_gain * limit * (CORRECTION_GAIN if corrects else 1.0)
    pays = context.pays_for_moves(gain, change.moved_bytes)
    worth = forced or (gain >= least_gain and pays)
    if not change.any_moves or not worth or not change.fits_table:
        reason = Reason.COOLDOWN if change.held_back.any() else Reason.GAIN_TOO_SMALL
        return KeyRebalance(reason, None, before, before)
    return _accepted(keys, change, before)


def shrink_splits(loads: WorkerLoads, name: str, context: DecisionContext) -> KeyRebalance:
    """Give split keys that cooled down fewer owners, unless owners changed recently."""
    measured = loads.snapshots_with_keys(name)
    split = bool(loads.plan.tables[name].splits) and context.config.keys not in CHOICE_PLANNERS
    if not split or len(measured) < context.config.samples or name in context.last_split:
        return KeyRebalance(Reason.BALANCED)
    keys, config = loads.key_estimate(name), context.config
    before = float(keys.worker_loads().max() / keys.worker_loads().mean())
    planner, limits = ALGORITHMS[config.keys], _key_config(config, config.max_imbalance)
    plan = plan_fewer_owners(
        planner, keys.key_loads(), limits, config.new_rng(), as_even_as_now=True
    )
    unchanged = KeyRebalance(Reason.BALANCED, None, before, before)
    if plan is None:
        return unchanged
    step = _accepted(keys, key_change(keys, plan, context), before)
    # Keys that may not move back yet can leave the plan less even than it was made.
    return step if step.after <= max(before + 1e-3, 1 + config.max_imbalance / 2) else unchanged


def _accepted(keys: KeyEstimate, change: KeyChange, before: float) -> KeyRebalance:
    after = float(change.loads.max() / change.loads.mean())
    return KeyRebalance(Reason.KEYS, change.table, before, after, notes=change.notes)


def _key_config(config: Balancing, max_imbalance: float, **more: Any) -> KeyConfig:
    owners = 1 if config.keys == "hash" else config.most_owners  # it has no table at all
    limits = KeyConfig(max_imbalance, config.max_table, config.beta, owners)
    return replace(limits, **more)


def _run_planner(keys: KeyEstimate, max_imbalance: float, context: DecisionContext) -> KeyChange:
    """Return what the configured planner changes; keys that moved recently cost more.

    If keys would return to workers that they left recently, it plans again around them.
    """
    config, state = context.config, keys.state_bytes.copy()
    state[keys.heavy][_recently_moved(keys, context.recently_left)] *= RECENT_MOVE_PENALTY
    room = max(config.max_table - len(light_table_entries(keys)), config.max_table // 2)
    limits = replace(
        _key_config(config, max_imbalance, shrink=keys.query not in context.last_split),
        max_table=room,
    )
    planner, problem, rng = ALGORITHMS[config.keys], keys.key_loads(state), config.new_rng()
    if config.keys in CHOICE_PLANNERS:
        return key_change(keys, planner(problem, limits, rng), context)
    change = key_change(keys, plan_with_splits(planner, problem, limits, rng), context)
    held_back = change.held_back
    for _ in range(MAX_REPLANS):
        if not change.held_back.any():
            break
        around = replace(problem, immovable=problem.immovable_mask | held_back)
        change = key_change(keys, plan_with_splits(planner, around, limits, rng), context)
        held_back = held_back | change.held_back
    return replace(change, held_back=held_back)


def _lower_bounds(keys: KeyEstimate, config: Balancing) -> tuple[LowerBound, LowerBound]:
    """Return the lower bound of all routing tables, and of those that leave heavy keys in place.

    Heavy are keys that exceed the target next to the fixed load of the emptiest worker; each
    worker keeps its heaviest one.
    """
    mean = keys.mean_load_when_split(config.most_owners)
    cost, fixed = keys.least_costs(config.most_owners) / mean, keys.cost[keys.immovable] / mean
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
        f"{least.describe_others('keys')}{_why_not_split(keys, least.limiting_item)}; with the "
        f"load that stays, no routing table gets the busiest worker below {least.load:.4g} times, "
        f"plans worth their moves reach {reachable:.4g}, the bound is "
        f"{1 + config.max_imbalance:.4g}: use fewer workers or a finer key"
    )
    return (Verdict(VerdictCode.HEAVY_KEY, f"{keys.query}: {name}", message, reachable),)


def _why_not_split(keys: KeyEstimate, key: int) -> str:
    if not keys.split_by[key]:
        return ""  # neither the query nor its SQL says how
    part = float(keys.shared[key] / keys.cost[key]) if keys.cost[key] > 0 else 0.0
    return f", {part:.0%} of it on every worker that shares the key"


def _recently_moved(keys: KeyEstimate, left: RecentlyLeft) -> Bools:
    moved = [key for query, key in left if query == keys.query and key is not None]
    return np.isin(keys.hashes, np.array(moved, dtype=np.uint64))
