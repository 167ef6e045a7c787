"""From the reports of a batch to a snapshot: all that the controller is told. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model import KeyStats, Plan, QueryLoad, Snapshot, Transfer
from evenflow.model.arrays import Bools, Floats, Hashes, Indices
from evenflow.spark.batch import Batch
from evenflow.spark.border import promotable
from evenflow.spark.counting import KeyCounts
from evenflow.spark.fitting import Fits
from evenflow.spark.registry import Hosted
from evenflow.spark.report import Report


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """What is carried from batch to batch.

    fits   what rows cost
    state  query uid -> bytes on each worker when it was last stepped there
    keys   query uid -> its keys in the batch before, for names of keys that had no rows
    """

    fits: Fits = field(default_factory=Fits)
    state: Mapping[str, Floats] = field(default_factory=dict)
    keys: Mapping[str, KeyStats] = field(default_factory=dict)


def observe(done: Batch, memory: Memory) -> tuple[Snapshot, Memory]:
    """Return a batch's snapshot, and what to remember for the next one."""
    hosted = sorted(done.registry.queries.values(), key=_age)
    uids = tuple(query.uid for query in hosted)
    table = _table(uids, done.reports, done.plan.workers)
    fits = memory.fits.of(_fitted(hosted, done.plan)).update(
        table.rows_in.astype(np.float64), table.made, table.seconds, table.stepped
    )
    weights = fits.weights()
    load = (
        weights[:, 0, None] * table.stepped
        + weights[:, 1, None] * table.rows_in
        + weights[:, 2, None] * table.made
    )
    state = _states(hosted, table, done.plan, memory)
    for array in (table.rows_in, table.rows_out, table.seconds, load, state):
        array.flags.writeable = False  # rows of one table, so that nothing is copied
    queries, keys = {}, {}
    for at, query in enumerate(hosted):
        counts = {r.slot: r.keys[query.uid] for r in done.reports if query.uid in r.keys}
        found = None
        if counts:
            before = memory.keys.get(query.uid)
            found = keys[query.uid] = key_stats(counts, weights[at], state[at], before)
        queries[query.name] = QueryLoad(
            query.streams,
            table.rows_in[at],
            table.rows_out[at],
            table.seconds[at],
            load[at],
            state[at],
            found,
            query.pin is not None,
            query.name in done.following.placement and promotable(query),
            query.publish,
        )
    remembered = Memory(
        fits, {uid: state[at] for at, uid in enumerate(uids)}, {**_still(memory, uids), **keys}
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
    made = np.concatenate([c.made for c in counts.values()])
    key_state = np.concatenate([c.state for c in counts.values()])
    names = pa.concat_arrays([c.names for c in counts.values()])
    rest_keys = np.zeros(len(state), dtype=np.int64)
    rest_cost, rest_fixed = np.zeros(len(state)), np.zeros(len(state))
    rest_state = state.copy()  # on workers that had nothing to do, all of it
    for slot, c in counts.items():
        rest_keys[slot], rest_state[slot] = c.rest_keys, c.rest_state
        rest_fixed[slot] = fixed
        rest_cost[slot] = fixed + per_row_in * c.rest_rows_in + per_row_made * c.rest_made
    order = np.argsort(hashes)
    return KeyStats(
        hashes[order],
        owner[order],
        (per_row_in * rows_in + per_row_made * made)[order],
        key_state[order],
        _named(hashes[order], names.take(pa.array(order)), before),
        rest_keys,
        rest_cost,
        rest_state,
        rest_fixed,
        rows_in[order],
    )


def _fitted(hosted: list[Hosted], plan: Plan) -> tuple[str, ...]:
    """Name the fits: one that becomes keyed counts what it makes by key, and is fitted anew."""
    return tuple(f"{q.uid}:keyed" if q.name in plan.tables else q.uid for q in hosted)


def _named(hashes: Hashes, texts: pa.Array, before: KeyStats | None) -> tuple[str, ...]:
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
class _Table:
    """Statistics as arrays of (query, worker)."""

    stepped: Bools
    rows_in: Indices
    rows_out: Indices
    made: Floats
    seconds: Floats
    state: Floats


def _table(uids: tuple[str, ...], reports: tuple[Report, ...], workers: int) -> _Table:
    shape, row = (len(uids), workers), {uid: at for at, uid in enumerate(uids)}
    rows_in, rows_out = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    made, seconds, state = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    stepped = np.zeros(shape, dtype=np.bool_)
    for report in reports:
        for uid, stats in report.queries.items():
            if uid in row:
                at = row[uid], report.slot
                stepped[at] = True
                rows_in[at], rows_out[at] = stats.rows_in, stats.rows_out
                made[at], seconds[at] = stats.made, stats.cpu_seconds
                state[at] = stats.state_bytes
    return _Table(stepped, rows_in, rows_out, made, seconds, state)


def _states(hosted: list[Hosted], table: _Table, plan: Plan, memory: Memory) -> Floats:
    """Return the bytes of each query on each worker; one that was not stepped has what it had."""
    state = table.state.copy()
    for at, query in enumerate(hosted):
        before = memory.state.get(query.uid)
        if before is None or table.stepped[at].all():
            continue
        worker = plan.placement.get(query.name)
        if worker is None:
            state[at] = np.where(table.stepped[at], state[at], before)
            state[at, list(plan.drained)] = 0.0  # it was handed over before the plan held
        elif not table.stepped[at, worker]:
            state[at, worker] = before.sum()  # it may have moved, with all it has
    return state


def _still(memory: Memory, uids: tuple[str, ...]) -> dict[str, KeyStats]:
    hosted = set(uids)
    return {uid: found for uid, found in memory.keys.items() if uid in hosted}


def _snapshot(done: Batch, queries: Mapping[str, QueryLoad]) -> Snapshot:
    shipped: dict[str, Floats] = {}
    names = {query.uid: query.name for query in done.registry.queries.values()}
    seconds, handed = np.zeros(done.plan.workers), []
    for report in done.reports:
        handed += [
            Transfer(names[uid], report.slot, slot, state.length)
            for uid, slot, state in report.handoffs
            if uid in names
        ]
        seconds[report.slot] = report.cpu_seconds
        for stream, size in report.shipped.items():
            shipped.setdefault(stream, np.zeros(done.plan.workers))[report.slot] = size
    return Snapshot(
        batch=done.number,
        at=done.at,
        interval_seconds=done.seconds,
        plan=done.plan,
        next_plan=done.following,
        workers_to_drain=done.drain,
        queries=queries,
        shipped_bytes=dict(sorted(shipped.items())),
        worker_cpu_seconds=seconds,
        transfers=tuple(handed),
    )


def _age(query: Hosted) -> tuple[int, str]:
    """Order queries by when they were submitted: the version that first had them is in the uid."""
    return int(query.uid.rpartition("@")[2]), query.name
