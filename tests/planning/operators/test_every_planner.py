"""What every operator planner must do, and what each promises beyond that."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.operator_cases import bursts, operator_rows, snapshot, snapshots

from evenflow.errors import InputError
from evenflow.model.arrays import NOWHERE, Floats, Workers
from evenflow.planning.operators.correlation_score import centred_correlation
from evenflow.planning.operators.exact import least_variance_placement, least_variance_plain
from evenflow.planning.operators.metrics import measure_operator_plan
from evenflow.planning.operators.pairwise import EXCHANGE, correlation_round, pair_by_load
from evenflow.planning.operators.problem import OperatorConfig, OperatorSnapshot, SourceTraffic
from evenflow.planning.operators.registry import ALGORITHMS, plan_operators
from evenflow.planning.operators.relabel_workers import relabel_workers
from evenflow.planning.operators.variance import plan_static, variance_objective

ONE_WAY = ("cor-bal", "llf-bal", "rand-bal")
CONFIG = OperatorConfig()
HEURISTICS = [name for name in ALGORITHMS if name != "exact"]


def planned(
    algorithm: str, s: OperatorSnapshot, config: OperatorConfig = CONFIG, seed: int = 0
) -> Workers:
    return plan_operators(algorithm, s, config, np.random.default_rng(seed)).placement


def worker_loads(s: OperatorSnapshot, placement: Workers) -> Floats:
    return np.bincount(placement, weights=s.load, minlength=s.workers).astype(float)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_operator_has_a_worker_and_pinned_ones_keep_theirs(
    algorithm: str, data: st.DataObject
) -> None:
    s = data.draw(snapshots(max_operators=8, max_workers=3))
    placement = planned(algorithm, s)
    assert placement.shape == s.placement.shape
    assert ((placement >= 0) & (placement < s.workers)).all()
    pinned = ~s.series.movable
    assert (placement[pinned] == s.placement[pinned]).all()
    assert worker_loads(s, placement).sum() == pytest.approx(s.load.sum())
    assert (placement == planned(algorithm, s)).all()  # one seed, one plan


@pytest.mark.parametrize("algorithm", HEURISTICS)
def test_new_operators_are_placed_and_running_ones_count(algorithm: str) -> None:
    samples = bursts(12, 6, 4)
    samples[:3] *= 5
    placement = np.full(12, NOWHERE, dtype=np.int32)
    placement[:3] = 0
    s = snapshot(samples, 3, placement, pinned=(0, 1, 2))
    after = planned(algorithm, s)
    assert (after[:3] == 0).all()
    loads = worker_loads(s, after)
    assert loads[1:].min() > 0
    assert measure_operator_plan(s, after).moved_operators == 0


@pytest.mark.parametrize("algorithm", ONE_WAY)
@settings(max_examples=60, deadline=None)
@given(s=snapshots(max_workers=2))
def test_one_way_never_overshoots(algorithm: str, s: OperatorSnapshot) -> None:
    before, after = worker_loads(s, s.placement), worker_loads(s, planned(algorithm, s))
    if s.workers < 2:
        return
    full = int(np.argmax(before))
    sent = before[full] - after[full]
    assert sent >= 0
    assert sent == 0 or sent < (before[full] - before[1 - full]) / 2
    assert after[full] >= after[1 - full] - 1e-9  # the two never change order
    if before[full] - before[1 - full] <= CONFIG.balance:
        assert sent == 0


@settings(max_examples=60, deadline=None)
@given(s=snapshots(max_workers=2))
def test_improvement_is_accepted_only_if_correlation_rises(s: OperatorSnapshot) -> None:
    if s.workers < 2:
        return
    placement, rows = s.placement.copy(), operator_rows(s)
    correlation_round(EXCHANGE, 0.8, np.zeros(2), 0.2, rows, placement, 2)
    if (placement != s.placement).any():
        before, after = (
            centred_correlation(*(rows.deviations[p == w].sum(axis=0) for w in (0, 1)))
            for p in (s.placement, placement)
        )
        assert before < 0.8
        assert after > before


def test_improvement_waits_until_a_worker_is_likely_to_be_overloaded() -> None:
    high, low = [0.5, 0.1], [0.1, 0.5]
    s = snapshot(np.array([high, high, low, low]), 2, np.array([0, 0, 1, 1]))
    calm = planned("cor-se-imp", s, OperatorConfig(capacity=1.1))
    assert (calm == s.placement).all()
    bursting = planned("cor-se-imp", s, OperatorConfig(capacity=0.8))
    assert measure_operator_plan(s, bursting).mean_std == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("algorithm", ["cor-re", "cor-se", "cor-re-imp", "cor-se-imp", "variance"])
def test_bursts_that_coincide_are_taken_apart(algorithm: str) -> None:
    """Two workers, each with operators that burst together, one of them overloaded."""
    high, low = [0.6, 0.2] * 3, [0.2, 0.6] * 3
    samples = np.array([high, high, high, low, low])
    s = snapshot(samples, 2, np.array([0, 0, 0, 1, 1]))
    assert (
        measure_operator_plan(s, planned(algorithm, s)).mean_variance
        < measure_operator_plan(s, s.placement).mean_variance
    )


def test_exchange_threshold_trades_moves_for_quality() -> None:
    s = snapshot(bursts(60, 10, 2), 6, np.random.default_rng(0).integers(0, 6, 60))
    moved = [
        measure_operator_plan(
            s, planned("cor-se-imp", s, OperatorConfig(exchange=delta, capacity=0.5))
        )
        for delta in (0.05, 0.9)
    ]
    assert moved[0].moved_load > moved[1].moved_load
    assert moved[0].mean_std < moved[1].mean_std


@pytest.mark.parametrize("algorithm", HEURISTICS)
def test_a_single_sample_leaves_load_balancing(algorithm: str) -> None:
    samples = np.array([[0.4], [0.3], [0.2], [0.1]])
    running = np.zeros(4, dtype=np.int32)
    s = snapshot(samples, 2, running)
    after = planned(algorithm, s)
    loads = worker_loads(s, after)
    assert abs(loads[0] - loads[1]) < 0.4
    assert measure_operator_plan(s, after).mean_correlation == 0.0
    assert measure_operator_plan(s, after).mean_variance == 0.0


def test_pairs_join_the_fullest_with_the_emptiest() -> None:
    assert pair_by_load(np.array([0.5, 0.9, 0.1, 0.5, 0.7])) == [(1, 2), (4, 3)]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("workers", [2, 3])
def test_exact_is_the_best_of_all_placements(seed: int, workers: int) -> None:
    running = np.zeros(7, dtype=np.int32)
    s = snapshot(bursts(7, 4, seed), workers, running, pinned=(seed,))
    placement, proved = least_variance_placement(s, CONFIG, np.random.default_rng(0))
    rows = s.samples / 2.0
    fixed = np.zeros((workers, 4))
    fixed[0] = rows[seed]
    best, _ = least_variance_plain(np.delete(rows, seed, axis=0), fixed, workers)
    assert proved
    assert variance_objective(s, placement) == pytest.approx(
        best - s.load.sum() ** 2 / workers, rel=1e-6
    )


@pytest.mark.parametrize("seed", range(5))
def test_variance_comes_close_to_the_optimum(seed: int) -> None:
    s = snapshot(bursts(12, 6, seed), 3)
    best, proved = least_variance_placement(s, CONFIG, np.random.default_rng(0))
    found = plan_static(s, CONFIG, np.random.default_rng(1))
    assert proved
    assert (
        variance_objective(s, best) - 1e-9
        <= variance_objective(s, found)
        <= 1.05 * variance_objective(s, best)
    )
    correlated = planned("cor-glb", s)
    assert variance_objective(s, found) <= variance_objective(s, correlated) + 1e-12


def test_exact_says_so_when_the_optimum_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenflow.planning.operators.exact.MAX_STEPS", 1000)
    verdicts = plan_operators(
        "exact", snapshot(bursts(40, 6, 0), 5), CONFIG, np.random.default_rng(0)
    )
    assert "optimum_not_proved" in [verdict.code for verdict in verdicts.verdicts]


@pytest.mark.parametrize("algorithm", ["llf-glb", "cor-glb", "variance"])
def test_no_plan_beats_theorem_1(algorithm: str) -> None:
    s = snapshot(bursts(50, 10, 1), 5)
    found = measure_operator_plan(s, planned(algorithm, s))
    assert found.mean_std >= found.lower_bound_std
    if algorithm != "llf-glb":
        assert found.mean_std < measure_operator_plan(s, planned("llf-glb", s)).mean_std


def test_dynamic_variance_moves_only_what_pays() -> None:
    s = snapshot(bursts(60, 10, 3), 6, np.random.default_rng(1).integers(0, 6, 60))
    cheap = planned("variance", s, OperatorConfig(move_price=0.001))
    dear = planned("variance", s, OperatorConfig(move_price=0.2))
    capped = planned("variance", s, OperatorConfig(move_price=0.001, max_moves=5))
    assert (
        0 < measure_operator_plan(s, dear).moved_load < measure_operator_plan(s, cheap).moved_load
    )
    assert measure_operator_plan(s, capped).moved_operators <= 5
    for after in (cheap, dear, capped):
        gain = variance_objective(s, s.placement) - variance_objective(s, after)
        assert gain > 0
    gain = variance_objective(s, s.placement) - variance_objective(s, dear)
    assert gain > 0.2 * measure_operator_plan(s, dear).moved_load


def test_dynamic_variance_leaves_its_own_plan_alone() -> None:
    s = snapshot(bursts(60, 10, 3), 6, np.random.default_rng(1).integers(0, 6, 60))
    after = planned("variance", s, OperatorConfig(max_moves=1000))
    again = OperatorSnapshot(s.series, 6, after)
    assert (planned("variance", again, OperatorConfig(max_moves=1000)) == after).all()


@pytest.mark.parametrize("running", [True, False], ids=["dynamic", "static"])
def test_a_price_on_traffic_ships_less_and_varies_more(running: bool) -> None:
    rng = np.random.default_rng(5)
    placement = rng.integers(0, 4, 40) if running else None
    s = snapshot(bursts(40, 10, 5), 4, placement)
    reads = [[int(source)] for source in rng.integers(0, 8, size=40)]
    free, priced = (SourceTraffic.of(reads, np.ones(8), price) for price in (0.0, 0.02))
    config = OperatorConfig(move_price=0.0, traffic=free)
    without = planned("variance", s, config)
    within = planned("variance", s, OperatorConfig(move_price=0.0, traffic=priced))
    assert priced.shipped_rate(within, 4) < priced.shipped_rate(without, 4)
    assert variance_objective(s, within) >= variance_objective(s, without)
    total = [variance_objective(s, p) + 0.02 * priced.shipped_rate(p, 4) for p in (without, within)]
    assert total[1] < total[0]


@settings(max_examples=30, deadline=None)
@given(s=snapshots(max_operators=10, max_workers=4), seed=st.integers(0, 1000))
def test_renaming_workers_moves_as_little_as_any_names(s: OperatorSnapshot, seed: int) -> None:
    goal = np.random.default_rng(seed).integers(0, s.workers, len(s.load)).astype(np.int32)
    goal = np.where(s.series.movable, goal, s.placement).astype(np.int32)
    renamed = relabel_workers(s, goal)
    assert (renamed[~s.series.movable] == s.placement[~s.series.movable]).all()
    bound = set(s.placement[~s.series.movable].tolist())
    names = [
        np.array(order)
        for order in permutations(range(s.workers))
        if all(order[worker] == worker for worker in bound)
    ]
    least = min(
        measure_operator_plan(s, order[goal].astype(np.int32)).moved_load for order in names
    )
    assert measure_operator_plan(s, renamed).moved_load == pytest.approx(least, abs=1e-9)


def test_operators_that_cannot_fit_are_named() -> None:
    s = snapshot(np.array([[1.5, 1.5], [0.8, 0.8], [0.1, 0.1]]), 2)
    verdicts = {
        str(v.code): v
        for v in plan_operators("llf-glb", s, CONFIG, np.random.default_rng(0)).verdicts
    }
    assert verdicts["operator_exceeds_worker"].subject == "o0"
    assert verdicts["total_exceeds_capacity"].reachable == pytest.approx(1.2)
    assert "at least 3" in verdicts["total_exceeds_capacity"].message
    assert verdicts["bursts_exceed_capacity"].subject == "worker 0"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"balance": -0.1}, "balance must be a number of at least 0, got -0.1"),
        ({"exchange": float("nan")}, "exchange must be"),
        ({"correlation": 1.5}, "correlation must lie in -1..1, got 1.5"),
        ({"capacity": 0.0}, "capacity must be above 0"),
    ],
)
def test_thresholds_are_checked(change: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        OperatorConfig(**change)  # type: ignore[arg-type]


def test_an_immovable_operator_needs_a_worker() -> None:
    with pytest.raises(InputError, match="o1 is not movable and has no worker"):
        snapshot(bursts(3, 4, 0), 2, pinned=(1,))


def test_unknown_algorithms_are_named_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="unknown algorithm best; choose one of cor-bal"):
        planned("best", snapshot(bursts(3, 4, 0), 2))
