"""Super-operators, domains and the decentralised run (section 4.3)."""

import numpy as np
import pytest
from tests.support.operator_cases import bursts, snapshot

from evenflow.errors import InputError
from evenflow.planning.operators.large_clusters import (
    cluster_operators,
    disjoint_domains,
    overlapping_domains,
    plan_clustered,
    plan_decentralised,
    plan_domains,
    restrict_to_workers,
)
from evenflow.planning.operators.metrics import measure_operator_plan
from evenflow.planning.operators.problem import OperatorConfig, OperatorSnapshot

CONFIG = OperatorConfig()


def scattered(operators: int, workers: int, seed: int, scale: float = 1.0) -> OperatorSnapshot:
    placement = np.random.default_rng(seed).integers(0, workers, operators)
    return snapshot(bursts(operators, 8, seed) * scale, workers, placement, pinned=(0,))


def test_super_operators_carry_enough_load_and_stay_on_one_worker() -> None:
    s = scattered(60, 4, 1)
    clusters = cluster_operators(s, least_load=0.3)
    inner = clusters.snapshot
    assert inner.samples.sum(axis=0) == pytest.approx(s.samples.sum(axis=0))
    assert (inner.placement[clusters.cluster_of] == s.placement).all()
    assert not inner.series.movable[clusters.cluster_of[0]]
    assert (np.bincount(clusters.cluster_of)[clusters.cluster_of[0]]) == 1  # pinned: alone
    light = inner.series.movable & (inner.load < 0.3)
    assert not light.any()


def test_nothing_is_bundled_without_a_least_load() -> None:
    s = scattered(10, 2, 1)
    assert cluster_operators(s, 0.0).cluster_of.tolist() == list(range(10))


def test_members_of_a_super_operator_move_together() -> None:
    s = scattered(80, 4, 2)
    clusters = cluster_operators(s, 0.25)
    after = plan_clustered("cor-glb", s, CONFIG, np.random.default_rng(0), 0.25).placement
    for group in range(clusters.cluster_of.max() + 1):
        assert len(set(after[clusters.cluster_of == group].tolist())) == 1
    assert measure_operator_plan(s, after).mean_std < measure_operator_plan(s, s.placement).mean_std


def test_disjoint_domains_cover_each_worker_once_with_even_load() -> None:
    loads = np.random.default_rng(0).uniform(0, 1, size=43)
    domains = disjoint_domains(loads, 10)
    assert np.sort(np.concatenate(domains)).tolist() == list(range(43))
    means = [loads[domain].mean() for domain in domains]
    assert max(means) - min(means) < 0.1


def test_a_domain_needs_two_workers() -> None:
    with pytest.raises(InputError, match="at least 2 workers, got 1"):
        disjoint_domains(np.ones(4), 1)


@pytest.mark.parametrize("algorithm", ["cor-se-imp", "cor-glb", "variance"])
@pytest.mark.parametrize("overlap", [False, True])
def test_operators_stay_in_their_domain(algorithm: str, overlap: bool) -> None:
    s = scattered(120, 12, 3, scale=0.8)
    loads = np.bincount(s.placement, weights=s.load, minlength=12).astype(float)
    domains = overlapping_domains(12, 4)[::2] if overlap else disjoint_domains(loads, 4)
    after = plan_domains(algorithm, s, CONFIG, np.random.default_rng(0), domains)
    assert after[0] == s.placement[0]
    assert (
        measure_operator_plan(s, after).mean_variance
        < measure_operator_plan(s, s.placement).mean_variance
    )
    if not overlap:
        domain_of = {int(w): number for number, domain in enumerate(domains) for w in domain}
        assert all(domain_of[a] == domain_of[b] for a, b in zip(after, s.placement, strict=True))


@pytest.mark.parametrize("algorithm", ["cor-glb", "variance", "llf-glb"])
def test_new_operators_are_shared_out_to_domains(algorithm: str) -> None:
    s = snapshot(bursts(120, 8, 5), 12)
    after = plan_domains(
        algorithm, s, CONFIG, np.random.default_rng(0), disjoint_domains(np.zeros(12), 4)
    )
    assert after.min() >= 0
    assert measure_operator_plan(s, after).imbalance < 0.25


def test_a_domain_is_planned_from_its_own_load_alone() -> None:
    s = scattered(60, 6, 7)
    louder = s.samples.copy()
    louder[s.placement >= 3] *= 7
    other = OperatorSnapshot(
        type(s.series)(s.series.operators, louder, s.series.movable), 6, s.placement
    )
    domains = [np.arange(3), np.arange(3, 6)]
    one, two = (
        plan_domains("cor-se-imp", x, CONFIG, np.random.default_rng(0), domains) for x in (s, other)
    )
    inside = s.placement < 3
    assert (one[inside] == two[inside]).all()


def test_restricting_keeps_loads_and_renumbers_workers() -> None:
    s = scattered(30, 5, 8)
    part, here = restrict_to_workers(s, s.placement, np.array([4, 1]))
    assert part.workers == 2
    assert (np.array([4, 1])[part.placement] == s.placement[here]).all()
    assert part.samples.tolist() == s.samples[here].tolist()


def test_a_decentralised_run_evens_load_step_by_step() -> None:
    s = scattered(200, 16, 9)
    spread = [
        measure_operator_plan(
            s, plan_decentralised("cor-se", s, CONFIG, np.random.default_rng(0), 6, rounds)
        )
        for rounds in (0, 1, 4)
    ]
    assert spread[0].imbalance > spread[1].imbalance > spread[2].imbalance
    assert spread[0].moved_operators == 0
    assert spread[2].mean_std < spread[0].mean_std


def test_a_decentralised_worker_exchanges_within_its_domain_only() -> None:
    s = scattered(60, 10, 10)
    after = plan_decentralised("cor-bal", s, CONFIG, np.random.default_rng(0), 3, rounds=1)
    moved = after != s.placement
    assert moved.any()
    hops = (after[moved] - s.placement[moved]) % 10
    assert set(hops.tolist()) <= {1, 2, 8, 9}


def test_a_decentralised_run_needs_running_operators() -> None:
    with pytest.raises(InputError, match="needs a worker for every operator"):
        plan_decentralised(
            "cor-bal", snapshot(bursts(4, 4, 0), 2), CONFIG, np.random.default_rng(0), 2
        )
