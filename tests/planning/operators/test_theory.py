"""The paper's theorems, figures 1 and 2, and the signs of its scores, as properties."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.support.operator_cases import bursts

from evenflow.errors import InputError
from evenflow.model.arrays import Floats
from evenflow.planning.operators.correlation_score import centred_correlation, pair_score
from evenflow.planning.operators.load_statistics import (
    centred,
    correlations,
    divergent_level,
    mean_correlation,
    series_variance,
    std_lower_bound,
)
from evenflow.planning.operators.pairwise_steps import pair_score_plain
from evenflow.research.operator_simulator.ideal_rates import ideal_loads, ideal_rates
from evenflow.research.operator_simulator.network import OperatorNetwork


def series_correlation(first: Floats, second: Floats) -> float:
    return centred_correlation(*centred(np.stack([first, second])))


loads = st.floats(0, 10, allow_nan=False).map(lambda value: round(value, 6))


@given(series=arrays(float, st.tuples(st.integers(1, 6), st.integers(1, 8)), elements=loads))
def test_theorem_1_mean_variance_is_least_when_all_workers_are_alike(series: Floats) -> None:
    workers = len(series)
    least = series_variance(series.sum(axis=0, keepdims=True))[0] / workers**2
    assert series_variance(series).mean() >= least - 1e-9
    alike = np.tile(series.sum(axis=0) / workers, (workers, 1))
    assert series_variance(alike).mean() == pytest.approx(least, abs=1e-9)
    assert np.sqrt(series_variance(series)).mean() >= std_lower_bound(series, workers) - 1e-9


@given(series=arrays(float, st.tuples(st.just(2), st.integers(2, 8)), elements=loads))
def test_theorem_2_bounds_the_variance_of_a_pair_by_its_correlation(series: Floats) -> None:
    rho = series_correlation(series[0], series[1])
    assume(rho > 1e-6)
    total = series_variance(series.sum(axis=0, keepdims=True))[0]
    both = series_variance(series).sum()
    assert total / (1 + rho) - 1e-7 <= both <= total + 1e-7


@given(series=arrays(float, st.tuples(st.integers(2, 5), st.integers(2, 8)), elements=loads))
def test_correlations_agree_with_the_definition(series: Floats) -> None:
    found = correlations(series)
    for i, one in enumerate(series):
        for j, two in enumerate(series):
            assert found[i, j] == pytest.approx(series_correlation(one, two), abs=1e-6)
            if i != j and min(one.std(), two.std()) > 1e-3:
                expected = float(np.cov(one, two, ddof=0)[0, 1]) / (one.std() * two.std())
                assert found[i, j] == pytest.approx(expected, abs=1e-6)
    pairs = [found[i, j] for i in range(len(series)) for j in range(i)]
    assert mean_correlation(series) == pytest.approx(np.mean(pairs))


@pytest.mark.parametrize(
    ("one", "two"),
    [([1, 1, 1], [1, 2, 3]), ([0, 0, 0], [0, 0, 0]), ([5], [7])],
    ids=["constant", "idle", "one sample"],
)
def test_undefined_correlation_is_zero(one: list[float], two: list[float]) -> None:
    assert series_correlation(np.array(one, float), np.array(two, float)) == 0.0


def test_divergent_load_level_is_mean_plus_deviation() -> None:
    assert divergent_level(np.array([[1.0, 3.0], [2.0, 2.0]])).tolist() == [3.0, 2.0]


def test_figure_2_operators_of_one_stream_are_correlated_whatever_its_rate() -> None:
    filters = OperatorNetwork.from_lists(
        [1e-3] * 3, [0.2, 0.5, 0.9], feeds=[(0, 0), (0, 1), (0, 2)]
    )
    rates = np.random.default_rng(0).uniform(1, 100, size=(1, 12))
    rho = correlations(ideal_loads(filters, rates))
    assert rho == pytest.approx(np.ones((3, 3)))


def test_figure_2_opposite_filters_of_a_steady_stream_have_correlation_minus_one() -> None:
    """A stream into A < x and A >= x: what one lets through the other does not.

    The paper says "no matter how the input rate fluctuates"; it takes a steady rate.
    """
    network = OperatorNetwork.from_lists(
        [1e-3] * 4, [1.0] * 4, feeds=[(0, 0), (0, 1)], links=[(0, 2), (1, 3)]
    )
    below = np.random.default_rng(0).uniform(0.1, 0.9, size=12)
    passed = np.stack([below, 1 - below, np.ones(12), np.ones(12)])
    steady = ideal_loads(network, np.full((1, 12), 50.0), passed)
    assert series_correlation(steady[2], steady[3]) == pytest.approx(-1)
    assert series_correlation(steady[0], steady[1]) == 0.0  # both constant
    rates = np.random.default_rng(1).uniform(1, 100, size=(1, 12))
    assert series_correlation(*ideal_loads(network, rates, passed)[2:]) > -1


def test_ideal_rates_do_not_know_of_queues() -> None:
    """A heavy operator upstream of a light one: the light one's ideal rate is unchanged."""
    network = OperatorNetwork.from_lists([100.0, 1e-3], [0.5, 1.0], feeds=[(0, 0)], links=[(0, 1)])
    assert ideal_rates(network, np.array([[10.0]])).tolist() == [[10.0], [5.0]]
    assert ideal_loads(network, np.array([[10.0]])).tolist() == [[1000.0], [0.005]]


def test_ideal_rates_of_union_branch_and_join() -> None:
    network = OperatorNetwork.from_lists(
        [1.0] * 4, [1.0, 2.0, 0.5, 0.1],
        feeds=[(0, 0), (1, 1)], links=[(0, 2), (1, 2), (0, 3), (1, 3)], window=[0, 0, 0, 0.5],
    )  # fmt: skip
    rates = ideal_rates(network, np.array([[4.0], [3.0]]))[:, 0]
    assert rates.tolist() == [4.0, 3.0, 10.0, 10.0]
    onward = OperatorNetwork.from_lists(
        [1.0] * 3, [1.0, 1.0, 0.1], feeds=[(0, 0), (1, 0)], links=[(0, 1)], window=[0.5, 0, 0]
    )
    assert ideal_rates(onward, np.array([[4.0], [3.0]]))[1, 0] == pytest.approx(2 * 0.5 * 12)


def test_score_is_positive_where_an_operator_is_better_off_on_the_other_worker() -> None:
    up, down = np.array([1.0, -1.0]), np.array([-1.0, 1.0])
    deviations = np.stack([up, up, down])
    with_its_like = pair_score_plain(deviations, np.array([0, 0, 1]), 0)
    with_its_opposite = pair_score_plain(deviations, np.array([0, 1, 0]), 0)
    assert with_its_like == pytest.approx(1.0)
    assert with_its_opposite == pytest.approx(-1.0)


@settings(max_examples=50)
@given(seed=st.integers(0, 10**6), at=st.integers(0, 7))
def test_score_of_a_pair_equals_its_definition(seed: int, at: int) -> None:
    deviations = centred(bursts(8, 6, seed))
    side = np.random.default_rng(seed).integers(0, 2, size=8)
    totals = [deviations[side == worker].sum(axis=0) for worker in (0, 1)]
    found = pair_score(deviations[at], totals[side[at]], totals[1 - side[at]])
    assert found == pytest.approx(pair_score_plain(deviations, side, at), abs=1e-9)


def test_selectivities_below_zero_are_refused() -> None:
    with pytest.raises(InputError, match="selectivity must be finite"):
        OperatorNetwork.from_lists([1.0], [-1.0], feeds=[(0, 0)])
