"""Observe a batch: turn the reports of its workers into a snapshot for the controller. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from evenflow.model import KeyStats, Plan, QueryLoad, Snapshot, Transfer
from evenflow.model.arrays import Bools, Floats, Indices
from evenflow.spark.driver.completed_batch import CompletedBatch
from evenflow.spark.driver.cost_model import CostModel
from evenflow.spark.driver.price_keys import key_stats
from evenflow.spark.protocol.registry import Hosted
from evenflow.spark.protocol.report import Report


@dataclass(frozen=True, slots=True, eq=False)
class ObserverState:
    """What is carried from batch to batch.

    cost_model   CPU seconds per row, fitted for each query
    state_bytes  query uid -> bytes on each worker when it was last stepped there
    key_stats    query uid -> its keys in the previous batch, to name keys that have no rows
    """

    cost_model: CostModel = field(default_factory=CostModel)
    state_bytes: Mapping[str, Floats] = field(default_factory=dict)
    key_stats: Mapping[str, KeyStats] = field(default_factory=dict)


def observe(batch: CompletedBatch, state: ObserverState) -> tuple[Snapshot, ObserverState]:
    """Return the snapshot of a batch, and the state for the next one."""
    hosted = sorted(batch.registry.queries.values(), key=_submission_order)
    uids = tuple(query.uid for query in hosted)
    stats = _stats_arrays(uids, batch.reports, batch.plan.workers)
    fits = _cost_model_ids(hosted, batch.plan, batch.combined)
    cost_model = state.cost_model.for_queries(fits).update(
        stats.work_rows.astype(np.float64), stats.produced, stats.cpu_seconds, stats.stepped
    )
    weights = cost_model.weights()
    load = (
        weights[:, 0, None] * stats.stepped
        + weights[:, 1, None] * stats.work_rows
        + weights[:, 2, None] * stats.produced
    )
    state_bytes = _state_bytes(hosted, stats, batch.plan, state)
    for array in (stats.rows_in, stats.rows_out, stats.cpu_seconds, load, state_bytes):
        array.flags.writeable = False  # or every row of it would be copied
    queries, known_keys = {}, {u: k for u, k in state.key_stats.items() if u in uids}
    for row, query in enumerate(hosted):
        uid = query.uid
        counts = {r.worker: r.key_counts[uid] for r in batch.reports if uid in r.key_counts}
        keys = None
        if counts:
            splits = batch.plan.tables[query.name].splits
            known = known_keys.get(uid)
            keys = key_stats(query, splits, counts, weights[row], state_bytes[row], known)
            known_keys[uid] = keys
        queries[query.name] = QueryLoad(
            streams=query.streams,
            rows_in=stats.rows_in[row],
            rows_out=stats.rows_out[row],
            cpu_seconds=stats.cpu_seconds[row],
            load=load[row],
            state_bytes=state_bytes[row],
            keys=keys,
            pinned=query.pinned,
            keyable=query.name in batch.next_plan.placement and query.promotable,
            publishes=query.publish,
            # Rows that the router combines are few, and go to the key's home.
            split_streams=() if uid in batch.combined else query.split_streams,
        )
    next_state = ObserverState(cost_model, dict(zip(uids, state_bytes, strict=True)), known_keys)
    return _snapshot(batch, queries), next_state


def _cost_model_ids(hosted: list[Hosted], plan: Plan, combined: frozenset[str]) -> tuple[str, ...]:
    """Name the fits; one restarts if its rows or `produced` begin to mean something else."""
    return tuple(
        q.uid + ":keyed" * (q.name in plan.tables) + ":combined" * (q.uid in combined)
        for q in hosted
    )


@dataclass(frozen=True, slots=True, eq=False)
class _StatsArrays:
    """Statistics as arrays of (query, worker)."""

    stepped: Bools
    rows_in: Indices
    work_rows: Indices
    rows_out: Indices
    produced: Floats
    cpu_seconds: Floats
    state_bytes: Floats


def _stats_arrays(uids: tuple[str, ...], reports: tuple[Report, ...], workers: int) -> _StatsArrays:
    shape, row = (len(uids), workers), {uid: at for at, uid in enumerate(uids)}
    rows_in, work_rows, rows_out = np.zeros((3, *shape), dtype=np.int64)
    produced, seconds, state = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    stepped = np.zeros(shape, dtype=np.bool_)
    for report in reports:
        for uid, stats in report.query_stats.items():
            if uid in row:
                at = row[uid], report.worker
                stepped[at] = True
                rows_in[at], work_rows[at], rows_out[at] = (
                    stats.rows_in, stats.work_rows, stats.rows_out,
                )  # fmt: skip
                produced[at], seconds[at] = stats.produced, stats.cpu_seconds
                state[at] = stats.state_bytes
    return _StatsArrays(stepped, rows_in, work_rows, rows_out, produced, seconds, state)


def _state_bytes(
    hosted: list[Hosted], stats: _StatsArrays, plan: Plan, observed: ObserverState
) -> Floats:
    """Return the bytes of each query on each worker; without a step, those of the last one."""
    state = stats.state_bytes.copy()
    for row, query in enumerate(hosted):
        before = observed.state_bytes.get(query.uid)
        if before is None or stats.stepped[row].all():
            continue
        worker = plan.placement.get(query.name)
        if worker is None:
            state[row] = np.where(stats.stepped[row], state[row], before)
            state[row, list(plan.drained)] = 0.0  # moved before the plan was in force
        elif not stats.stepped[row, worker]:
            state[row, worker] = before.sum()  # it may have moved, with all its state
    return state


def _snapshot(batch: CompletedBatch, queries: Mapping[str, QueryLoad]) -> Snapshot:
    workers, by_uid = batch.plan.workers, batch.registry.by_uid
    shipped: dict[str, Floats] = {}
    seconds, transfers = np.zeros(workers), []
    for report in batch.reports:
        transfers += [
            Transfer(by_uid[sent.uid].name, report.worker, sent.worker, sent.state.length)
            for sent in report.handoffs
            if sent.uid in by_uid
        ]
        seconds[report.worker] = report.cpu_seconds
        for stream, size in report.shipped_bytes.items():
            shipped.setdefault(stream, np.zeros(workers))[report.worker] = size
    return Snapshot(
        batch=batch.number,
        at=batch.at,
        interval_seconds=batch.seconds,
        plan=batch.plan,
        next_plan=batch.next_plan,
        workers_to_drain=batch.drain,
        queries=queries,
        shipped_bytes=dict(sorted(shipped.items())),
        worker_cpu_seconds=seconds,
        transfers=tuple(transfers),
    )


def _submission_order(query: Hosted) -> tuple[int, str]:
    """Order queries by submission: the uid holds the registry version that first had them."""
    return int(query.uid.rpartition("@")[2]), query.name
