"""Offline algorithms: kernels against plain versions, proved bounds, exhaustive optima."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.query_problems import problems

from evenflow.model.subscriptions import Subscriptions
from evenflow.planning.queries import (
    ALGORITHMS,
    ONLINE,
    Fleet,
    PlacementProblem,
    measure_placement,
    plan_queries,
)
from evenflow.planning.queries.greedy_rounds import fill_by_rounds, fill_by_rounds_plain
from evenflow.planning.queries.metrics import total_traffic, total_traffic_plain
from evenflow.planning.queries.offline import start_fill
from evenflow.research.subscription_workload import random_subscriptions, with_source_rates


@pytest.mark.parametrize("whole_traffic", [False, True], ids=["ic", "mms"])
@settings(max_examples=60)
@given(problem=problems())
def test_rounds_equal_the_plain_version(whole_traffic: bool, problem: PlacementProblem) -> None:
    quick, plain = start_fill(problem), start_fill(problem)
    fill_by_rounds(quick, whole_traffic=whole_traffic)
    fill_by_rounds_plain(plain, whole_traffic=whole_traffic)
    assert quick.worker_of_query.tolist() == plain.worker_of_query.tolist()


@settings(max_examples=30)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=12),
    workers=st.integers(1, 6),
    equal=st.booleans(),
    seed=st.integers(0, 100),
)
def test_theorem_3(sizes: list[int], workers: int, equal: bool, seed: int) -> None:
    """At most 1 + k/m times the optimum for equal rates, at most twice it for any.

    The optimum is at least every source on as many workers as its queries fill.
    """
    rng = np.random.default_rng(seed)
    rates = np.ones(len(sizes)) if equal else 1 + rng.pareto(1.0, len(sizes))
    queries = [[s] for s, size in enumerate(sizes) for _ in range(size)]
    problem = PlacementProblem.of(Subscriptions.from_source_sets(queries, rates), workers)
    placement = plan_queries(problem, "single-source", rng)
    cost = total_traffic(problem.subscriptions, placement.workers, workers)
    room = np.floor(problem.capacities()[0])
    least = float((rates * np.ceil(np.array(sizes) / room)).sum())
    ratio = 1 + workers / len(sizes) if equal else 2.0
    assert cost <= min(ratio, 2.0) * least * (1 + 1e-9)


def optimum(problem: PlacementProblem) -> float:
    """Try every placement within the bound."""
    count, workers, room = (
        len(problem.subscriptions),
        len(problem.fleet),
        problem.capacities(),
    )
    best = np.inf
    for at in itertools.product(range(workers), repeat=count):
        if (np.bincount(at, problem.subscriptions.loads, workers) <= room).all():
            best = min(best, total_traffic_plain(problem.subscriptions, np.array(at)))
    return float(best)


@pytest.mark.parametrize("seed", range(6))
def test_against_the_exhaustive_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    given_ = with_source_rates(random_subscriptions(8, 1.5, 2, rng), 1.5, "random", rng)
    problem = PlacementProblem.of(given_, Fleet.of(3, 0.2, 1.0))
    best = optimum(problem)
    for algorithm in set(ALGORITHMS) - {"single-source", "repair"}:
        placement = plan_queries(problem, algorithm, np.random.default_rng(seed))
        figures = measure_placement(problem, placement, online=algorithm in ONLINE)
        if algorithm not in ONLINE:
            assert figures.feasible
            assert figures.traffic >= best - 1e-9, algorithm
        assert figures.lower_bound <= best + 1e-9 or algorithm in ONLINE
        if algorithm == "partition":
            assert figures.traffic <= 1.15 * best


def test_mqp_fills_the_last_workers_and_leaves_the_first_empty() -> None:
    problem = PlacementProblem.of(
        Subscriptions.from_source_sets([[s] for s in range(10)]), Fleet.of(4, 1.0)
    )
    placement = plan_queries(problem, "mqp", np.random.default_rng(0))
    assert np.bincount(placement.workers, minlength=4).tolist() == [0, 0, 5, 5]
