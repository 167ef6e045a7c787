"""The simulator against closed forms, its plain version and what must never happen."""

import numpy as np
import pytest

from evenflow.errors import InputError
from evenflow.model.arrays import Floats
from evenflow.planning.operators.kernel_rng import seed_state
from evenflow.research.operator_simulator.cluster import Cluster
from evenflow.research.operator_simulator.network import OperatorNetwork
from evenflow.research.operator_simulator.plain_cluster import PlainCluster
from evenflow.research.operator_simulator.workload import merge_arrivals

DIAMOND = OperatorNetwork.from_lists(  # branch, union, join, with selectivities
    cost=[0.01, 0.02, 0.01, 0.015, 0.01, 0.005],
    selectivity=[1.3, 0.7, 2.0, 1.0, 0.5, 1.0],
    feeds=[(0, 0), (1, 4)],
    links=[(0, 1), (0, 2), (1, 3), (2, 3), (3, 5), (4, 5)],
    window=[0, 0, 0, 0, 0, 0.2],
)


def poisson(rate: float, seconds: float, rng: np.random.Generator) -> Floats:
    times = np.cumsum(rng.exponential(1 / rate, size=int(rate * seconds * 1.2 + 50)))
    return times[times < seconds]


def chain(length: int, selectivity: float = 1.0, cost: float = 0.001) -> OperatorNetwork:
    links = [(o, o + 1) for o in range(length - 1)]
    return OperatorNetwork.from_lists(
        np.full(length, cost), np.full(length, selectivity), [(0, 0)], links
    )


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_mean_waiting_time_is_that_of_an_md1_queue(load: float) -> None:
    times = poisson(load, 1_500_000, np.random.default_rng(1))
    cluster = Cluster(chain(1, cost=1.0), 1, [0], times, np.zeros(len(times), dtype=np.int64))
    cluster.run_until(until=2e6)
    waiting = cluster.latencies().mean() - 1.0
    assert waiting == pytest.approx(load / (2 * (1 - load)), rel=0.02)


def test_a_worker_serves_its_operators_one_at_a_time() -> None:
    times = np.zeros(3)
    cluster = Cluster(chain(2, cost=1.0), 1, [0, 0], times, np.zeros(3, dtype=np.int64))
    cluster.run_until(until=100.0)
    assert cluster.outputs().left_at.tolist() == [4.0, 5.0, 6.0]  # first in, first out
    assert cluster.busy_seconds.tolist() == [6.0]


@pytest.mark.parametrize("seed", range(5))
def test_kernel_equals_plain_version(seed: int) -> None:
    """Branch, union, join, fractional selectivities, two moves that overlap in time."""
    rng = np.random.default_rng(seed)
    times, sources = merge_arrivals([poisson(15, 20, rng), poisson(10, 20, rng)])
    before = rng.integers(0, 3, size=6).astype(np.int32)
    between, after = before.copy(), before.copy()
    between[[0, 5]] = (before[[0, 5]] + 1) % 3
    after[:] = between
    after[[1, 3]] = (before[[1, 3]] + 2) % 3
    cluster = Cluster(DIAMOND, 3, before, times, sources, np.random.default_rng(seed))
    cluster.run_until(until=5.0)
    cluster.move(between.astype(np.int32), seconds=2.0)
    cluster.run_until(until=6.0)
    cluster.move(after.astype(np.int32), seconds=2.0)
    cluster.run_until(until=60.0)
    plain = PlainCluster(DIAMOND, 3, before, seed_state(np.random.default_rng(seed)))
    goals = [
        (5.0, 7.0, {0: int(between[0]), 5: int(between[5])}),
        (6.0, 8.0, {1: int(after[1]), 3: int(after[3])}),
    ]
    plain.run(times, sources, goals, until=60.0)
    outputs = cluster.outputs()
    columns = outputs.sink.tolist(), outputs.born_at.tolist(), outputs.left_at.tolist()
    found = list(zip(*columns, strict=True))
    assert len(found) > 100
    assert found == plain.outputs


