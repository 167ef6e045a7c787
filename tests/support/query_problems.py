"""Small query problems, and what every placement must keep."""

import numpy as np
from hypothesis import strategies as st

from evenflow.model.subscriptions import Subscriptions
from evenflow.planning.queries import NOWHERE, Fleet, Placement, PlacementMetrics, PlacementProblem
from evenflow.planning.queries.metrics import total_traffic_plain
from evenflow.planning.queries.problem import loads_by_worker


@st.composite
def subscriptions(
    draw: st.DrawFn, max_queries: int = 30, most_sources: int = 4, *, unit_loads: bool = False
) -> Subscriptions:
    sources = draw(st.integers(1, 10))
    width = min(sources, most_sources)
    query = st.sets(st.integers(0, sources - 1), min_size=1, max_size=width)
    queries = draw(st.lists(query, min_size=1, max_size=max_queries))
    rate = st.sampled_from([1.0, 1.0, 2.0, 0.5, 7.0])
    rates = draw(st.lists(rate, min_size=sources, max_size=sources))
    if draw(st.booleans()):
        rates = [1.0] * sources
    load = st.just(1.0) if unit_loads else st.sampled_from([1.0, 1.0, 0.5, 2.5, 20.0])
    loads = draw(st.lists(load, min_size=len(queries), max_size=len(queries)))
    return Subscriptions.from_source_sets(queries, rates, loads)


@st.composite
def problems(
    draw: st.DrawFn, max_queries: int = 30, most_sources: int = 4, *, unit_loads: bool = False
) -> PlacementProblem:
    given = draw(subscriptions(max_queries, most_sources, unit_loads=unit_loads))
    workers = draw(st.integers(1, 5))
    capacities = draw(
        st.one_of(
            st.just([1.0] * workers),
            st.lists(st.sampled_from([1.0, 2.0, 0.5]), min_size=workers, max_size=workers),
        )
    )
    fleet = Fleet(
        np.array(capacities),
        draw(st.sampled_from([0.0, 0.05, 0.5])),
        draw(st.sampled_from([1.0, 2.0, 10.0])),
    )
    at = st.lists(st.integers(NOWHERE, workers - 1), min_size=len(given), max_size=len(given))
    current = np.array(draw(at), dtype=np.int32)
    pinned = np.full(len(given), NOWHERE, dtype=np.int32)
    if draw(st.booleans()):
        pinned[np.argmin(given.loads)] = draw(st.integers(0, workers - 1))
    try:
        return PlacementProblem.of(given, fleet, pinned, current)
    except ValueError:  # The drawn pin does not fit: leave it out.
        return PlacementProblem.of(given, fleet, None, current)


def each_query_placed_once(problem: PlacementProblem, placement: Placement) -> None:
    assert len(placement.workers) == len(problem.subscriptions)
    assert placement.workers.min() >= 0
    assert placement.workers.max() < len(problem.fleet)
    assert (problem.fleet.capacities[placement.workers] > 0).all()


def pinned_stay(problem: PlacementProblem, placement: Placement) -> None:
    pinned = problem.pinned != NOWHERE
    assert (placement.workers[pinned] == problem.pinned[pinned]).all()


def figures_hold(
    problem: PlacementProblem, placement: Placement, figures: PlacementMetrics
) -> None:
    """Traffic as defined, replication within 1..k, nothing below the lower bound."""
    given = problem.subscriptions
    assert np.isclose(figures.traffic, total_traffic_plain(given, placement.workers))
    assert 1 - 1e-9 <= figures.replication_factor <= len(problem.fleet) + 1e-9
    assert figures.lower_bound <= figures.traffic * (1 + 1e-9)


def bounds_kept_or_refused_by_name(
    problem: PlacementProblem, placement: Placement, figures: PlacementMetrics
) -> None:
    """A worker over its bound has a verdict, and that verdict means a worker over its bound."""
    codes = {verdict.code for verdict in figures.verdicts}
    assert codes <= {"arrival_over_bound", "no_room", "over_bound"}
    assert figures.feasible != ("over_bound" in codes)
    total = problem.subscriptions.loads.sum()
    loads = loads_by_worker(problem.subscriptions, placement.workers, len(problem.fleet))
    assert np.isclose(loads.sum(), total)
