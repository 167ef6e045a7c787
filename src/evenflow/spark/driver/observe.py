"""From the reports of a batch to a snapshot: all that the controller is told. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model import KeyStats, Plan, QueryLoad, Snapshot, Transfer
from evenflow.model.arrays import Bools, Floats, Hashes, Indices
from evenflow.spark.driver.completed_batch import CompletedBatch
from evenflow.spark.driver.cost_model import CostModel
from evenflow.spark.protocol.registry import Hosted
from evenflow.spark.protocol.report import Report
from evenflow.spark.worker.key_counts import KeyCounts


@dataclass(frozen=True, slots=True, eq=False)
class ObserverState:
    """What is carried from batch to batch.

    cost_model  what rows cost
    state_bytes  query uid -> bytes on each worker when it was last stepped there
    key_stats  query uid -> its keys in the batch before, for names of keys that had no rows
    """

    cost_model: CostModel = field(default_factory=CostModel)
    state_bytes: Mapping[str, Floats] = field(default_factory=dict)
    key_stats: Mapping[str, KeyStats] = field(default_factory=dict)


def observe(done: CompletedBatch, memory: ObserverState) -> tuple[Snapshot, ObserverState]:
    """Return a batch's snapshot, and what to remember for the next one."""
    hosted = sorted(done.registry.queries.values(), key=_submission_order)
    uids = tuple(query.uid for query in hosted)
    table = _stats_arrays(uids, done.reports, done.plan.workers)
    fits = memory.cost_model.for_queries(_cost_model_ids(hosted, done.plan)).update(
        table.rows_in.astype(np.float64), table.produced, table.cpu_seconds, table.stepped
    )
    weights = fits.weights()
    load = (
        weights[:, 0, None] * table.stepped
        + weights[:, 1, None] * table.rows_in
        + weights[:, 2, None] * table.produced
    )
    state = _state_bytes(hosted, table, done.plan, memory)
    for array in (table.rows_in, table.rows_out, table.cpu_seconds, load, state):
        array.flags.writeable = False  # rows of one table, so that nothing is copied
    queries, keys = {}, {}
    for at, query in enumerate(hosted):
        counts = {
            r.worker: r.key_counts[query.uid] for r in done.reports if query.uid in r.key_counts
        }
        found = None
        if counts:
            before = memory.key_stats.get(query.uid)
            found = keys[query.uid] = key_stats(counts, weights[at], state[at], before)
        queries[query.name] = QueryLoad(
            query.streams,
            table.rows_in[at],
            table.rows_out[at],
            table.cpu_seconds[at],
            load[at],
            state[at],
            found,
            query.pin is not None,
            query.name in done.next_plan.placement and query.promotable,
            query.publish,
        )
    remembered = ObserverState(
        fits,
        {uid: state[at] for at, uid in enumerate(uids)},
        {**_retained_key_stats(memory, uids), **keys},
    )
    return _snapshot(done, queries), remembered


def key_stats(
    counts: Mapping[int, KeyCounts], weights: Floats, state: Floats, before: KeyStats | None
) -> KeyStats:
    """Put the keys of all workers together and price them; what is fixed counts as the rest's."""
    fixed, per_row_in, per_row_made = weights.tolist()
    hashes = np.concatenate([c.hashes for c in counts.values()])
    owner = np.repeat(list(counts), [len(c.hashes) for c in counts.values()])
    rows_in = np.concatenate([c.rows_in for c in counts.values()])
    made = np.concatenate([c.produced for c in counts.values()])
    key_state = np.concatenate([c.state_bytes for c in counts.values()])
    names = pa.concat_arrays([c.names for c in counts.values()])
    rest_keys = np.zeros(len(state), dtype=np.int64)
    rest_cost, rest_fixed = np.zeros(len(state)), np.zeros(len(state))
    rest_state = state.copy()  # on workers that had nothing to do, all of it
    for slot, c in counts.items():
        rest_keys[slot], rest_state[slot] = c.rest_keys, c.rest_state_bytes
        rest_fixed[slot] = fixed
        rest_cost[slot] = fixed + per_row_in * c.rest_rows_in + per_row_made * c.rest_produced
    order = np.argsort(hashes)
    return KeyStats(
        hashes[order],
        owner[order],
        (per_row_in * rows_in + per_row_made * made)[order],
        key_state[order],
        _key_names(hashes[order], names.take(pa.array(order)), before),
        rest_keys,
        rest_cost,
        rest_state,
        rest_fixed,
        rows_in[order],
    )


