"""Workers of unequal capacity: every planner gives each worker its share, with the same bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.strategies import key_loads

from evenflow.errors import InputError
from evenflow.model import KeyLoads, LoadSeries
from evenflow.model.subscriptions import Subscriptions
from evenflow.planning import keys, operators, queries
from evenflow.planning.keys import KeyConfig, load_over_share, plan_for_capacities
from evenflow.planning.operators import OperatorConfig, OperatorSnapshot, plan_operators

CAPACITIES = (4.0, 2.0, 1.0, 1.0)
MOVING = ("simple", "llfd", "mintable", "minmig", "mixed", "mixedbf", "cover", "readj", "compact")


def skewed(count: int, seed: int) -> KeyLoads:
    rng = np.random.default_rng(seed)
    cost = 100.0 / np.arange(1, count + 1) ** 0.5
    home = rng.integers(0, 4, count)
    return KeyLoads.from_arrays(cost, cost * rng.uniform(0.5, 2, count), home, home, 4)


@pytest.mark.parametrize("algorithm", MOVING)
def test_keys_keep_each_workers_own_bound(algorithm: str) -> None:
    loads, rng = skewed(400, 1), np.random.default_rng(0)
    made = plan_for_capacities(keys.ALGORITHMS[algorithm], loads, CAPACITIES, KeyConfig(), rng)
    assert made.verdicts == ()
    assert load_over_share(made.loads, CAPACITIES).max() <= 1.08 * (1 + 1e-6)
    assert made.loads == pytest.approx(loads.worker_loads(made.owner))
    assert load_over_share(loads.worker_loads(), CAPACITIES).max() > 1.5  # it had to move


@settings(max_examples=60, deadline=None)
@given(loads=key_loads(), capacity=st.sampled_from([1.0, 3.5]))
def test_equal_capacities_change_nothing(loads: KeyLoads, capacity: float) -> None:
    planner, config = keys.ALGORITHMS["mixed"], KeyConfig()
    plain = planner(loads, config, np.random.default_rng(0))
    made = plan_for_capacities(planner, loads, [capacity] * loads.workers, config,
                               np.random.default_rng(0))  # fmt: skip
    assert made.owner.tolist() == plain.owner.tolist()
    assert made.verdicts == plain.verdicts


def test_a_key_too_heavy_for_the_strongest_worker_is_named() -> None:
    loads = KeyLoads.from_arrays([90.0, 5, 5], [1.0, 1, 1], [1, 0, 0], [1, 0, 0], 2)
    made = plan_for_capacities(keys.ALGORITHMS["cover"], loads, [3, 1], KeyConfig(),
                               np.random.default_rng(0))  # fmt: skip
    heavy = next(verdict for verdict in made.verdicts if verdict.code == "heavy_key")
    assert heavy.subject == "0"
    assert heavy.reachable == pytest.approx(0.2)  # 90 of a share of 75
    assert "the strongest one may have 81" in heavy.message


def snapshot(seed: int) -> OperatorSnapshot:
    rng = np.random.default_rng(seed)
    samples = rng.uniform(0.0, 0.1, (40, 10))
    series = LoadSeries(tuple(map(str, range(40))), samples, np.ones(40, dtype=bool))
    return OperatorSnapshot(series, 4, rng.integers(0, 4, 40).astype(np.int32))


@pytest.mark.parametrize("algorithm", ["cor-glb", "llf-glb", "variance"])
def test_operators_are_placed_by_capacity(algorithm: str) -> None:
    given_snapshot, config = snapshot(2), OperatorConfig(capacities=CAPACITIES, max_moves=40)
    made = plan_operators(algorithm, given_snapshot, config, np.random.default_rng(0))
    measured = operators.measure_operator_plan(given_snapshot, made.placement, config)
    assert measured.imbalance < 0.35
    loads = np.bincount(made.placement, weights=given_snapshot.load, minlength=4)
    assert load_over_share(loads.astype(np.float64), CAPACITIES).max() < 1.2
    assert made.verdicts == ()


def test_the_overload_rule_knows_each_workers_capacity() -> None:
    """Two bursts on the weak worker are more than it has, though less than the strong one has."""
    samples = np.array([[0.6, 0.0], [0.6, 0.0], [0.0, 0.6], [0.0, 0.6]])
    series = LoadSeries(tuple("abcd"), samples, np.ones(4, dtype=bool))
    s = OperatorSnapshot(series, 2, np.array([0, 0, 1, 1], dtype=np.int32))
    config = OperatorConfig(capacities=(2.0, 1.0), balance=10.0)
    made = plan_operators("cor-se-imp", s, config, np.random.default_rng(0))
    assert sorted(made.placement.tolist()) == [0, 0, 1, 1]
    assert made.placement[0] != made.placement[1]
    plain = plan_operators("cor-se-imp", s, OperatorConfig(capacity=2.0, balance=10.0),
                           np.random.default_rng(0))  # fmt: skip
    assert plain.placement.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("algorithm", ["leastcost", "herd", "partition", "ic", "mms"])
def test_queries_are_placed_by_capacity(algorithm: str) -> None:
    rng = np.random.default_rng(3)
    reads = [sorted({int(s) for s in rng.integers(0, 60, 2)}) for _ in range(2000)]
    fleet = queries.Fleet(np.array(CAPACITIES))
    problem = queries.PlacementProblem.of(Subscriptions.from_source_sets(reads), fleet)
    made = queries.plan_queries(problem, algorithm, rng)
    held = np.bincount(made.workers, minlength=4)
    assert load_over_share(held.astype(float), CAPACITIES).max() <= 1.06


@pytest.mark.parametrize("capacities", [[1.0], [1.0, 0.0], [1.0, float("nan")]])
def test_capacities_are_checked(capacities: list[float]) -> None:
    loads = KeyLoads.from_arrays([1.0, 1], [1.0, 1], [0, 1], [0, 1], 2)
    with pytest.raises(InputError, match="capacities"):
        plan_for_capacities(keys.ALGORITHMS["mixed"], loads, capacities, KeyConfig(),
                            np.random.default_rng(0))  # fmt: skip
