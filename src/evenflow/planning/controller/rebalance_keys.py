"""Keyed queries: a new routing table that evens the load of all workers.

What cannot be moved counts as load that stays: the light keys, which are not known one by one, and
all other queries. So a hot key gives way to other keys as to a heavy whole query beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenflow.model import (
    KeyLoads,
    Plan,
    Reason,
    RoutingTable,
    Snapshot,
    Verdict,
    VerdictCode,
    home_workers,
)
from evenflow.model.arrays import Bools, Floats, Hashes, Indices, Workers
from evenflow.planning.controller.config import Balancing
from evenflow.planning.controller.lower_bound import LowerBound, max_load_lower_bound
from evenflow.planning.controller.predict import redistribute_rest
from evenflow.planning.controller.window import MovableItem
from evenflow.planning.controller.worker_loads import WorkerLoads
from evenflow.planning.keys import ALGORITHMS, KeyConfig

MIN_KEY_ROWS = 5  # rows that do not tell what a key costs: it may have none in the next batch
RECENT_MOVE_PENALTY = (
    10.0  # times its state: a key that moved lately is left alone if others will do
)


@dataclass(frozen=True, slots=True, eq=False)
class KeyEstimate:
    """The keys of a query as estimated from some batches; workers are numbered among the active.

    The last entries of `cost`, one for each worker, are what cannot be moved from it: `light_load`, the
    light keys and the fixed cost of the query; and all load of other queries.
    """

    query: str
    hashes: Hashes
    key_names: dict[int, str]
    cost: Floats
    state_bytes: Floats
    home: Workers
    owner: Workers
    light_load: Floats
    plan: Plan

    @property
    def heavy(self) -> slice:
        """The keys that are known one by one."""
        return slice(0, len(self.hashes))

    @property
    def immovable(self) -> slice:
        """What stays on each worker."""
        return slice(len(self.hashes), len(self.cost))

    @property
    def worker_loads(self) -> Floats:
        """What each active worker carries."""
        return self.worker_loads_under(self.owner)

    def worker_loads_under(self, owner: Workers) -> Floats:
        """Return what each active worker would carry."""
        count = len(self.plan.active)
        loads: Floats = np.bincount(owner, weights=self.cost, minlength=count).astype(float)
        return loads

    def display_name(self, at: int) -> str:
        """Return what to call a key when speaking to people."""
        return self.key_names.get(int(self.hashes[at]), f"{int(self.hashes[at]):016x}")


@dataclass(frozen=True, slots=True, eq=False)
class KeyRebalance:
    """What was found for one query: a table, or the reason why it stays; loads in CPU seconds."""

    reason: Reason
    table: RoutingTable | None = None
    before: float = 1.0
    after: float = 1.0
    moved_bytes: float = 0.0
    verdicts: tuple[Verdict, ...] = ()


def rebalance_keys(
    levels: WorkerLoads,
    name: str,
    left: dict[MovableItem, set[int]],
    config: Balancing,
    forced: bool = False,
) -> KeyRebalance:
    """Plan one keyed query so that all load of the workers becomes even.

    `forced` takes a plan whatever it gains, and from a single batch.
    """
    seen = _snapshots_with_keys(levels, name)
    if not seen:
        return KeyRebalance(Reason.FEW_SAMPLES)
    if not forced and seen[-1].plan.drained != levels.plan.drained:
        return KeyRebalance(Reason.MOVES_IN_FLIGHT)  # where the light keys are is not known yet
    return _plan_best_target(_cached_estimate(levels, name, seen), left, config, forced)


def immovable_keyed_load(levels: WorkerLoads) -> Floats:
    """Return what each active worker has of keyed queries whichever of the known keys move."""
    load = np.zeros(len(levels.active_workers))
    for name, part in levels.keyed_queries.items():
        seen = _snapshots_with_keys(levels, name)
        share = part.series.mean(axis=0)[levels.active_workers]
        load += _cached_estimate(levels, name, seen).light_load if seen else share
    return load


def _cached_estimate(levels: WorkerLoads, name: str, seen: Sequence[Snapshot]) -> KeyEstimate:
    """Estimate the keys of a query once for all that ask."""
    if name not in levels.key_estimates:
        levels.key_estimates[name] = estimate_keys(seen, name, levels)
    found: KeyEstimate = levels.key_estimates[name]
    return found


def _snapshots_with_keys(levels: WorkerLoads, name: str) -> list[Snapshot]:
    """Return the batches since the load last changed in which keys were told."""
    seen = (levels.snapshots[row] for row in levels.keyed_queries[name].stable_rows)
    return [snapshot for snapshot in seen if snapshot.queries[name].keys is not None]


def estimate_keys(seen: Sequence[Snapshot], name: str, levels: WorkerLoads) -> KeyEstimate:
    """Average the keys over some batches, each batch with the same weight however busy it was.

    A key that had few rows in all of them is told because it was lucky, and counts as light.
    """
    plan, series = levels.plan, levels.keyed_queries[name].series.mean(axis=0)
    background = levels.total_series.mean(axis=0) - series
    number = np.full(plan.workers, -1, dtype=np.int32)
    number[list(plan.active)] = np.arange(len(plan.active))
    stats = [(s.plan, keys) for s in seen if (keys := s.queries[name].keys) is not None]
    totals = [float(keys.cost.sum() + keys.rest_cost.sum()) for _, keys in stats]
    scale = [series.sum() / (total * len(stats)) if total else 0.0 for total in totals]
    hashes, at = np.unique(np.concatenate([k.hashes for _, k in stats]), return_inverse=True)
    parts = np.split(at, np.cumsum([len(k.hashes) for _, k in stats])[:-1])
    weights = [keys.cost * factor for (_, keys), factor in zip(stats, scale, strict=True)]
    cost = np.bincount(at, weights=np.concatenate(weights), minlength=len(hashes))
    rows = np.bincount(at, np.concatenate([k.rows for _, k in stats]), len(hashes))
    state, names = np.zeros(len(hashes)), {}
    rest = np.zeros(plan.workers)
    for (measured, keys), part, factor in zip(stats, parts, scale, strict=True):
        state[part] = keys.state_bytes  # the newest
        rest += redistribute_rest(keys.rest_cost, measured, plan) * factor
    for _, keys in stats[-1:]:
        names = dict(zip(keys.hashes.tolist(), keys.names, strict=False))
    active = list(plan.active)
    everyone = np.arange(len(active), dtype=np.int32)
    homes = number[home_workers(hashes, plan.workers, plan.drained)]
    owners = number[plan.route(name, hashes)]
    owners = np.where(owners < 0, homes, owners)
    known = (rows >= MIN_KEY_ROWS) | np.isin(hashes, plan.tables[name].hashes)
    light = rest[active] + np.bincount(owners[~known], cost[~known], len(active))
    stays = light + background[active]
    return KeyEstimate(
        name,
        hashes[known],
        names,
        np.concatenate([cost[known], stays]),
        np.concatenate([state[known], np.zeros(len(active))]),
        np.concatenate([homes[known], everyone]),
        np.concatenate([owners[known], everyone]).astype(np.int32),
        light,
        plan,
    )


def _plan_best_target(
    keyed: KeyEstimate, left: dict[MovableItem, set[int]], config: Balancing, forced: bool
) -> KeyRebalance:
    """Aim at what is asked for, or as near as heavy keys allow: where they are, unless other
    workers have room enough for them to be worth their state.
    """
    if not keyed.worker_loads.any():
        return KeyRebalance(Reason.BALANCED)
    least, there = _lower_bounds(keyed, config)
    step, floor = KeyRebalance(Reason.GAIN_TOO_SMALL), there
    if there.load > least.load + config.min_gain:
        step, floor = _plan_for_target(keyed, least, left, config, forced), least
    if step.table is None:
        step, floor = _plan_for_target(keyed, there, left, config, forced), there
    verdicts = _heavy_key_verdicts(keyed, least, floor.reachable_load(config), config)
    if floor.load > 1 + config.max_imbalance and step.reason in (
        Reason.BALANCED,
        Reason.GAIN_TOO_SMALL,
    ):
        step = replace(step, reason=Reason.INFEASIBLE if verdicts else Reason.NOT_SURE)
    return replace(step, verdicts=verdicts)


def _plan_for_target(
    keyed: KeyEstimate,
    floor: LowerBound,
    left: dict[MovableItem, set[int]],
    config: Balancing,
    forced: bool,
) -> KeyRebalance:
    """Plan with the aim of the configuration, or a floor above it."""
    loads, mean = keyed.worker_loads, float(keyed.worker_loads.mean())
    before, aim = float(loads.max()) / mean, floor.target_load(config)
    stays = KeyRebalance(Reason.GAIN_TOO_SMALL, None, before, before)
    if before <= aim:
        return replace(stays, reason=Reason.BALANCED)
    lately = _recently_moved(keyed, left)
    unlisted = _light_table_entries(keyed)
    room = config.max_table - len(unlisted)
    owner = _run_planner(keyed, lately, aim - 1, config, max(room, config.max_table // 2))
    back = _moves_back(keyed, owner, left)
    owner[back] = keyed.owner[back]
    fits = _trim_to_table_size(keyed, owner, left, config.max_table)
    moved = owner != keyed.owner
    after = keyed.worker_loads_under(owner)
    limit = aim * mean
    gain = float(np.maximum(loads - limit, 0).sum() - np.maximum(after - limit, 0).sum())
    moved_bytes = float(keyed.state_bytes[moved].sum())
    pays = gain * config.payback >= config.move_seconds_per_mb * moved_bytes / 1e6
    worth = forced or (gain >= config.min_gain * limit and pays)
    if not moved.any() or not worth or not fits:
        return replace(stays, reason=Reason.COOLDOWN if back.any() else Reason.GAIN_TOO_SMALL)
    table = _build_table(keyed, owner, unlisted, config.max_table)
    return KeyRebalance(Reason.KEYS, table, before, float(after.max()) / mean, moved_bytes)


def _run_planner(
    keyed: KeyEstimate, lately: Bools, aim: float, config: Balancing, room: int
) -> Workers:
    """Return the planner's owners; what cannot be moved stays, what moved lately if it can."""
    state = keyed.state_bytes.copy()
    state[keyed.heavy][lately] *= RECENT_MOVE_PENALTY
    stays = np.zeros(len(state), dtype=np.bool_)
    stays[keyed.immovable] = True
    problem = KeyLoads(
        keyed.cost, state, keyed.home, keyed.owner, len(keyed.plan.active), immovable=stays
    )
    return ALGORITHMS[config.keys](problem, KeyConfig(aim, room), config.new_rng()).owner.copy()


