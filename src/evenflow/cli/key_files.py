"""Input and output of `evenflow plan keys`: key statistics, routing tables, JSON."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.cli.output import verdicts_to_json
from evenflow.cli.table_files import (
    check_not_negative,
    key_column,
    number_column,
    read_table,
    worker_column,
)
from evenflow.errors import InputError
from evenflow.model import KeyLoads, RoutingTable, hash_keys
from evenflow.model.arrays import Hashes
from evenflow.planning.keys import KeyConfig, KeyPlan, load_over_share
from evenflow.planning.keys.balance_goal import TOLERANCE
from evenflow.planning.keys.metrics import moved_state


@dataclass(frozen=True, slots=True)
class KeyFile:
    """All keys with their loads; the first `stats_count` are those in STATS."""

    names: pa.Array
    loads: KeyLoads
    stats_count: int


def read_key_file(stats: Path, current: Path | None, workers: int) -> KeyFile:
    """Read STATS and the current routing table; keys that only the table has get no load."""
    table = read_table(stats, ("key", "cost", "state"))
    names = key_column(table["key"], stats)
    cost, state = (
        check_not_negative(number_column(table, column, stats), column, stats).to_numpy()
        for column in ("cost", "state")
    )
    hashes = hash_keys(names)
    _check_distinct_keys(names, hashes, stats)
    stats_count, routing_table = len(names), RoutingTable()
    if current is not None:
        routed, routed_hashes, routing_table = _read_routing_table(current, names.type, workers)
        idle = ~np.isin(routed_hashes, hashes)
        names = pa.concat_arrays([names, routed.filter(pa.array(idle))])
        hashes = np.concatenate((hashes, routed_hashes[idle]))
    no_load = np.zeros(len(names) - stats_count)
    loads = KeyLoads(
        np.concatenate((cost, no_load)),
        np.concatenate((state, no_load)),
        RoutingTable().route(hashes, workers),
        routing_table.route(hashes, workers),
        workers,
        names,
    )
    return KeyFile(names, loads, stats_count)


def _read_routing_table(
    path: Path, key_type: pa.DataType, workers: int
) -> tuple[pa.Array, Hashes, RoutingTable]:
    """Read a routing table: keys cast to the type of those in STATS, their hashes, the table."""
    table = read_table(path, ("key", "worker"), may_be_empty=True)
    keys = original = key_column(table["key"], path)
    if keys.type != key_type:
        with contextlib.suppress(pa.ArrowException):
            keys = original.cast(key_type)
        # A cast must not change keys: 007 is not 7.
        if keys.type != key_type or not keys.cast(original.type).equals(original):
            given = original.type
            raise InputError(f"{path}: keys are {given}, in STATS {key_type}; use the same type")
    hashes = hash_keys(keys)
    _check_distinct_keys(keys, hashes, path)
    return keys, hashes, RoutingTable.from_entries(hashes, worker_column(table, path, workers))


def _check_distinct_keys(names: pa.Array, hashes: Hashes, path: Path) -> None:
    order = np.argsort(hashes, kind="stable")
    duplicates = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
    if not len(duplicates):
        return
    first, second = sorted((int(order[duplicates[0]]), int(order[duplicates[0] + 1])))
    if names[first] == names[second] or not (names[first].is_valid or names[second].is_valid):
        rows = f"rows {first + 1} and {second + 1}"
        raise InputError(f"{path}: key {names[first]} appears in {rows}; keep one row")
    raise InputError(
        f"{path}: keys {names[first]} and {names[second]} have the same hash and always share a "
        "worker; replace them by one row with their sums"
    )


def key_plan_to_json(
    algorithm: str,
    key_file: KeyFile,
    config: KeyConfig,
    plan: KeyPlan,
    capacities: Sequence[float],
    seconds: float,
) -> dict[str, Any]:
    """Return the fields of `--json`."""
    keys = key_file.loads
    before = load_over_share(keys.worker_loads(), capacities)
    after = load_over_share(plan.loads, capacities)
    moved, total = moved_state(keys, plan.owner), float(keys.state.sum())
    return {
        "algorithm": algorithm,
        "workers": keys.workers,
        "keys": key_file.stats_count,
        "feasible": bool(after.max() <= (1 + config.max_imbalance) * (1 + TOLERANCE))
        and plan.table_size(keys) <= config.max_table,
        "imbalance_before": float(np.abs(before - 1).max()),
        "imbalance": float(np.abs(after - 1).max()),
        "max_over_mean": float(after.max()),
        "table_size": plan.table_size(keys),
        "moved_keys": int((plan.owner != keys.owner).sum()),
        "moved_state": moved,
        "moved_state_fraction": moved / total if total else 0.0,
        "plan_seconds": seconds,
        "loads": plan.loads.tolist(),
        "verdicts": verdicts_to_json(plan.verdicts),
    }


def _routing_table(key_file: KeyFile, plan: KeyPlan) -> pa.Table:
    """Return the keys that are not on their hash worker; a split key has a row for each owner."""
    away = plan.owner != key_file.loads.home
    away[list(plan.splits)] = True
    owners = [
        plan.splits.get(key, (int(plan.owner[key]),)) for key in np.flatnonzero(away).tolist()
    ]
    rows = np.repeat(np.flatnonzero(away), [len(each) for each in owners])
    workers = pa.array([worker for each in owners for worker in each], pa.int32())
    return pa.table({"key": key_file.names.take(pa.array(rows)), "worker": workers})


def key_plan_tables(
    key_file: KeyFile, plan: KeyPlan, table_out: Path | None, assignment_out: Path | None
) -> dict[Path, pa.Table]:
    """Return the output files and their rows."""
    keys, owner = key_file.loads, pa.array(plan.owner)
    tables = {}
    if table_out is not None:
        tables[table_out] = _routing_table(key_file, plan)
    if assignment_out is not None:
        tables[assignment_out] = pa.table(
            {"key": key_file.names, "before": pa.array(keys.owner), "after": owner}
        )
    return tables
