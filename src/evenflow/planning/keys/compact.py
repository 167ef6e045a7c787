"""Mixed over the compact representation (mixed-key-routing, section IV-A).

Keys with the same worker, home, (discretised) cost and state are one record (d', d, d_h, v_c, v_S,
#): new worker, current worker, hash worker, cost, state, and number of keys. Mixed runs on the
records, of which some keys may go and others stay; at the end each part is filled with keys of its
record, those first that Mixed would take first by their true cost and state.

Departures
- Costs and states are discretised for each worker separately, so that worker loads are preserved.
- The discretisation error left after the expansion can break the bound by a little. A fiftieth of
  the tolerance is reserved for it; if that is not enough, LLFD on the true costs repairs it, and if
  that takes too many table entries, Mixed on the keys themselves.
"""

from dataclasses import dataclass, replace

import numpy as np

from evenflow.jit import kernel
from evenflow.model import KeyLoads
from evenflow.model.arrays import Bools, Floats, Indices, Rng, Workers
from evenflow.planning.keys.balance_goal import BalanceGoal, plan_owners
from evenflow.planning.keys.discretise import discretise
from evenflow.planning.keys.llfd import llfd_records
from evenflow.planning.keys.mixed import migration_priority, mixed_owners, relieve_overload
from evenflow.planning.keys.problem import KeyConfig, KeyPlan

DEGREE = 8
MARGIN = 0.98  # part of the tolerance that is used; the rest is left to the error


@dataclass(frozen=True, slots=True, eq=False)
class KeyRecords:
    """Groups of equal keys: d, d_h, v_c, v_S and #; `origin` is the record before a split."""

    owner: Workers
    home: Workers
    cost: Floats
    state: Floats
    fixed: Bools
    count: Workers
    origin: Indices


def compact(keys: KeyLoads, config: KeyConfig, rng: Rng) -> KeyPlan:
    """Run Mixed on records of equal keys instead of keys."""
    return compact_with_degree(keys, config, DEGREE)


def compact_with_degree(keys: KeyLoads, config: KeyConfig, degree: int) -> KeyPlan:
    """Do so with discretisation to a given degree R."""
    return plan_owners(
        keys, config, lambda goal: _compact_owners(keys, config, goal, degree), only_if_needed=True
    )


def _compact_owners(keys: KeyLoads, config: KeyConfig, goal: BalanceGoal, degree: int) -> Workers:
    records, record_of = group_keys(keys, goal, degree)
    limit = goal.mean_load + MARGIN * (goal.max_load - goal.mean_load)
    parts = mixed_records(records, config, keys.workers, limit)
    owner = expand_records(keys, records, record_of, parts, config)
    if not goal.is_met(keys.worker_loads(owner)):
        psi = migration_priority(keys.cost, keys.state, config.beta)
        owner = relieve_overload(keys, owner, psi, goal)
        if int(np.count_nonzero(owner != keys.home)) > config.max_table:
            owner = mixed_owners(keys, config, goal)
    return owner


def group_keys(keys: KeyLoads, goal: BalanceGoal, degree: int) -> tuple[KeyRecords, Workers]:
    """Return the records of a snapshot and the record of every key."""
    cost = discretise(keys.cost, degree, keys.owner)
    state = discretise(keys.state, degree, keys.owner)
    place = (keys.owner.astype(np.int64) * keys.workers + keys.home) * 2 + goal.fixed_keys
    record_of, first = _number_rows(place, cost.view(np.int64), state.view(np.int64))
    records = KeyRecords(
        owner=keys.owner[first],
        home=keys.home[first],
        cost=cost[first],
        state=state[first],
        fixed=goal.fixed_keys[first],
        count=np.bincount(record_of, minlength=len(first)).astype(np.int32),
        origin=np.arange(len(first)),
    )
    return records, record_of


def mixed_records(
    records: KeyRecords, config: KeyConfig, workers: int, limit: float
) -> tuple[Indices, Workers]:
    """Return Mixed's parts: for each key that is put down, its record and its worker."""
    table_records = np.flatnonzero((records.owner != records.home) & ~records.fixed)
    table_records = table_records[np.argsort(records.state[table_records], kind="stable")]
    movable = int(records.count[table_records].sum())
    entries = int(records.count[records.owner != records.home].sum())
    sent_home = 0
    while True:
        split = _send_home(records, table_records, sent_home)
        psi = migration_priority(split.cost, split.state, config.beta)
        stays = split.fixed | (split.cost == 0)
        moved, targets = llfd_records(
            split.cost, psi, split.owner, split.count, stays, workers, limit
        )
        left = int(np.count_nonzero(split.owner[moved] != split.home[moved]))
        added = int(np.count_nonzero(targets != split.home[moved]))
        excess = entries - sent_home - left + added - config.max_table
        if excess <= 0 or sent_home == movable:
            break
        sent_home = min(sent_home + excess, movable)
    sent = split.owner != records.owner[split.origin]  # sent home by Phase I, and still there
    stay = np.where(sent, split.count - np.bincount(moved, minlength=len(sent)), 0)
    return (
        np.concatenate((split.origin[moved], np.repeat(split.origin, stay))),
        np.concatenate((targets, np.repeat(split.home, stay))),
    )


