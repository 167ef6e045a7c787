"""Arrivals: the worker of every query that has none yet, all of one border together."""

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
    """Place the queries of `streams` that the plan does not know, in their order.

    streams  what each query reads, of those that run and those that arrive
    loads    of queries where known; the others count as the mean of the known, or 1
    rates    bytes of each stream in a batch where known; the others count as their mean

    Whole queries on drained workers count as arriving too. With `queries` off they go to the
    workers with the fewest queries.

    >>> place_arriving_queries(Plan(2, {"a": 1}), {"a": ("s",), "b": ("s",)}, {}, Balancing())
    {'b': 1}
    """
    whole = {name: read for name, read in streams.items() if name not in plan.tables}
    current = np.array([_current_worker(plan, name) for name in whole], dtype=np.int32)
    if not (current == NOWHERE).any():
        return {}
    if config.queries == OFF:
        return place_on_fewest_queries(
            plan, [name for name, at in zip(whole, current, strict=True) if at < 0]
        )
    problem = PlacementProblem.of(
        build_subscriptions(whole, loads, rates or {}),
        Fleet(active_capacities(plan), config.slack, config.absolute_slack),
        current=current,
    )
    found = place_arrivals(ONLINE[config.queries](problem, config.new_rng()), problem).workers
    return {
        name: int(worker)
        for name, worker, before in zip(whole, found, current, strict=True)
        if before == NOWHERE
    }


def _current_worker(plan: Plan, name: str) -> int:
    worker = plan.placement.get(name, NOWHERE)
    return NOWHERE if worker in plan.drained else worker


def active_capacities(plan: Plan) -> Floats:
    """Return the strength of each worker: none if it is drained."""
    result = np.ones(plan.workers)
    result[list(plan.drained)] = 0.0
    return result


def build_subscriptions(
    whole: StreamsByQuery, loads: Mapping[str, float], rates: Mapping[str, float]
) -> Subscriptions:
    """Number the streams and fill in what is not known. Loads and rates of zero are none."""
    number: dict[str, int] = {}
    for read in whole.values():
        for stream in read:
            number.setdefault(stream, len(number))
    number.setdefault("", len(number))  # what queries read that read nothing
    return Subscriptions.from_source_sets(
        [[number[stream] for stream in read or ("",)] for read in whole.values()],
        _fill_unknown_with_mean([rates.get(stream, 0.0) for stream in number]),
        _fill_unknown_with_mean([loads.get(name, 0.0) for name in whole]),
    )


def _fill_unknown_with_mean(values: list[float]) -> Floats:
    """Return the values with the mean of the known in place of the unknown."""
    array = np.array(values, dtype=np.float64)
    known = array[array > 0]
    return np.where(array > 0, array, known.mean() if len(known) else 1.0)


def mean_query_loads(snapshots: Sequence[Snapshot], names: Iterable[str]) -> dict[str, float]:
    """Return the load of queries in a batch: the mean over those in which each of them ran."""
    asked, worked = tuple(names), busy_snapshots(snapshots)
    if not worked:
        return {}
    means = whole_query_series(worked, asked).mean(axis=1)
    return dict(zip(asked, means.tolist(), strict=True))


def mean_stream_bytes(snapshots: Sequence[Snapshot]) -> dict[str, float]:
    """Return the bytes a batch of one copy of each stream: what one more reader of it costs."""
    worked = busy_snapshots(snapshots)
    sums: dict[str, float] = {}
    for snapshot in worked:
        for stream, size in stream_bytes(snapshot).items():
            sums[stream] = sums.get(stream, 0.0) + size
    return {stream: total / len(worked) for stream, total in sums.items()}