def _cost_model_ids(hosted: list[Hosted], plan: Plan) -> tuple[str, ...]:
    """Name the fits: one that becomes keyed counts what it makes by key, and is fitted anew."""
    return tuple(f"{q.uid}:keyed" if q.name in plan.tables else q.uid for q in hosted)


def _key_names(hashes: Hashes, texts: pa.Array, before: KeyStats | None) -> tuple[str, ...]:
    """Name keys that had no rows as they were named before, else by their hash."""
    names = texts.to_pylist()
    for at in np.flatnonzero(pc.equal(texts, "")).tolist():
        place = 0 if before is None else int(np.searchsorted(before.hashes, hashes[at]))
        known = before is not None and place < len(before.hashes)
        if before is not None and known and before.hashes[place] == hashes[at]:
            names[at] = before.names[place]
        else:
            names[at] = f"#{int(hashes[at]):016x}"
    return tuple(names)


@dataclass(frozen=True, slots=True, eq=False)
class _StatsArrays:
    """Statistics as arrays of (query, worker)."""

    stepped: Bools
    rows_in: Indices
    rows_out: Indices
    produced: Floats
    cpu_seconds: Floats
    state_bytes: Floats


def _stats_arrays(uids: tuple[str, ...], reports: tuple[Report, ...], workers: int) -> _StatsArrays:
    shape, row = (len(uids), workers), {uid: at for at, uid in enumerate(uids)}
    rows_in, rows_out = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    made, seconds, state = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    stepped = np.zeros(shape, dtype=np.bool_)
    for report in reports:
        for uid, stats in report.query_stats.items():
            if uid in row:
                at = row[uid], report.worker
                stepped[at] = True
                rows_in[at], rows_out[at] = stats.rows_in, stats.rows_out
                made[at], seconds[at] = stats.produced, stats.cpu_seconds
                state[at] = stats.state_bytes
    return _StatsArrays(stepped, rows_in, rows_out, made, seconds, state)


def _state_bytes(
    hosted: list[Hosted], table: _StatsArrays, plan: Plan, memory: ObserverState
) -> Floats:
    """Return the bytes of each query on each worker; one that was not stepped has what it had."""
    state = table.state_bytes.copy()
    for at, query in enumerate(hosted):
        before = memory.state_bytes.get(query.uid)
        if before is None or table.stepped[at].all():
            continue
        worker = plan.placement.get(query.name)
        if worker is None:
            state[at] = np.where(table.stepped[at], state[at], before)
            state[at, list(plan.drained)] = 0.0  # it was handed over before the plan held
        elif not table.stepped[at, worker]:
            state[at, worker] = before.sum()  # it may have moved, with all it has
    return state


def _retained_key_stats(memory: ObserverState, uids: tuple[str, ...]) -> dict[str, KeyStats]:
    hosted = set(uids)
    return {uid: found for uid, found in memory.key_stats.items() if uid in hosted}


def _snapshot(done: CompletedBatch, queries: Mapping[str, QueryLoad]) -> Snapshot:
    shipped: dict[str, Floats] = {}
    names = {query.uid: query.name for query in done.registry.queries.values()}
    seconds, handed = np.zeros(done.plan.workers), []
    for report in done.reports:
        handed += [
            Transfer(names[handoff.uid], report.worker, handoff.worker, handoff.state.length)
            for handoff in report.handoffs
            if handoff.uid in names
        ]
        seconds[report.worker] = report.cpu_seconds
        for stream, size in report.shipped_bytes.items():
            shipped.setdefault(stream, np.zeros(done.plan.workers))[report.worker] = size
    return Snapshot(
        batch=done.number,
        at=done.at,
        interval_seconds=done.seconds,
        plan=done.plan,
        next_plan=done.next_plan,
        workers_to_drain=done.drain,
        queries=queries,
        shipped_bytes=dict(sorted(shipped.items())),
        worker_cpu_seconds=seconds,
        transfers=tuple(handed),
    )


def _submission_order(query: Hosted) -> tuple[int, str]:
    """Order queries by when they were submitted: the version that first had them is in the uid."""
    return int(query.uid.rpartition("@")[2]), query.name