def _send_home(records: KeyRecords, table_records: Indices, count: int) -> KeyRecords:
    """Split off the first `count` keys of the given records and put them at home (Phase I)."""
    number = records.count[table_records]
    taken = np.clip(count - (np.cumsum(number) - number), 0, number).astype(np.int32)
    parts, staying = table_records[taken > 0], records.count.copy()
    staying[table_records] -= taken
    stays = np.flatnonzero(staying)
    rows = np.concatenate((stays, parts))
    return replace(
        records,
        owner=np.concatenate((records.owner[stays], records.home[parts])),
        home=records.home[rows],
        cost=records.cost[rows],
        state=records.state[rows],
        fixed=records.fixed[rows],
        count=np.concatenate((staying[stays], taken[taken > 0])),
        origin=records.origin[rows],
    )


def expand_records(
    keys: KeyLoads,
    records: KeyRecords,
    record_of: Workers,
    parts: tuple[Indices, Workers],
    config: KeyConfig,
) -> Workers:
    """Turn parts of records into keys: those first that come first in the true order psi."""
    moved, targets = parts
    leaves = targets != records.owner[moved]
    moved, targets = moved[leaves], targets[leaves]
    affected = np.zeros(len(records.count), dtype=np.bool_)
    affected[moved] = True
    movable = np.flatnonzero(affected[record_of])
    psi = migration_priority(keys.cost[movable], keys.state[movable], config.beta)
    movable = movable[np.lexsort((movable, -psi, record_of[movable]))]
    starts = np.searchsorted(record_of[movable], moved)
    order = np.argsort(moved, kind="stable")
    ranks = np.empty(len(moved), dtype=np.int64)
    ranks[order] = np.arange(len(moved)) - np.searchsorted(moved[order], moved[order])
    owner = keys.owner.copy()
    owner[movable[starts + ranks]] = targets
    return owner


@kernel
def _number_rows(place: Indices, cost: Indices, state: Indices) -> tuple[Workers, Indices]:
    """Number the distinct rows by first appearance: an open hash table that grows as needed."""
    record_of = np.empty(len(place), dtype=np.int32)
    first = np.empty(1 << 12, dtype=np.int64)
    rows = np.empty((1 << 12, 3), dtype=np.int64)  # of the records, side by side for the cache
    slots = np.full(1 << 14, -1, dtype=np.int32)
    count = 0
    for key in range(len(place)):
        if count == len(first):
            first = np.concatenate((first, np.empty_like(first)))
            rows = np.concatenate((rows, np.empty_like(rows)))
            slots = np.full(2 * len(slots), -1, dtype=np.int32)
            for record in range(count):
                row = rows[record]
                slots[_find_hash_entry(row[0], row[1], row[2], rows, slots)] = record
        at = _find_hash_entry(place[key], cost[key], state[key], rows, slots)
        if slots[at] < 0:
            slots[at] = count
            first[count] = key
            rows[count, 0], rows[count, 1], rows[count, 2] = place[key], cost[key], state[key]
            count += 1
        record_of[key] = slots[at]
    return record_of, first[:count].copy()


@kernel
def _find_hash_entry(place: int, cost: int, state: int, rows: Indices, slots: Workers) -> int:
    """Return where a row is in the hash table, or the empty slot for it."""
    last = len(slots) - 1  # one less than a power of two
    mixed = np.uint64(cost) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(state)
    mixed = (mixed * np.uint64(0xC2B2AE3D27D4EB4F)) ^ np.uint64(place)
    mixed = mixed * np.uint64(0x9E3779B97F4A7C15)
    at = int(mixed >> np.uint64(40)) & last
    while slots[at] >= 0:
        record = slots[at]
        if rows[record, 0] == place and rows[record, 1] == cost and rows[record, 2] == state:
            break
        at = (at + 1) & last
    return at