def _lower_bounds(keyed: KeyEstimate, config: Balancing) -> tuple[LowerBound, LowerBound]:
    """Return what no routing table gets below, and what none does that leaves the heaviest key of
    each worker there, if that exceeds the aim beside what stays on the emptiest worker.
    """
    mean = float(keyed.worker_loads.mean())
    cost, rest = keyed.cost[keyed.heavy] / mean, keyed.cost[keyed.immovable] / mean
    least = max_load_lower_bound(cost, rest, config.target_imbalance)
    heavy = np.flatnonzero(cost + rest.min() > 1 + config.target_imbalance)
    order = heavy[np.argsort(-cost[heavy], kind="stable")][: len(rest)]
    owner = keyed.owner[order]
    where = np.where(_first_occurrences(owner), rest[owner], rest.min())
    there = float((cost[order] + where).max(initial=0.0))
    return least, replace(least, load=max(least.load, there))


def _first_occurrences(values: Workers) -> Bools:
    """Mark where each value stands for the first time."""
    first = np.zeros(len(values), dtype=np.bool_)
    first[np.unique(values, return_index=True)[1]] = True
    return first


def _heavy_key_verdicts(
    keyed: KeyEstimate, least: LowerBound, reachable: float, config: Balancing
) -> tuple[Verdict, ...]:
    """Name the key to blame if the bound is out of reach.

    What can be reached is a little above what no table gets below, for the last bit is not worth
    another plan, nor perhaps a heavy key its state.
    """
    if least.limiting_item is None or least.load <= 1 + config.max_imbalance:
        return ()
    name = keyed.display_name(least.limiting_item)
    needs = keyed.cost[least.limiting_item] / float(keyed.worker_loads.mean())
    message = (
        f"key {name} of {keyed.query} needs {needs:.3g} times the mean load of a worker"
        f"{least.describe_others('keys')}; beside what else stays no routing table gets the busiest worker "
        f"below {least.load:.4g} times, plans that are worth it reach {reachable:.4g}, the bound "
        f"is {1 + config.max_imbalance:.4g}: use fewer workers or a finer key"
    )
    return (Verdict(VerdictCode.HEAVY_KEY, f"{keyed.query}: {name}", message, reachable),)


