"""Arrivals: all queries that arrive at one batch boundary are placed together."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from evenflow.model import Plan, Snapshot, StreamsByQuery, place_on_fewest_queries, stream_bytes
from evenflow.model.arrays import Floats
from evenflow.model.subscriptions import Subscriptions
from evenflow.planning.controller.config import OFF, Balancing
from evenflow.planning.controller.predict import whole_query_series
from evenflow.planning.controller.window import busy_snapshots
from evenflow.planning.queries import NOWHERE, ONLINE, Fleet, PlacementProblem, place_arrivals


def place_arriving_queries(
    plan: Plan,
    streams: StreamsByQuery,
    loads: Mapping[str, float],
    config: Balancing,
    rates: Mapping[str, float] | None = None,
) -> dict[str, int]:
    """Place the queries of `streams` that are not in the plan, in the order of `streams`.

    streams  query -> streams it reads; both hosted and arriving queries
    loads    query -> load; a query without one gets the mean of the others, or 1
    rates    stream -> bytes per batch; a stream without one gets the mean of the others, or 1

    Whole queries on drained workers are placed again. If `config.queries` is off, arrivals go to
    the workers with the fewest queries.

    >>> place_arriving_queries(Plan(2, {"a": 1}), {"a": ("s",), "b": ("s",)}, {}, Balancing())
    {'b': 1}
    """
    whole = {name: names for name, names in streams.items() if name not in plan.tables}
    current = np.array([_current_worker(plan, name) for name in whole], dtype=np.int32)
    arriving = [name for name, worker in zip(whole, current, strict=True) if worker == NOWHERE]
    if not arriving or config.queries == OFF:
        return place_on_fewest_queries(plan, arriving)
    problem = PlacementProblem.of(
        build_subscriptions(whole, loads, rates or {}),
        Fleet(active_capacities(plan), config.slack, config.absolute_slack),
        current=current,
    )
    placer = ONLINE[config.queries](problem, config.new_rng())
    placement = dict(zip(whole, place_arrivals(placer, problem).workers.tolist(), strict=True))
    return {name: placement[name] for name in arriving}


def _current_worker(plan: Plan, name: str) -> int:
    worker = plan.placement.get(name, NOWHERE)
    return NOWHERE if worker in plan.drained else worker


def active_capacities(plan: Plan) -> Floats:
    """Return the capacity of each worker: 1, or 0 if it is drained."""
    capacities = np.ones(plan.workers)
    capacities[list(plan.drained)] = 0.0
    return capacities


def build_subscriptions(
    streams: StreamsByQuery, loads: Mapping[str, float], rates: Mapping[str, float]
) -> Subscriptions:
    """Return queries and streams as arrays; an unknown or zero load or rate becomes the mean."""
    index: dict[str, int] = {}
    for names in streams.values():
        for name in names:
            index.setdefault(name, len(index))
    index.setdefault("", len(index))  # stands for a stream in queries that read none
    return Subscriptions.from_source_sets(
        [[index[name] for name in names or ("",)] for names in streams.values()],
        _fill_unknown_with_mean([rates.get(stream, 0.0) for stream in index]),
        _fill_unknown_with_mean([loads.get(query, 0.0) for query in streams]),
    )


def _fill_unknown_with_mean(values: list[float]) -> Floats:
    array = np.array(values, dtype=np.float64)
    known = array[array > 0]
    return np.where(array > 0, array, known.mean() if len(known) else 1.0)


def mean_query_loads(snapshots: Sequence[Snapshot], names: Iterable[str]) -> dict[str, float]:
    """Return the mean load of queries over the busy batches in which they ran."""
    queries, busy = tuple(names), busy_snapshots(snapshots)
    if not busy:
        return {}
    means = whole_query_series(busy, queries).mean(axis=1)
    return dict(zip(queries, means.tolist(), strict=True))


def mean_stream_bytes(snapshots: Sequence[Snapshot]) -> dict[str, float]:
    """Return the mean bytes of each stream in a busy batch; copies to more workers do not count."""
    busy = busy_snapshots(snapshots)
    sums: dict[str, float] = {}
    for snapshot in busy:
        for stream, size in stream_bytes(snapshot).items():
            sums[stream] = sums.get(stream, 0.0) + size
    return {stream: total / len(busy) for stream, total in sums.items()}
