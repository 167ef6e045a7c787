"""Each kernel against its plain version."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.operator_cases import bursts, operator_rows, snapshot, snapshots

from evenflow.model.arrays import Workers
from evenflow.planning.least_load import place_by_preference, place_on_least_loaded_plain
from evenflow.planning.operators.cor_glb import cor_glb, cor_glb_plain
from evenflow.planning.operators.descent import SourceReads, descend
from evenflow.planning.operators.load_statistics import worker_series
from evenflow.planning.operators.pairwise import (
    EXCHANGE,
    ONE_WAY,
    REDISTRIBUTE,
    balance_round,
    balance_round_plain,
    correlation_round,
    correlation_round_plain,
)
from evenflow.planning.operators.problem import OperatorSnapshot, SourceTraffic
from evenflow.planning.operators.variance import best_change_plain, load_vectors, variance_objective

STEPS = pytest.mark.parametrize("step", [ONE_WAY, REDISTRIBUTE, EXCHANGE])


@STEPS
@settings(max_examples=60, deadline=None)
@given(given_snapshot=snapshots())
def test_balancing(step: int, given_snapshot: OperatorSnapshot) -> None:
    s = given_snapshot
    rows, placement = operator_rows(s), s.placement.copy()
    balance_round(step, 0.05, 0.2, rows, placement, s.workers)
    plain = balance_round_plain(step, 0.05, 0.2, rows, s.placement, s.workers)
    assert placement.tolist() == plain.tolist()


@STEPS
@settings(max_examples=60, deadline=None)
@given(given_snapshot=snapshots(), capacity=st.sampled_from((0.0, 0.5, 1.0)))
def test_improvement(step: int, given_snapshot: OperatorSnapshot, capacity: float) -> None:
    s = given_snapshot
    limits = np.array([capacity + 0.1 * (worker % 2) for worker in range(s.workers)])
    rows, placement = operator_rows(s), s.placement.copy()
    correlation_round(step, 0.8, limits, 0.2, rows, placement, s.workers)
    plain = correlation_round_plain(step, 0.8, limits, 0.2, rows, s.placement, s.workers)
    assert placement.tolist() == plain.tolist()


@settings(max_examples=60, deadline=None)
@given(given_snapshot=snapshots())
def test_cor_glb(given_snapshot: OperatorSnapshot) -> None:
    s = given_snapshot
    rows, placement = operator_rows(s), s.placement.copy()
    cor_glb(0.8, rows, placement, s.workers)
    plain = cor_glb_plain(0.8, rows, s.placement, s.workers)
    assert placement.tolist() == plain.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_cor_glb_at_a_realistic_size(seed: int) -> None:
    rows, placement = operator_rows(snapshot(bursts(70, 10, seed), 7)), np.zeros(70, dtype=np.int32)
    plain = cor_glb_plain(0.8, rows, placement, 7)
    cor_glb(0.8, rows, placement, 7)
    assert placement.tolist() == plain.tolist()


@settings(max_examples=40, deadline=None)
@given(given_snapshot=snapshots())
def test_spreading_by_preference(given_snapshot: OperatorSnapshot) -> None:
    s = given_snapshot
    preference, movable = np.round(s.load, 2), s.series.movable.copy()
    placement = s.placement.copy()
    place_by_preference(preference, s.load, movable, placement, s.workers)
    order = sorted(np.flatnonzero(movable).tolist(), key=lambda o: (-preference[o], o))
    fixed = worker_series(s.load[~movable, None], s.placement[~movable], s.workers)[:, 0]
    plain = s.placement.copy()
    plain[order] = place_on_least_loaded_plain(s.load[order], fixed)
    assert placement.tolist() == plain.tolist()


def descended(s: OperatorSnapshot, max_moved: int, traffic: SourceTraffic) -> Workers:
    vectors, placement = load_vectors(s), s.placement.copy()
    dots = vectors @ worker_series(vectors, placement, s.workers).T
    readers = traffic.reader_counts(placement, s.workers)
    reads = SourceReads(traffic.price, traffic.starts, traffic.reads, traffic.rates, readers)
    free, prices = np.flatnonzero(s.series.movable), np.zeros(len(placement))
    descend(max_moved, vectors, dots, prices, s.placement.copy(), free, placement, reads)
    return placement


def shipping(operators: int, price: float, seed: int) -> SourceTraffic:
    """Return operators that read one or two of five sources."""
    rng = np.random.default_rng(seed)
    reads = [rng.choice(5, rng.integers(1, 3), replace=False).tolist() for _ in range(operators)]
    return SourceTraffic.of(reads, rng.uniform(0.5, 2.0, 5), price)


PRICES = pytest.mark.parametrize("price", [0.0, 0.001, 0.05])
"""What a unit of shipped rate costs: nothing, some moves and swaps turn, most do."""


@PRICES
@pytest.mark.parametrize("seed", range(8))
def test_descent_ends_where_no_move_or_swap_gains(seed: int, price: float) -> None:
    s = snapshot(bursts(14, 6, seed), 4, np.zeros(14, dtype=np.int32), pinned=(2,))
    traffic = shipping(14, price, seed)
    placement = descended(s, 14, traffic)
    change, *_ = best_change_plain(load_vectors(s), placement, 4, s.series.movable, traffic)
    assert change > -1e-9
    assert placement[2] == 0


@PRICES
@pytest.mark.parametrize("seed", range(8))
def test_descent_takes_the_best_change_first(seed: int, price: float) -> None:
    s = snapshot(bursts(10, 6, seed), 3, np.arange(10, dtype=np.int32) % 3)
    traffic = shipping(10, price, seed)
    change, operator, _, partner = best_change_plain(
        load_vectors(s), s.placement, 3, s.series.movable, traffic
    )
    allowed = len({operator, partner} - {-1})
    placement = descended(s, allowed, traffic)

    def total(owners: Workers) -> float:
        return variance_objective(s, owners) + price * traffic.shipped_rate(owners, 3)

    assert total(placement) <= total(s.placement) + change + 1e-12
    assert (placement != s.placement).sum() <= allowed
