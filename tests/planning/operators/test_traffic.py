"""The price of traffic in parts of a cluster: each operator keeps its own sources."""

import numpy as np
import pytest

from evenflow.errors import InputError
from evenflow.model import LoadSeries
from evenflow.planning.operators import (
    OperatorConfig,
    SourceTraffic,
    disjoint_domains,
    plan_clustered,
    plan_domains,
    plan_operators,
)
from evenflow.planning.operators.problem import OperatorSnapshot


def snapshot(running: bool) -> OperatorSnapshot:
    samples = np.random.default_rng(0).uniform(0.05, 0.15, (24, 6))
    series = LoadSeries(tuple(f"o{i}" for i in range(24)), samples, np.ones(24, dtype=np.bool_))
    placed = OperatorSnapshot(series, 4, np.arange(24, dtype=np.int32) % 4)
    return placed if running else OperatorSnapshot(series, 4)


TRAFFIC = SourceTraffic.of([[i % 6] for i in range(24)], rates=[1.0] * 6, price=0.05)


@pytest.mark.parametrize("running", [True, False])
def test_domains_and_clusters_know_the_sources_of_their_operators(running: bool) -> None:
    rng, config = np.random.default_rng(1), OperatorConfig(traffic=TRAFFIC)
    given = snapshot(running)
    halves = disjoint_domains(np.ones(4), 2)
    domains = plan_domains("variance", given, config, rng, halves)
    assert sorted(set(domains.tolist())) == [0, 1, 2, 3]
    clustered = plan_clustered("variance", given, config, rng, least_load=0.12)
    assert len(clustered.placement) == 24


def test_traffic_of_other_operators_is_refused() -> None:
    config = OperatorConfig(traffic=SourceTraffic.of([[0]], rates=[1.0], price=0.1))
    with pytest.raises(InputError, match="traffic is given for 1 operators, the snapshot has 24"):
        plan_operators("variance", snapshot(True), config, np.random.default_rng(0))
