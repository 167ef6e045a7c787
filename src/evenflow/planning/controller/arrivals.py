"""Arrivals: places all queries that arrive at one batch boundary together."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from evenflow.model import Plan, Snapshot, place_on_fewest_queries, stream_bytes
from evenflow.model.arrays import Floats
from evenflow.model.subscriptions import Subscriptions
from evenflow.planning.controller.config import OFF, Balancing
from evenflow.planning.controller.predict import whole_query_series
from evenflow.planning.controller.window import busy_snapshots
from evenflow.planning.queries import NOWHERE, ONLINE, Fleet, PlacementProblem, place_arrivals

StreamsByQuery = Mapping[str, tuple[str, ...]]


def place_arriving_queries(
    plan: Plan,
    streams: StreamsByQuery,
    loads: Mapping[str, float],
    config: Balancing,
    rates: Mapping[str, float] | None = None,
) -> dict[str, int]:
    """Place the queries of `streams` that are not in the plan, in their order.

    streams  streams that each query reads, hosted and arriving queries
    loads    of queries, where known; the others count as the mean of the known, or 1
    rates    bytes of each stream in a batch, where known; the others count as their mean

    Whole queries on drained workers count as arriving too. With `queries` off they go to the
    workers with the fewest queries.

    >>> place_arriving_queries(Plan(2, {"a": 1}), {"a": ("s",), "b": ("s",)}, {}, Balancing())
    {'b': 1}
    """
    whole = {name: read for name, read in streams.items() if name not in plan.tables}
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
    workers = dict(zip(whole, place_arrivals(placer, problem).workers.tolist(), strict=True))
    return {name: workers[name] for name in arriving}


def _current_worker(plan: Plan, name: str) -> int:
    worker = plan.placement.get(name, NOWHERE)
    return NOWHERE if worker in plan.drained else worker


def active_capacities(plan: Plan) -> Floats:
    """Return the capacity of each worker: 1, or 0 if it is drained."""
    capacities = np.ones(plan.workers)
    capacities[list(plan.drained)] = 0.0
    return capacities


def build_subscriptions(
    whole: StreamsByQuery, loads: Mapping[str, float], rates: Mapping[str, float]
) -> Subscriptions:
    """Return queries and streams by position; unknown or zero loads and rates become the mean."""
    position: dict[str, int] = {}
    for read in whole.values():
        for stream in read:
            position.setdefault(stream, len(position))
    position.setdefault("", len(position))  # for queries that read no stream
    return Subscriptions.from_source_sets(
        [[position[stream] for stream in read or ("",)] for read in whole.values()],
        _fill_unknown_with_mean([rates.get(stream, 0.0) for stream in position]),
        _fill_unknown_with_mean([loads.get(name, 0.0) for name in whole]),
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
    """Return the mean bytes per busy batch of one copy of each stream."""
    busy = busy_snapshots(snapshots)
    sums: dict[str, float] = {}
    for snapshot in busy:
        for stream, size in stream_bytes(snapshot).items():
            sums[stream] = sums.get(stream, 0.0) + size
    return {stream: total / len(busy) for stream, total in sums.items()}