def _recently_moved(keyed: KeyEstimate, left: dict[MovableItem, set[int]]) -> Bools:
    """Mark the keys that moved a short while ago."""
    moved = [key for query, key in left if query == keyed.query and key is not None]
    return np.isin(keyed.hashes, np.array(moved, dtype=np.uint64))


def _moves_back(keyed: KeyEstimate, owner: Workers, left: dict[MovableItem, set[int]]) -> Bools:
    """Mark the keys that would return to a worker that they left a short while ago."""
    back = np.zeros(len(owner), dtype=np.bool_)
    for at in np.flatnonzero(owner != keyed.owner) if left else ():
        back[at] = _left_recently(keyed, int(at), int(owner[at]), left)
    return back


def _left_recently(
    keyed: KeyEstimate, key: int, worker: int, left: dict[MovableItem, set[int]]
) -> bool:
    return keyed.plan.active[worker] in left.get((keyed.query, int(keyed.hashes[key])), ())


def _trim_to_table_size(
    keyed: KeyEstimate, owner: Workers, left: dict[MovableItem, set[int]], max_table: int
) -> bool:
    """Send the lightest keys home until the table fits; tell whether it does then."""
    away = np.flatnonzero(owner[keyed.heavy] != keyed.home[keyed.heavy])
    excess = len(away) - max_table
    for key in away[np.argsort(keyed.cost[away], kind="stable")] if excess > 0 else ():
        if excess > 0 and not _left_recently(keyed, int(key), int(keyed.home[key]), left):
            owner[key] = keyed.home[key]
            excess -= 1
    return excess <= 0


def _light_table_entries(keyed: KeyEstimate) -> Indices:
    """Return the entries of the table in force whose keys are not known one by one.

    They stay while there is room for them.
    """
    table = keyed.plan.tables[keyed.query]
    return np.flatnonzero(~np.isin(table.hashes, keyed.hashes))


def _build_table(
    keyed: KeyEstimate, owner: Workers, unlisted: Indices, max_table: int
) -> RoutingTable:
    """Return the table of the new owners; entries of light keys stay while there is room."""
    heavy = owner[keyed.heavy]
    away = np.flatnonzero(heavy != keyed.home[keyed.heavy])
    active = np.array(keyed.plan.active, dtype=np.int32)
    table = keyed.plan.tables[keyed.query]
    kept = unlisted[: max_table - len(away)]
    return RoutingTable.from_entries(
        np.concatenate([keyed.hashes[away], table.hashes[kept]]),
        np.concatenate([active[heavy[away]], table.owners[kept]]),
    )
