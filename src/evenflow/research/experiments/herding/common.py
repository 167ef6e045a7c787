"""Shared by the experiments of herding-small-queries (MSR-TR-2015-26).

Parameters are those of section 6.1: 100 workers, relative slack 0.05, absolute slack 10, source
popularity beta 2, two sources a query. `paper` has its 100,000 queries and 6 runs (the paper 10);
`small` has 20,000 and 2 on the same 100 workers.
"""

from collections.abc import Callable

import numpy as np

from evenflow.model.subscriptions import Subscriptions
from evenflow.planning.queries import (
    ONLINE,
    Fleet,
    Placement,
    PlacementProblem,
    measure_placement,
    place_arrivals,
    plan_queries,
)
from evenflow.research.points import Point, Row, Scale
from evenflow.research.subscription_workload import random_subscriptions

PAPER = "Herding “small” streaming queries (MSR-TR-2015-26)"
WORKERS = 100
BETA = 2.0
SOURCES_PER_QUERY = 2
QUERIES: dict[Scale, int] = {"small": 20_000, "paper": 100_000}
SEEDS: dict[Scale, range] = {"small": range(2), "paper": range(6)}
BETAS: dict[Scale, tuple[float, ...]] = {
    "small": (1.0, 1.25, 1.5, 2.0, 3.0),
    "paper": (1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 2.75, 3.0),
}
SOURCES_PER_QUERY_GRID: dict[Scale, tuple[int, ...]] = {
    "small": (1, 2, 3, 5, 10),
    "paper": tuple(range(1, 11)),
}
"""Sources per query."""
REPLICATION_LABEL = "replication factor"
POPULARITY_LABEL = "exponent of source popularity"
QUERIES_PER_REPAIR_MOVE = 20  # repair may move one of this many queries


def point_seed(point: Point) -> int:
    """Return the seed of a point; seeds below 100 were used to develop the planners."""
    return 100 + int(point["seed"])


def draw_subscriptions(point: Point) -> Subscriptions:
    """Draw the queries of a point: the same for all algorithms of one configuration and seed."""
    rng = np.random.default_rng(point_seed(point))
    return random_subscriptions(
        int(point["queries"]), float(point["beta"]), int(point["sources_per_query"]), rng
    )


def place_queries(
    subscriptions: Subscriptions, fleet: Fleet, algorithm: str, seed: int
) -> Placement:
    """Place all queries; repair improves the placement of herd by moving 5 % of the queries."""
    problem, rng = PlacementProblem.of(subscriptions, fleet), np.random.default_rng(seed)
    if algorithm != "repair":
        return plan_queries(problem, algorithm, rng)
    arrived = place_arrivals(ONLINE["herd"](problem, rng), problem)
    running = PlacementProblem.of(subscriptions, fleet, current=arrived.workers)
    return plan_queries(
        running, "repair", rng, max_moves=len(subscriptions) // QUERIES_PER_REPAIR_MOVE
    )


def measure_algorithm(subscriptions: Subscriptions, point: Point) -> list[Row]:
    """Place the queries and report section 6.1's measure, balance and the least traffic."""
    fleet, algorithm = Fleet.of(int(point["workers"])), str(point["algorithm"])
    placement = place_queries(subscriptions, fleet, algorithm, point_seed(point))
    online = algorithm in ONLINE or algorithm == "repair"
    figures = measure_placement(PlacementProblem.of(subscriptions, fleet), placement, online=online)
    return [
        {
            "replication_factor": figures.replication_factor,
            "max_over_mean_load": figures.max_over_mean_load,
            "lower_bound": figures.lower_bound * figures.replication_factor / figures.traffic,
            "sources": len(subscriptions.rates),
        }
    ]


def measure_point_placement(point: Point) -> list[Row]:
    """Place the queries of a point by its algorithm."""
    return measure_algorithm(draw_subscriptions(point), point)


def popularity_and_width_grid(
    scale: Scale, algorithms: tuple[str, ...], keep: Callable[[Point], bool] = lambda point: True
) -> list[Point]:
    """Return figures 4 and 5's grid: beta at two sources a query, and sources at beta 2."""
    cases: list[tuple[str, float, int]] = [
        *(("popularity", beta, SOURCES_PER_QUERY) for beta in BETAS[scale]),
        *(("sources", BETA, width) for width in SOURCES_PER_QUERY_GRID[scale]),
    ]
    points: list[Point] = [
        {
            "panel": panel,
            "beta": beta,
            "sources_per_query": sources_per_query,
            "queries": QUERIES[scale],
            "workers": WORKERS,
            "algorithm": algorithm,
            "seed": seed,
        }
        for panel, beta, sources_per_query in cases
        for algorithm in algorithms
        for seed in SEEDS[scale]
    ]
    return [point for point in points if keep(point)]
