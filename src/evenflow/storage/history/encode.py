"""Encodes snapshots, decisions and outcomes as rows of the history."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, fields
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.model import Decision, HistoryKind, KeyStats, Outcome, Plan, Snapshot
from evenflow.model.arrays import Bools, Floats
from evenflow.model.snapshot import WORKER_FIELDS
from evenflow.storage.history.schema import SCHEMAS

TablesByKind = dict[str, pa.Table]


def encode_batch(
    snapshot: Snapshot, decisions: Sequence[Decision], outcomes: Sequence[Outcome]
) -> TablesByKind:
    """Return the rows of one batch, without empty tables."""
    # By identity: computing the fingerprint of a plan of thousands of queries takes a while.
    plans = {id(plan): plan for plan in _referenced_plans(snapshot, decisions)}
    names = {identity: plan_fingerprint(plan) for identity, plan in plans.items()}
    distinct = {names[identity]: plan for identity, plan in plans.items()}
    records = {
        HistoryKind.BATCHES: [_batch_record(snapshot, names)],
        HistoryKind.PLANS: [_plan_record(name, plan) for name, plan in distinct.items()],
        HistoryKind.DECISIONS: [_decision_record(decision, names) for decision in decisions],
        HistoryKind.OUTCOMES: [asdict(outcome) for outcome in outcomes],
    }
    tables: TablesByKind = {
        HistoryKind.STATISTICS: _statistics_table(snapshot),
        HistoryKind.KEYS: _keys_table(snapshot),
        HistoryKind.TRAFFIC: _traffic_table(snapshot),
    }
    for kind, rows in records.items():
        tables[kind] = pa.Table.from_pylist(rows, schema=SCHEMAS[kind])
    return {kind: table for kind, table in tables.items() if table.num_rows}


def plan_fingerprint(plan: Plan) -> str:
    """Return a hash of a plan's content.

    >>> plan_fingerprint(Plan(2, {"a": 0, "b": 1})) == plan_fingerprint(Plan(2, {"b": 1, "a": 0}))
    True
    """
    digest = hashlib.sha256(repr((plan.workers, sorted(plan.drained))).encode())
    digest.update(repr(sorted(plan.placement.items())).encode())
    for query, table in sorted(plan.tables.items()):
        digest.update(repr((query, len(table))).encode())
        digest.update(table.hashes.tobytes())
        digest.update(table.owners.tobytes())
        if table.splits:
            digest.update(repr([astuple(split) for split in table.splits]).encode())
    return digest.hexdigest()[:16]


def _referenced_plans(snapshot: Snapshot, decisions: Iterable[Decision]) -> list[Plan]:
    decided = (plan for decision in decisions for plan in (decision.plan, decision.target))
    return [snapshot.plan, snapshot.next_plan, *(plan for plan in decided if plan is not None)]


def _batch_record(snapshot: Snapshot, names: Mapping[int, str]) -> dict[str, Any]:
    return {
        "batch": snapshot.batch,
        "at": snapshot.at,
        "seconds": snapshot.interval_seconds,
        "plan": names[id(snapshot.plan)],
        "following": names[id(snapshot.next_plan)],
        "drain": sorted(snapshot.workers_to_drain),
        "worker_seconds": snapshot.worker_cpu_seconds.tolist(),
        "handed": [asdict(transfer) for transfer in snapshot.transfers],
    }


def _plan_record(name: str, plan: Plan) -> dict[str, Any]:
    return {
        "plan": name,
        "workers": plan.workers,
        "drained": sorted(plan.drained),
        "placement": _placement_records(dict(sorted(plan.placement.items()))),
        "tables": [
            {"query": query, "hashes": table.hashes, "owners": table.owners}
            for query, table in sorted(plan.tables.items())
        ],
        "splits": [
            {"query": query, **asdict(split)}
            for query, table in sorted(plan.tables.items())
            for split in table.splits
        ],
    }


def _placement_records(workers: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"query": query, "worker": worker} for query, worker in workers.items()]


def _decision_record(decision: Decision, names: Mapping[int, str]) -> dict[str, Any]:
    plan, target = decision.plan, decision.target
    return {field.name: getattr(decision, field.name) for field in fields(decision)} | {
        "before": asdict(decision.before),
        "predicted": None if decision.predicted is None else asdict(decision.predicted),
        "plan": None if plan is None else names[id(plan)],
        "target": None if target is None else names[id(target)],
        "moves": [asdict(move) for move in decision.moves],
        "arrived": _placement_records(decision.arrived),
        "verdicts": [asdict(verdict) for verdict in decision.verdicts],
    }


def _statistics_table(snapshot: Snapshot) -> pa.Table:
    queries = list(snapshot.queries.values())
    if not queries:
        return SCHEMAS[HistoryKind.STATISTICS].empty_table()
    numbers = {name: np.stack([getattr(q, name) for q in queries]) for name in WORKER_FIELDS}
    row, worker = np.nonzero(
        _entries_to_write(np.stack([values != 0 for values in numbers.values()]))
    )
    by_query = {
        "query": list(snapshot.queries),
        "streams": [query.streams for query in queries],
        "pinned": [query.pinned for query in queries],
        "keyable": [query.keyable for query in queries],
        "publishes": [query.publishes for query in queries],
        "split_streams": [query.split_streams for query in queries],
    }
    schema = SCHEMAS[HistoryKind.STATISTICS]
    columns = {name: pa.array(v, schema.field(name).type).take(row) for name, v in by_query.items()}
    columns |= {name: values[row, worker] for name, values in numbers.items()}
    columns |= {"batch": snapshot.batch, "worker": worker}
    return _table_from_columns(HistoryKind.STATISTICS, columns, len(row))


def _keys_table(snapshot: Snapshot) -> pa.Table:
    tables = [
        _query_keys_table(snapshot.batch, name, query.keys)
        for name, query in snapshot.queries.items()
        if query.keys is not None
    ]
    return pa.concat_tables([SCHEMAS[HistoryKind.KEYS].empty_table(), *tables])


def _query_keys_table(batch: int, query: str, keys: KeyStats) -> pa.Table:
    """Return a row for each heavy key, then one for the light keys of each worker."""
    heavy, workers = len(keys.hashes), len(keys.rest_keys)
    is_rest = np.arange(heavy + workers) >= heavy
    columns = {
        "batch": batch,
        "query": query,
        "worker": np.append(keys.owner, np.arange(workers)),
        "hash": pa.array(np.append(keys.hashes, np.zeros(workers, np.uint64)), mask=is_rest),
        "name": [*keys.names, *[None] * workers],
        "keys": np.append(np.ones(heavy, dtype=np.int64), keys.rest_keys),
        "cost": np.append(keys.cost, keys.rest_cost),
        "state_bytes": np.append(keys.state_bytes, keys.rest_state_bytes),
        "fixed": np.append(np.zeros(heavy), keys.rest_fixed_cost),
        "rows": pa.array(np.append(keys.rows, keys.rest_keys), mask=is_rest),
        "shared_cost": np.append(keys.shared_cost, np.zeros(workers)),
        "split_by": [*keys.split_by, *[None] * workers],
    }
    return _table_from_columns(HistoryKind.KEYS, columns, heavy + workers)


def _traffic_table(snapshot: Snapshot) -> pa.Table:
    if not snapshot.shipped_bytes:
        return SCHEMAS[HistoryKind.TRAFFIC].empty_table()
    sent: Floats = np.stack(list(snapshot.shipped_bytes.values()))
    row, worker = np.nonzero(_entries_to_write((sent != 0)[None]))
    columns = {
        "batch": snapshot.batch,
        "stream": pa.array(list(snapshot.shipped_bytes), pa.string()).take(row),
        "worker": worker,
        "bytes": sent[row, worker],
    }
    return _table_from_columns(HistoryKind.TRAFFIC, columns, len(row))


def _entries_to_write(nonzero: Bools) -> Bools:
    """Mark the (row, worker) entries with any value that is not zero; each row at least once."""
    marked: Bools = np.logical_or.reduce(nonzero)
    marked[~marked.any(axis=1), 0] = True
    return marked


def _table_from_columns(kind: HistoryKind, columns: Mapping[str, Any], length: int) -> pa.Table:
    """Build a table; a single value is repeated in all rows."""
    arrays = [
        pa.repeat(pa.scalar(values, field.type), length)
        if isinstance(values := columns[field.name], str | int)
        else pa.array(values, field.type)
        for field in SCHEMAS[kind]
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMAS[kind])
