"""Keyed queries: a new routing table where one worker surely carries too much of the query."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenflow.model import KeyLoads, Plan, RoutingTable, Snapshot, Verdict, home
from evenflow.model.arrays import Bools, Floats, Hashes, Workers
from evenflow.planning.joint.config import Balancing
from evenflow.planning.joint.estimate import estimate, last_change, shares, usable
from evenflow.planning.joint.projection import dealt, keyed_series
from evenflow.planning.joint.recent import Item
from evenflow.planning.keys import ALGORITHMS, KeyConfig

WATCHED = 16  # heaviest keys whose own shares tell a change, besides the workers'
UNMOVABLE = 1e6  # times all state: what the light keys of a worker pretend to weigh
RECENTLY_MOVED = 10.0  # times its state: a key that moved lately is left alone if others will do


@dataclass(frozen=True, slots=True, eq=False)
class Keyed:
    """The keys of a query as estimated from some batches; workers are numbered among the active.

    The last `workers` entries of `cost` are the light keys of each worker, added up.
    """

    name: str
    hashes: Hashes
    names: dict[int, str]
    cost: Floats
    state: Floats
    home: Workers
    owner: Workers
    plan: Plan

    @property
    def heavy(self) -> slice:
        """The keys that are known one by one."""
        return slice(0, len(self.hashes))

    @property
    def rest(self) -> slice:
        """The light keys of each worker."""
        return slice(len(self.hashes), len(self.cost))

    @property
    def loads(self) -> Floats:
        """What each active worker carries of the query."""
        return self.loads_of(self.owner)

    def loads_of(self, owner: Workers) -> Floats:
        """Return what each active worker would carry."""
        count = len(self.plan.active)
        loads: Floats = np.bincount(owner, weights=self.cost, minlength=count).astype(float)
        return loads

    def key_name(self, at: int) -> str:
        """Return what to call a key when speaking to people."""
        return self.names.get(int(self.hashes[at]), f"{int(self.hashes[at]):016x}")


@dataclass(frozen=True, slots=True, eq=False)
class KeyStep:
    """What was found for one query: a table, or the reason why it stays; loads in CPU seconds."""

    reason: str
    table: RoutingTable | None = None
    before: float = 1.0
    after: float = 1.0
    moved_bytes: float = 0.0
    verdicts: tuple[Verdict, ...] = ()


def plan_keys(
    snapshots: Sequence[Snapshot],
    name: str,
    plan: Plan,
    left: dict[Item, set[int]],
    mean_load: float,
    config: Balancing,
    forced: bool = False,
) -> KeyStep:
    """Plan one keyed query, if it must be; `forced` looks for a plan without waiting for proof.

    `mean_load` is that of a worker with all its queries: gains are measured in it.
    """
    seen = [s for s in snapshots if name in s.queries and s.queries[name].keys is not None]
    if not forced and seen and seen[-1].plan.drained != plan.drained:
        return KeyStep("moves_in_flight")  # where the light keys are is not known yet
    series = keyed_series(seen, name, plan)[:, list(plan.active)]
    rows = usable(series)
    if len(rows) < (1 if forced else config.samples):
        return KeyStep("few_samples" if len(rows) or not seen else "no_load")
    series, seen = series[rows], [seen[row] for row in rows]
    since = _since(seen, name, shares(series))
    found = estimate(shares(series), since)
    limit, level = 1 + config.max_imbalance, float(found.level.max())
    if not forced and found.surely(config.confidence) <= limit:
        return KeyStep("balanced" if level <= limit else "not_sure", before=level)
    keyed = estimate_keys(seen[since:], name, plan)
    return _planned(keyed, left, mean_load, config, forced)


def _since(seen: Sequence[Snapshot], name: str, series: Floats) -> int:
    """Return since when the shares of workers, and those of the heaviest keys, hold."""
    newest = seen[-1].queries[name].keys
    assert newest is not None  # noqa: S101 - chosen so
    top = np.sort(newest.hashes[np.argsort(-newest.cost, kind="stable")[:WATCHED]])
    columns = np.zeros((len(seen), len(top)))
    for row, snapshot in enumerate(seen):
        stats = snapshot.queries[name].keys
        if stats is not None and len(stats.hashes):
            at = np.minimum(np.searchsorted(stats.hashes, top), len(stats.hashes) - 1)
            total = float(stats.cost.sum() + stats.rest_cost.sum()) or 1.0
            present = stats.hashes[at] == top
            columns[row] = np.where(present, stats.cost[at], 0.0) * series.shape[1] / total
    return max(last_change(series), last_change(columns))


def estimate_keys(seen: Sequence[Snapshot], name: str, plan: Plan) -> Keyed:
    """Average the keys over some batches, each batch with the same weight however busy it was."""
    number = np.full(plan.workers, -1, dtype=np.int32)
    number[list(plan.active)] = np.arange(len(plan.active))
    stats = [(s.plan, keys) for s in seen if (keys := s.queries[name].keys) is not None]
    totals = [float(keys.cost.sum() + keys.rest_cost.sum()) for _, keys in stats]
    scale = [np.mean(totals) / (total * len(stats)) if total else 0.0 for total in totals]
    hashes, at = np.unique(np.concatenate([k.hashes for _, k in stats]), return_inverse=True)
    parts = np.split(at, np.cumsum([len(k.hashes) for _, k in stats])[:-1])
    weights = [keys.cost * factor for (_, keys), factor in zip(stats, scale, strict=True)]
    cost = np.bincount(at, weights=np.concatenate(weights), minlength=len(hashes))
    state, names = np.zeros(len(hashes)), {}
    rest = np.zeros(plan.workers)
    for (measured, keys), part, factor in zip(stats, parts, scale, strict=True):
        state[part] = keys.state  # the newest
        rest += dealt(keys.rest_cost, measured, plan) * factor
    for _, keys in stats[-1:]:
        names = dict(zip(keys.hashes.tolist(), keys.names, strict=False))
    active = list(plan.active)
    everyone = np.arange(len(active), dtype=np.int32)
    homes = number[home(hashes, plan.workers, plan.drained)]
    owners = number[plan.route(name, hashes)]
    return Keyed(
        name,
        hashes,
        names,
        np.concatenate([cost, rest[active]]),
        np.concatenate([state, np.full(len(active), UNMOVABLE * (state.sum() + 1.0))]),
        np.concatenate([homes, everyone]),
        np.concatenate([np.where(owners < 0, homes, owners), everyone]).astype(np.int32),
        plan,
    )


def _planned(
    keyed: Keyed,
    left: dict[Item, set[int]],
    mean_load: float,
    config: Balancing,
    forced: bool,
) -> KeyStep:
    loads, mean = keyed.loads, float(keyed.loads.mean())
    floor, heaviest = _reachable(keyed, config)
    aim = max(config.aim, floor)
    verdicts = _verdicts(keyed, floor, heaviest, config)
    before = float(loads.max()) / mean if mean else 1.0
    if before <= 1 + aim * (1 + 1e-9) and verdicts and not forced:
        return KeyStep("infeasible", before=before, after=before, verdicts=verdicts)
    problem = KeyLoads(
        keyed.cost,
        _state_to_spare(keyed, left),
        keyed.home,
        keyed.owner,
        len(loads),
        [*map(str, range(len(keyed.hashes))), *(f"rest {w}" for w in keyed.plan.active)],
    )
    unlisted = _unlisted(keyed)
    room = max(config.max_table - int(unlisted.sum()), config.max_table // 2)
    found = ALGORITHMS[config.keys](problem, KeyConfig(aim, room), config.rng())
    owner = found.owner.copy()
    owner[keyed.rest] = keyed.owner[keyed.rest]  # light keys are not known one by one
    back = _moves_back(keyed, owner, left)
    owner[back] = keyed.owner[back]
    moved = owner != keyed.owner
    if not moved.any():
        reason = "cooldown" if back.any() else "infeasible" if verdicts else "gain_too_small"
        return KeyStep(reason, before=before, after=before, verdicts=verdicts)
    after = keyed.loads_of(owner)
    limit = (1 + aim) * mean
    gain = float(np.maximum(loads - limit, 0).sum() - np.maximum(after - limit, 0).sum())
    moved_bytes = float(keyed.state[moved].sum())
    price = config.move_seconds_per_mb * moved_bytes / 1e6
    if not forced and (gain < config.min_gain * mean_load or gain * config.payback < price):
        reason = "cooldown" if back.any() else "infeasible" if verdicts else "gain_too_small"
        return KeyStep(reason, before=before, after=before, verdicts=verdicts)
    table = _table(keyed, owner, unlisted, config.max_table)
    reached = float(after.max()) / mean if mean else 1.0
    return KeyStep("keys", table, before, reached, moved_bytes, verdicts)


def _reachable(keyed: Keyed, config: Balancing) -> tuple[float, int]:
    """Return the imbalance below which no table gets, and the key that is to blame.

    A key that is heavier than the bound stays with the light keys of the worker that has it; a
    second one on the same worker may go where the light keys are fewest.
    """
    mean = float(keyed.loads.mean())
    cost, rest = keyed.cost[keyed.heavy], keyed.cost[keyed.rest]
    heavy = np.flatnonzero(cost + rest.min() > (1 + config.aim) * mean)
    if mean <= 0 or not len(heavy):
        return 0.0, -1
    order = heavy[np.argsort(-cost[heavy], kind="stable")]
    owner = keyed.owner[order]
    beside = np.where(_first(owner), rest[owner], rest.min())
    total = cost[order] + beside
    worst = int(total.argmax())
    return float(total[worst]) / mean - 1, int(order[worst])


def _first(values: Workers) -> Bools:
    """Mark where each value stands for the first time."""
    first = np.zeros(len(values), dtype=np.bool_)
    first[np.unique(values, return_index=True)[1]] = True
    return first


def _verdicts(keyed: Keyed, floor: float, heaviest: int, config: Balancing) -> tuple[Verdict, ...]:
    if floor <= config.max_imbalance:
        return ()
    name, mean = keyed.key_name(heaviest), float(keyed.loads.mean())
    message = (
        f"key {name} of {keyed.name} needs {keyed.cost[heaviest] / mean:.3g} times the mean load "
        f"of a worker; no plan gets its worker below {1 + floor:.4g} times, the bound is "
        f"{1 + config.max_imbalance:.4g}: use fewer workers or a finer key"
    )
    return (Verdict("heavy_key", f"{keyed.name}: {name}", message, 1 + floor),)


def _state_to_spare(keyed: Keyed, left: dict[Item, set[int]]) -> Floats:
    """Return the states, larger for keys that moved lately: others should go first."""
    lately = [key for query, key in left if query == keyed.name and key is not None]
    if not lately:
        return keyed.state
    state = keyed.state.copy()
    moved = np.isin(keyed.hashes, np.array(lately, dtype=np.uint64))
    state[keyed.heavy][moved] *= RECENTLY_MOVED
    return state


def _moves_back(keyed: Keyed, owner: Workers, left: dict[Item, set[int]]) -> Bools:
    """Mark the keys that would return to a worker that they left a short while ago."""
    back = np.zeros(len(owner), dtype=np.bool_)
    if not left:
        return back
    active = keyed.plan.active
    for at in np.flatnonzero(owner != keyed.owner):
        gone = left.get((keyed.name, int(keyed.hashes[at])), ())
        back[at] = active[owner[at]] in gone
    return back


def _unlisted(keyed: Keyed) -> Bools:
    """Mark the entries of the table in force whose keys are not known one by one."""
    table = keyed.plan.tables[keyed.name]
    return ~np.isin(table.hashes, keyed.hashes)


def _table(keyed: Keyed, owner: Workers, unlisted: Bools, max_table: int) -> RoutingTable:
    """Return the table of the new owners; entries of light keys stay while there is room."""
    heavy = owner[keyed.heavy]
    away = np.flatnonzero(heavy != keyed.home[keyed.heavy])
    if len(away) > max_table:  # the least loads go home
        away = away[np.argsort(-keyed.cost[away], kind="stable")[:max_table]]
    active = np.array(keyed.plan.active, dtype=np.int32)
    table = keyed.plan.tables[keyed.name]
    kept = np.flatnonzero(unlisted)[: max(max_table - len(away), 0)]
    return RoutingTable.of(
        np.concatenate([keyed.hashes[away], table.hashes[kept]]),
        np.concatenate([active[heavy[away]], table.owners[kept]]),
    )
