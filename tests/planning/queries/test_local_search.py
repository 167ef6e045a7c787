"""partition and repair: true books, budgets and pins kept, no need of the solver."""

import sys

import numpy as np
import pytest
from benchmarks.planning.repair_bound import most_saved
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.query_problems import problems

from evenflow.model.subscriptions import Subscriptions
from evenflow.planning.queries import (
    NOWHERE,
    Fleet,
    PlacementProblem,
    measure_placement,
    plan_queries,
)
from evenflow.planning.queries.local_search import pass_order, search_pass
from evenflow.planning.queries.metrics import total_traffic
from evenflow.planning.queries.neighbourhood_expansion import expand_neighbourhoods
from evenflow.planning.queries.partition import partition
from evenflow.planning.queries.problem import loads_by_worker
from evenflow.planning.queries.search_state import (
    place_groups,
    place_remaining_groups,
    search_traffic,
    start_search,
    workers_of_queries,
)
from evenflow.research.kahypar import SolverMissing, kahypar
from evenflow.research.subscription_workload import random_subscriptions


@settings(max_examples=60)
@given(
    problem=problems(),
    price=st.sampled_from([0.0, 0.3, 2.0]),
    budget=st.integers(-1, 6),
    heat=st.sampled_from([0.0, 1.0]),
)
def test_the_search_keeps_true_books(
    problem: PlacementProblem, price: float, budget: int, heat: float
) -> None:
    search = start_search(problem)
    heads = search.groups.members[search.groups.member_starts[:-1]]
    place_groups(search, problem.initial_workers()[heads])
    expand_neighbourhoods(search)
    place_remaining_groups(search)
    moved_before = int(search.moved_queries[0])
    rng = np.random.default_rng(0)
    before, within = search_traffic(search), (search.worker_load <= search.capacity).all()
    gained = search_pass(search, pass_order(search, rng), price, budget, heat, rng)
    workers = workers_of_queries(search)
    count = len(problem.fleet)
    assert search_traffic(search) == pytest.approx(
        total_traffic(problem.subscriptions, workers, count)
    )
    assert np.allclose(search.worker_load, loads_by_worker(problem.subscriptions, workers, count))
    away = (problem.current != NOWHERE) & (problem.current != workers)
    assert search.moved_queries[0] == away.sum()
    spent = before - search_traffic(search) - price * (search.moved_queries[0] - moved_before)
    assert gained == pytest.approx(spent)
    if within:
        assert gained >= -1e-9 or heat > 0
        assert (search.worker_load <= search.capacity).all()
    if budget >= 0:
        assert search.moved_queries[0] <= max(budget, moved_before)


def drifted() -> PlacementProblem:
    given_ = random_subscriptions(3_000, 2.0, 2, np.random.default_rng(2))
    problem = PlacementProblem.of(given_, 10)
    placed = plan_queries(problem, "leastcost", np.random.default_rng(0))
    return PlacementProblem.of(given_, 10, current=placed.workers)


def test_repair_spends_its_budget_on_the_best_moves() -> None:
    """More moves never cost traffic, the first ones save most, and the budget holds."""
    problem = drifted()
    costs = []
    for moves in (0, 50, 150, 3_000):
        placement = plan_queries(problem, "repair", np.random.default_rng(0), moves)
        assert (placement.workers != problem.current).sum() == placement.moved <= moves
        costs.append(measure_placement(problem, placement, online=False).traffic)
    assert costs[0] > costs[1] > costs[2] > costs[3]
    assert (costs[0] - costs[1]) / 50 > (costs[1] - costs[2]) / 100


@pytest.mark.parametrize(("start", "least"), [("leastcost", 318), ("herd", 215)])
def test_repair_finds_more_than_greedy_moves(start: str, least: int) -> None:
    """Single queries moved in order of gain, none taken back, save 168 and 59."""
    given_ = random_subscriptions(10_000, 2.0, 2, np.random.default_rng(5))
    current = plan_queries(PlacementProblem.of(given_, 20), start, np.random.default_rng(1))
    problem = PlacementProblem.of(given_, 20, current=current.workers)
    placement = plan_queries(problem, "repair", np.random.default_rng(0), 500)
    figures = measure_placement(problem, placement, online=False)
    assert placement.moved <= 500
    assert figures.feasible
    assert total_traffic(given_, current.workers, 20) - figures.traffic >= least


@pytest.mark.parametrize("start", ["leastcost", "herd"])
def test_no_repair_saves_more_than_the_bound(start: str) -> None:
    pytest.importorskip("scipy")
    given_ = random_subscriptions(1_000, 2.0, 2, np.random.default_rng(5))
    current = plan_queries(PlacementProblem.of(given_, 10), start, np.random.default_rng(1)).workers
    problem = PlacementProblem.of(given_, 10, current=current)
    before = total_traffic(given_, current, 10)
    for moves in (10, 50, 200):
        placement = plan_queries(problem, "repair", np.random.default_rng(0), moves)
        saved = before - measure_placement(problem, placement, online=False).traffic
        assert 0 < saved <= most_saved(problem, moves) + 1e-6


def test_repair_places_arrivals_and_lightens_crowded_workers() -> None:
    given_ = random_subscriptions(600, 2.0, 2, np.random.default_rng(2))
    current = np.zeros(600, dtype=np.int32)
    current[500:] = NOWHERE
    problem = PlacementProblem.of(given_, 4, current=current)
    placement = plan_queries(problem, "repair", np.random.default_rng(0))
    assert measure_placement(problem, placement, online=False).feasible


def test_mt_kahypar_agrees_on_the_objective() -> None:
    pytest.importorskip("mtkahypar")
    problem = drifted()
    try:
        search = kahypar(problem, seed=1)
    except SolverMissing as error:
        pytest.skip(f"Mt-KaHyPar refuses to start on this machine: {error}")
    workers = workers_of_queries(search)
    assert search_traffic(search) == pytest.approx(
        total_traffic(problem.subscriptions, workers, 10)
    )
    placement = plan_queries(problem, "partition", np.random.default_rng(0))
    figures = measure_placement(problem, placement, online=False)
    assert figures.traffic <= 1.05 * search_traffic(search)


def test_without_the_solver_everything_of_ours_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mtkahypar", None)
    problem = drifted()
    with pytest.raises(SolverMissing):
        kahypar(problem, seed=1)
    for algorithm in ("partition", "repair"):
        placement = plan_queries(problem, algorithm, np.random.default_rng(0))
        assert measure_placement(problem, placement, online=False).feasible


def test_partition_keeps_the_bound_on_uneven_loads() -> None:
    """Instances made of workers filled to their share, so that a placement within it exists."""
    kept = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        parts = [rng.dirichlet(np.ones(6)) for _ in range(4)]
        loads = rng.permutation(np.concatenate(parts) + 1e-3)
        reads = [sorted(set(rng.integers(0, 8, 2).tolist())) for _ in loads]
        problem = PlacementProblem.of(
            Subscriptions.from_source_sets(reads, loads=loads), Fleet.of(4, 0.05)
        )
        placement = partition(problem, rng)
        kept += measure_placement(problem, placement, online=False).feasible
    assert kept >= 18


def test_partition_splits_pieces_where_room_is_tight() -> None:
    # 69 fit on a worker; 111 pieces of 6 do not go into 10 workers of 11 pieces each.
    problem = PlacementProblem.of(Subscriptions.from_source_sets([[0]] * 666), 10)
    placement = partition(problem, np.random.default_rng(0))
    assert measure_placement(problem, placement, online=False).feasible
