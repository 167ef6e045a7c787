"""Workloads, calibration and whole experiments, figure 1 of the paper among them."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from evenflow.errors import InputError
from evenflow.planning.operators.load_statistics import correlations
from evenflow.research.operator_simulator.ideal_rates import ideal_loads
from evenflow.research.operator_simulator.network import OperatorNetwork
from evenflow.research.operator_simulator.simulation import (
    SimulationConfig,
    simulate_arrivals,
    simulate_network,
)
from evenflow.research.operator_simulator.simulation_report import shortest_delays
from evenflow.research.operator_simulator.workload import (
    ArrivalStream,
    calibrate_streams,
    chain_network,
    onoff_streams,
    periodic_streams,
    sample_rates,
)

SMALL = SimulationConfig(workers=4, operators=40, seconds=20, load=0.8)


def test_periodic_streams_alternate_between_two_rates() -> None:
    streams = periodic_streams(5, 100.0, 10.0, 4.0, np.random.default_rng(0))
    rates = sample_rates(streams, 100.0, 0.5)
    assert set(np.round(rates.ravel(), 6)) == {0.4, 1.6}
    assert rates.mean(axis=1) == pytest.approx(np.ones(5))
    offsets = {tuple(row[:20]) for row in np.round(rates, 6).tolist()}
    assert len(offsets) == 5


def test_offsets_give_correlations_from_minus_one_to_one() -> None:
    rho = correlations(
        sample_rates(periodic_streams(20, 100.0, 10.0, 4.0, np.random.default_rng(0)), 100, 1)
    )
    assert rho.min() == pytest.approx(-1)
    assert rho[np.triu_indices(20, 1)].max() > 0.85


def test_random_arrivals_keep_their_rate_and_spread() -> None:
    stream = ArrivalStream(
        np.array([0.0, 500.0, 1000.0]), np.array([0.0, 40_000.0, 50_000.0]), False
    )
    times = stream.draw_arrivals(np.random.default_rng(0))
    assert (np.diff(times) >= 0).all()
    assert (times < 500).sum() == pytest.approx(40_000, rel=0.02)
    gaps = np.diff(times[times < 500])
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.03)  # exponential


def test_on_off_streams_send_regularly_while_active_and_nothing_while_idle() -> None:
    stream = ArrivalStream(
        np.array([0.0, 5.0, 10.0, 15.0]), np.array([0.0, 50.0, 50.0, 100.0]), True
    )
    times = stream.draw_arrivals(np.random.default_rng(0))
    assert not ((times > 5) & (times < 10)).any()
    gaps = np.round(np.diff(times), 9)
    assert sorted(set(gaps.tolist()))[0] == pytest.approx(0.1)
    assert len(set(gaps.tolist())) == 2  # one gap spans the idle period


def test_on_off_streams_have_opposites() -> None:
    streams = onoff_streams(20, 400.0, 5.0, np.random.default_rng(1))
    rho = correlations(sample_rates(streams, 400.0, 1.0))
    assert rho.min() == pytest.approx(-1)
    assert len(streams) == 20
    assert set(np.round(sample_rates(streams, 400.0, 0.5), 6).ravel().tolist()) > {0.0, 2.0}


@pytest.mark.parametrize("workload", ["periodic", "onoff"])
def test_the_load_level_is_met(workload: str) -> None:
    report = simulate_network(
        replace(SMALL, workload=workload, load=0.6, seconds=60, plan="variance"), 1
    )
    assert report.system_load == pytest.approx(0.6, rel=0.03)


def test_calibration_meets_the_load_of_joins_too() -> None:
    join = OperatorNetwork.from_lists(
        [1e-3] * 3, [1.0, 1.0, 0.5], [(0, 0), (1, 1)], [(0, 2), (1, 2)], window=[0, 0, 0.1]
    )
    rng = np.random.default_rng(0)
    streams = calibrate_streams(join, periodic_streams(2, 50.0, 10.0, 4.0, rng), 2, 0.7, 50.0, rng)
    loads = ideal_loads(join, sample_rates(streams, 50.0, 1.0))
    assert loads.sum(axis=0).mean() / 2 == pytest.approx(0.7, rel=1e-6)


def test_figure_1_the_cut_plan_beats_the_connected_plan() -> None:
    """Two chains of two, bursts of 5 s in turn at twice the low rate, on two workers."""
    network = chain_network(4, 2, 0.001, 0.0, np.random.default_rng(0))
    streams = [
        ArrivalStream(
            np.arange(0.0, 125.0, 5.0), np.cumsum([0.0, *np.resize(order, 24)]) * 5, False
        )
        for order in ((560.0, 280.0), (280.0, 560.0))
    ]
    arrivals = [
        stream.draw_arrivals(np.random.default_rng(seed)) for seed, stream in enumerate(streams)
    ]
    still = SimulationConfig(workers=2, operators=4, seconds=100)
    cut, connected = (
        simulate_arrivals(
            still, network, arrivals, np.array(where, np.int32), np.random.default_rng(0)
        )
        for where in ([0, 1, 0, 1], [0, 0, 1, 1])
    )
    assert cut.latency_ratio is not None
    assert connected.latency_ratio is not None
    assert cut.latency_ratio < connected.latency_ratio / 5
    assert cut.system_load == pytest.approx(connected.system_load, rel=0.01)
    assert cut.mean_correlation > 0.5 > connected.mean_correlation


def test_one_seed_one_report() -> None:
    experiment = replace(SMALL, plan="cor-glb", rebalance="cor-se-imp")
    assert asdict(simulate_network(experiment, 3)) == asdict(simulate_network(experiment, 3))
    assert (
        simulate_network(experiment, 3).latency_ratio
        != simulate_network(experiment, 4).latency_ratio
    )


def test_correlation_lowers_latency() -> None:
    ratios = {}
    for algorithm in ("llf-glb", "cor-glb", "variance"):
        runs = [
            simulate_network(SimulationConfig(seconds=40, plan=algorithm), seed).latency_ratio
            for seed in range(2)
        ]
        ratios[algorithm] = np.mean([run for run in runs if run is not None])
    assert ratios["cor-glb"] < ratios["llf-glb"] / 1.5
    assert ratios["variance"] < ratios["llf-glb"] / 1.5


@pytest.mark.parametrize("algorithm", ["cor-se-imp", "variance"])
def test_rebalancing_recovers_from_a_connected_start(algorithm: str) -> None:
    stuck = simulate_network(SimulationConfig(seconds=40, load=0.8, start="connected"), 0)
    mended = simulate_network(
        SimulationConfig(seconds=40, load=0.8, start="connected", rebalance=algorithm), 0
    )
    assert stuck.moves == 0
    assert mended.moves > 0
    assert mended.mean_std < stuck.mean_std / 2
    assert mended.latency_ratio is not None
    assert stuck.latency_ratio is not None
    assert mended.latency_ratio < stuck.latency_ratio / 2


def test_reports_over_time_have_one_entry_a_second() -> None:
    report = simulate_network(replace(SMALL, rebalance="cor-bal"), 0)
    columns = asdict(report.timeline)
    assert {len(column) for column in columns.values()} == {20}
    assert columns["seconds"][0] == 20.0
    assert sum(columns["moves"]) == report.moves
    assert (np.array(columns["mean_std"]) >= np.array(columns["lower_bound_std"]) - 1e-12).all()


def test_the_delay_is_that_of_the_shortest_way() -> None:
    network = OperatorNetwork.from_lists(
        [1.0, 2.0, 4.0], [1.0] * 3, feeds=[(0, 0)], links=[(0, 1), (0, 2), (1, 2)]
    )
    assert shortest_delays(network).tolist() == [1.0, 3.0, 5.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"workers": 0}, "workers must be at least 1, got 0"),
        ({"load": float("nan")}, "load must be above 0"),
        ({"seconds": 0.0}, "seconds must be at least 1, got 0"),
        ({"workload": "steady"}, "workload must be one of periodic, onoff; got steady"),
        ({"start": "here"}, "start must be one of random, connected; got here"),
        ({"rebalance": "magic"}, "rebalance must be one of cor-bal"),
    ],
)
def test_experiments_are_checked(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(SMALL, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["window_seconds", "fluctuation_seconds", "cost_seconds"])
def test_times_that_cannot_be_zero_are_refused_by_name(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} must be above 0"):
        SimulationConfig(**{name: 0.0})  # type: ignore[arg-type]
