"""The settings of the paper planners reach them on a running system."""

from dataclasses import replace

import numpy as np
import pytest
from tests.support.flows import run, whole_flow, zipf_flow

from evenflow.model import KeyLoads
from evenflow.planning import operators
from evenflow.planning.controller import Balancing, decide, plan_queries, rebalance_keys
from evenflow.planning.keys import ALGORITHMS, KeyConfig, KeyPlan
from evenflow.planning.operators import OperatorConfig, OperatorPlan, OperatorSnapshot


def configs_of_operators(monkeypatch: pytest.MonkeyPatch, balancing: Balancing) -> OperatorConfig:
    """Return what the planner of whole queries is given, in batches of two seconds."""
    seen: list[OperatorConfig] = []

    def record(
        name: str, snapshot: OperatorSnapshot, config: OperatorConfig, rng: np.random.Generator
    ) -> OperatorPlan:
        seen.append(config)
        return operators.plan_operators(name, snapshot, config, rng)

    monkeypatch.setattr(plan_queries, "plan_operators", record)
    flow = whole_flow([0.4, 0.2, 0.1, 0.1], [0, 0, 0, 1], 2)
    run(flow, 4, Balancing.off())
    slow = [replace(snapshot, interval_seconds=2.0) for snapshot in flow.snapshots]
    decide(slow, (), balancing)
    return seen[0]


def test_thresholds_of_the_correlation_planners(monkeypatch: pytest.MonkeyPatch) -> None:
    given = configs_of_operators(
        monkeypatch, Balancing(operators="cor-se", delta=0.35, theta=0.6, capacity=0.5)
    )
    assert (given.exchange, given.correlation) == (0.35, 0.6)
    assert given.capacity == pytest.approx(1.0), "half of two seconds"
    assert given.balance * given.capacity == pytest.approx(0.02 * 0.4), "relative to the mean load"


def test_a_steady_worker_within_the_bound_is_not_taken_for_overloaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = configs_of_operators(monkeypatch, Balancing(operators="cor-re"))
    assert given.capacity == pytest.approx(1.08 * 0.4)
    usual = configs_of_operators(monkeypatch, Balancing(operators="variance", capacity=0.5))
    assert usual.capacity == pytest.approx(0.4), "the unit of loads, no threshold"


def test_beta_reaches_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    given, mixed = [], ALGORITHMS["mixed"]

    def record(keys: KeyLoads, config: KeyConfig, rng: np.random.Generator) -> KeyPlan:
        given.append(config.beta)
        return mixed(keys, config, rng)

    monkeypatch.setattr(rebalance_keys, "ALGORITHMS", {"mixed": record})
    run(zipf_flow(300), 4, Balancing(keys="mixed", beta=0.7))
    assert set(given) == {0.7}