def test_no_tuple_is_lost_or_doubled_across_moves() -> None:
    rng = np.random.default_rng(0)
    times, sources = merge_arrivals([poisson(300, 30, rng)])
    cluster = Cluster(chain(6), 3, [0] * 6, times, sources)
    for tick in range(1, 31):
        cluster.run_until(until=float(tick))
        movable = np.setdiff1d(np.arange(6), cluster.moving_operators)
        goal = cluster.placement
        goal[movable] = rng.integers(0, 3, size=len(movable))
        cluster.move(goal, seconds=float(rng.uniform(0, 3)))
        counts = cluster.tuple_counts()
        assert (counts["arrived"] == counts["served"] + counts["waiting"]).all()
    cluster.run_until(until=1000.0)
    outputs = cluster.outputs()
    assert len(outputs.sink) == len(times)
    assert outputs.born_at.tolist() == times.tolist()  # every one, once, in order
    assert (np.diff(outputs.left_at) >= 0).all()


def test_order_survives_an_instant_move_of_the_tuple_in_service() -> None:
    times = np.array([0.0, 0.1])
    cluster = Cluster(chain(1, cost=1.0), 2, [0], times, np.zeros(2, dtype=np.int64))
    cluster.run_until(until=0.5)
    cluster.move(np.array([1], dtype=np.int32), seconds=0.0)
    cluster.run_until(until=10.0)
    assert cluster.outputs().born_at.tolist() == [0.0, 0.1]
    assert cluster.outputs().left_at.tolist() == [1.0, 2.0]
    assert cluster.busy_seconds.tolist() == [1.0, 1.0]


def test_suspended_operators_do_nothing_and_others_go_on() -> None:
    times = np.array([0.0, 1.0, 2.0])
    network = OperatorNetwork.from_lists([0.1, 0.1], [1.0, 1.0], feeds=[(0, 0), (0, 1)])
    cluster = Cluster(network, 2, [0, 0], times, np.zeros(3, dtype=np.int64))
    cluster.run_until(until=0.5)
    cluster.move(np.array([1, 0], dtype=np.int32), seconds=5.0)
    cluster.run_until(until=50.0)
    outputs = cluster.outputs()
    assert outputs.left_at[outputs.sink == 0].tolist() == pytest.approx([0.1, 5.6, 5.7])
    assert outputs.left_at[outputs.sink == 1].tolist() == pytest.approx([0.2, 1.1, 2.1])


def test_an_operator_on_its_way_cannot_be_moved_again() -> None:
    cluster = Cluster(chain(1), 2, [0], np.zeros(0), np.zeros(0, dtype=np.int64))
    cluster.move(np.array([1], dtype=np.int32), seconds=1.0)
    with pytest.raises(InputError, match="before its move ends"):
        cluster.move(np.array([0], dtype=np.int32), seconds=1.0)


def test_a_join_meets_every_pair_once() -> None:
    rng = np.random.default_rng(3)
    one, two = poisson(20, 50, rng), poisson(20, 50, rng)
    join = OperatorNetwork.from_lists(
        [0.01, 0.002, 0.001], [1.0, 1.0, 1.0], [(0, 0), (1, 1)], [(0, 2), (1, 2)],
        window=[0, 0, 0.3],
    )  # fmt: skip
    cluster = Cluster(join, 2, [0, 1, 1], *merge_arrivals([one, two]))
    cluster.run_until(until=100.0)
    pairs = np.abs(np.subtract.outer(one, two)) <= 0.3
    assert len(cluster.outputs().sink) == pairs.sum()
    later = np.maximum.outer(one, two)[pairs]
    assert sorted(cluster.outputs().born_at.tolist()) == pytest.approx(
        sorted(later.tolist()), abs=0.3
    )


def test_selectivity_keeps_its_mean() -> None:
    times = np.linspace(0.0, 2000.0, 200_000)
    network = chain(1, selectivity=1.2)
    cluster = Cluster(network, 1, [0], times, np.zeros(len(times), dtype=np.int64))
    cluster.run_until(until=1e5)
    assert len(cluster.outputs().sink) / len(times) == pytest.approx(1.2, rel=0.01)
    assert set(np.bincount(np.searchsorted(times, cluster.outputs().born_at))) == {1, 2}


def test_unsorted_arrivals_are_refused() -> None:
    with pytest.raises(InputError, match="sorted"):
        Cluster(chain(1), 1, [0], np.array([1.0, 0.0]), np.zeros(2, dtype=np.int64))


def test_a_network_with_a_loop_is_refused() -> None:
    with pytest.raises(InputError, match="loop"):
        OperatorNetwork.from_lists([1.0, 1.0], [1.0, 1.0], [(0, 0)], [(0, 1), (1, 0)])


def test_a_join_of_one_input_is_refused() -> None:
    with pytest.raises(InputError, match="a join takes two"):
        OperatorNetwork.from_lists([1.0], [1.0], [(0, 0)], window=[1.0])
