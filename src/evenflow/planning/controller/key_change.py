"""What a plan of keys changes: the routing table, the loads, the state that moves, in words."""

from dataclasses import dataclass

import numpy as np

from evenflow.model import KeySplit, RoutingTable
from evenflow.model.arrays import Bools, Floats, Indices, Workers
from evenflow.planning.controller.build_decision import DecisionContext
from evenflow.planning.controller.key_estimate import KeyEstimate
from evenflow.planning.controller.predict import copied_bytes
from evenflow.planning.controller.window import RecentlyLeft
from evenflow.planning.keys import KeyPlan

Owners = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class KeyChange:
    """A change of the owners of keys.

    loads       load of each active worker afterwards
    held_back   marks keys that stay because they would return to a worker they left recently
    fits_table  whether the table keeps its bound
    notes       what happens to split keys, for people
    """

    table: RoutingTable
    loads: Floats
    moved_bytes: float
    any_moves: bool
    held_back: Bools
    fits_table: bool
    notes: tuple[str, ...]


def key_change(keys: KeyEstimate, plan: KeyPlan, context: DecisionContext) -> KeyChange:
    """Return what a plan changes; keys do not return to workers that they left recently.

    More owners of a split key are always allowed: it is split because nothing else helps.
    """
    left, max_table = context.recently_left, context.config.max_table
    owner, splits = plan.owner.copy(), dict(plan.splits)
    back = _moves_back(keys, owner, splits, left)
    owner[back] = keys.owner[back]
    fits = _trim_to_table_size(keys, owner, splits, left, max_table)
    problem = keys.key_loads()
    changed = {
        key: splits.get(key, (int(owner[key]),))
        for key in sorted(splits.keys() | keys.splits.keys())
        if splits.get(key, (int(owner[key]),)) != problem.owners_of(key)
    }
    whole = owner != keys.owner
    whole[list(splits.keys() | keys.splits.keys())] = False
    copied = (
        copied_bytes(float(keys.state_bytes[key]), problem.owners_of(key), owners)
        for key, owners in changed.items()
    )
    return KeyChange(
        table=_build_table(keys, owner, splits, max_table),
        loads=problem.worker_loads(owner, splits),
        moved_bytes=float(keys.state_bytes[whole].sum()) + sum(copied),
        any_moves=bool(whole.any()) or bool(changed),
        held_back=back,
        fits_table=fits,
        notes=tuple(_describe_split(keys, key, owners) for key, owners in changed.items()),
    )


def light_table_entries(keys: KeyEstimate) -> Indices:
    """Return the entries of the current table that are light keys."""
    return np.flatnonzero(~np.isin(keys.plan.tables[keys.query].hashes, keys.hashes))


def _describe_split(keys: KeyEstimate, key: int, owners: Owners) -> str:
    """Return the share of a key and its new workers.

    For example: key 17 is 38 % of pairs; split over 3 workers: 1, 4, 6
    """
    workers = ", ".join(str(keys.plan.active[owner]) for owner in owners)
    where = f"split over {len(owners)} workers: {workers}" if len(owners) > 1 else (
        f"no longer split, on worker {workers}"
    )  # fmt: skip
    share = 100 * keys.cost_share(key)
    return f"key {keys.display_name(key)} is {share:.0f} % of {keys.query}; {where}"


def _moves_back(
    keys: KeyEstimate, owner: Workers, splits: dict[int, Owners], left: RecentlyLeft
) -> Bools:
    """Mark the whole keys that would return to a worker that they left recently."""
    back = np.zeros(len(owner), dtype=np.bool_)
    for key in np.flatnonzero(owner != keys.owner) if left else ():
        if key not in splits and key not in keys.splits:
            back[key] = _left_recently(keys, int(key), int(owner[key]), left)
    return back


def _left_recently(keys: KeyEstimate, key: int, worker: int, left: RecentlyLeft) -> bool:
    return keys.plan.active[worker] in left.get((keys.query, int(keys.hashes[key])), ())


def _trim_to_table_size(
    keys: KeyEstimate,
    owner: Workers,
    splits: dict[int, Owners],
    left: RecentlyLeft,
    max_table: int,
) -> bool:
    """Send the lightest keys home until the table fits; return whether it fits then."""
    away = np.flatnonzero(owner[keys.heavy] != keys.home[keys.heavy])
    away = np.setdiff1d(away, list(splits))
    excess = len(away) + len(splits) + len(_unlisted_splits(keys)) - max_table
    for key in away[np.argsort(keys.cost[away], kind="stable")] if excess > 0 else ():
        if excess > 0 and not _left_recently(keys, int(key), int(keys.home[key]), left):
            owner[key] = keys.home[key]
            excess -= 1
    return excess <= 0


def _unlisted_splits(keys: KeyEstimate) -> list[KeySplit]:
    """Return the split keys of the current table that had no rows; they stay as they are."""
    splits = keys.plan.tables[keys.query].splits
    known = set(keys.hashes.tolist())
    return [split for split in splits if split.key_hash not in known]


def _build_table(
    keys: KeyEstimate, owner: Workers, splits: dict[int, Owners], max_table: int
) -> RoutingTable:
    """Return the table of the new owners; entries of light keys stay while there is room."""
    heavy = owner[keys.heavy]
    away = np.flatnonzero(heavy != keys.home[keys.heavy])
    away = np.setdiff1d(away, list(splits))
    active = np.array(keys.plan.active, dtype=np.int32)
    table = keys.plan.tables[keys.query]
    shared = [*_unlisted_splits(keys)]
    for key, owners in splits.items():
        present = table.split_of(int(keys.hashes[key]))
        by = keys.split_by[key] if present is None else present.fragmented
        workers = tuple(keys.plan.active[worker] for worker in owners)
        shared.append(KeySplit(int(keys.hashes[key]), workers, by))
    light = light_table_entries(keys)[: max(max_table - len(away) - len(shared), 0)]
    return RoutingTable.from_entries(
        np.concatenate([keys.hashes[away], table.hashes[light]]),
        np.concatenate([active[heavy[away]], table.owners[light]]),
        shared,
    )
