"""From snapshots, decisions and outcomes to rows."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.model import Decision, KeyStats, Outcome, Plan, Snapshot
from evenflow.model.arrays import Bools, Floats
from evenflow.storage.history.schema import SCHEMAS

_WORKER_COLUMNS = ("rows_in", "rows_out", "cpu_seconds", "load", "state_bytes")

TablesByKind = dict[str, pa.Table]


def encode_batch(
    snapshot: Snapshot, decisions: Sequence[Decision], outcomes: Sequence[Outcome]
) -> TablesByKind:
    """Return the rows of one batch, of each kind that has any."""
    # By identity: a plan of thousands of queries takes a while to be named.
    found = {id(plan): plan for plan in _referenced_plans(snapshot, decisions)}
    names = {at: plan_fingerprint(plan) for at, plan in found.items()}
    plans = {names[at]: plan for at, plan in found.items()}
    made = {
        "batches": _table_from_records("batches", [_batch_record(snapshot, names)]),
        "statistics": _statistics_table(snapshot),
        "keys": _keys_table(snapshot),
        "traffic": _traffic_table(snapshot),
        "plans": _table_from_records(
            "plans", [_plan_record(name, plan) for name, plan in plans.items()]
        ),
        "decisions": _table_from_records(
            "decisions", [_decision_record(one, names) for one in decisions]
        ),
        "outcomes": _table_from_records("outcomes", [asdict(one) for one in outcomes]),
    }
    return {kind: table for kind, table in made.items() if table.num_rows}


def plan_fingerprint(plan: Plan) -> str:
    """Name a plan by its content.

    >>> plan_fingerprint(Plan(2, {"a": 0, "b": 1})) == plan_fingerprint(Plan(2, {"b": 1, "a": 0}))
    True
    """
    digest = hashlib.sha256(repr((plan.workers, sorted(plan.drained))).encode())
    digest.update(repr(sorted(plan.placement.items())).encode())
    for query, table in sorted(plan.tables.items()):
        digest.update(repr((query, len(table))).encode())
        digest.update(table.hashes.tobytes())
        digest.update(table.owners.tobytes())
    return digest.hexdigest()[:16]


def _referenced_plans(snapshot: Snapshot, decisions: Iterable[Decision]) -> list[Plan]:
    found = [snapshot.plan, snapshot.next_plan]
    found += [plan for one in decisions for plan in (one.plan, one.target) if plan is not None]
    return found


def _table_from_records(kind: str, records: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(records, schema=SCHEMAS[kind])


def _batch_record(snapshot: Snapshot, names: Mapping[int, str]) -> dict[str, Any]:
    return {
        "batch": snapshot.batch,
        "at": snapshot.at,
        "seconds": snapshot.interval_seconds,
        "plan": names[id(snapshot.plan)],
        "following": names[id(snapshot.next_plan)],
        "drain": sorted(snapshot.workers_to_drain),
        "worker_seconds": snapshot.worker_cpu_seconds.tolist(),
        "handed": [asdict(state) for state in snapshot.transfers],
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
    }


def _placement_records(workers: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"query": query, "worker": worker} for query, worker in workers.items()]


def _decision_record(decision: Decision, names: Mapping[int, str]) -> dict[str, Any]:
    plan, target = decision.plan, decision.target
    return {
        "batch": decision.batch,
        "at": decision.at,
        "trigger": decision.trigger,
        "reason": decision.reason,
        "message": decision.message,
        "before": asdict(decision.before),
        "predicted": None if decision.predicted is None else asdict(decision.predicted),
        "plan": None if plan is None else names[id(plan)],
        "target": None if target is None else names[id(target)],
        "moves": [asdict(move) for move in decision.moves],
        "moved_bytes": decision.moved_bytes,
        "arrived": _placement_records(decision.arrived),
        "verdicts": [asdict(verdict) for verdict in decision.verdicts],
    }


def _statistics_table(snapshot: Snapshot) -> pa.Table:
    queries = list(snapshot.queries.values())
    if not queries:
        return SCHEMAS["statistics"].empty_table()
    numbers = {name: np.stack([getattr(q, name) for q in queries]) for name in _WORKER_COLUMNS}
    at, worker = np.nonzero(
        _entries_to_write(np.stack([values != 0 for values in numbers.values()]))
    )
    each = {
        "query": list(snapshot.queries),
        "streams": [q.streams for q in queries],
        "pinned": [q.pinned for q in queries],
        "keyable": [q.keyable for q in queries],
        "publishes": [q.publishes for q in queries],
    }
    schema = SCHEMAS["statistics"]
    columns = {name: pa.array(v, schema.field(name).type).take(at) for name, v in each.items()}
    columns |= {name: values[at, worker] for name, values in numbers.items()}
    return _table_from_columns(
        "statistics", {"batch": snapshot.batch, "worker": worker, **columns}, len(at)
    )


def _keys_table(snapshot: Snapshot) -> pa.Table:
    tables = [
        _query_keys_table(snapshot.batch, name, query.keys)
        for name, query in snapshot.queries.items()
        if query.keys is not None
    ]
    return pa.concat_tables([SCHEMAS["keys"].empty_table(), *tables])


def _query_keys_table(batch: int, query: str, keys: KeyStats) -> pa.Table:
    """Return a row for each heavy key, then one for the rest of each worker."""
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
    }
    return _table_from_columns("keys", columns, heavy + workers)


def _traffic_table(snapshot: Snapshot) -> pa.Table:
    if not snapshot.shipped_bytes:
        return SCHEMAS["traffic"].empty_table()
    sent: Floats = np.stack(list(snapshot.shipped_bytes.values()))
    at, worker = np.nonzero(_entries_to_write((sent != 0)[None]))
    names = pa.array(list(snapshot.shipped_bytes), pa.string()).take(at)
    columns = {"batch": snapshot.batch, "stream": names, "worker": worker}
    return _table_from_columns("traffic", {**columns, "bytes": sent[at, worker]}, len(at))


def _entries_to_write(nonzero: Bools) -> Bools:
    """Tell which (row, worker) to write, given what is not zero: each row at least once."""
    told: Bools = np.logical_or.reduce(nonzero)
    told[~told.any(axis=1), 0] = True
    return told


def _table_from_columns(kind: str, columns: Mapping[str, Any], length: int) -> pa.Table:
    """Make a table; a single value stands for a column of it."""
    schema, arrays = SCHEMAS[kind], []
    for field in schema:
        values = columns[field.name]
        if isinstance(values, str | int):
            arrays.append(pa.repeat(pa.scalar(values, field.type), length))
        else:
            arrays.append(pa.array(values, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)
