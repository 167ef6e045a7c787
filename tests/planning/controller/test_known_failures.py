"""Reported failures of other systems' balancers, each as a test of ours."""

import numpy as np
import pytest
from tests.support.flows import (
    history,
    keyed_demand,
    nothing_returns,
    plans,
    run,
    whole_flow,
    zipf_flow,
)

from evenflow.model import Plan, RoutingTable, hash_keys, home_workers
from evenflow.model.arrays import Floats
from evenflow.planning.controller import Balancing
from evenflow.research.synthetic_flow import SyntheticFlow

BOUND = 1.08


def test_pulsar_16059_two_loaded_workers_do_not_unload_onto_each_other() -> None:
    """Whoever has the heavy query is overloaded; moving it, or its company, must end."""
    flow = whole_flow([0.6, 0.3, 0.3, 0.05], [0, 0, 1, 1], 2)
    run(flow, 50)
    assert len(plans(flow)) <= 1, history(flow)
    lone = whole_flow([0.9, 0.1], [0, 1], 2)
    run(lone, 50)
    assert plans(lone) == []
    assert lone.decisions[-1].reason == "infeasible"


@pytest.mark.parametrize(("noise", "within", "worst"), [(0.0, 2, 1.11), (0.05, 16, 1.22)])
def test_feldera_6187_slow_drift_is_acted_on(noise: float, within: int, worst: float) -> None:
    """One worker's keys grow by 1 % of the mean each batch: no step is large, the sum is."""
    keys = 400
    first = home_workers(hash_keys(np.arange(keys)), 4) == 0
    flat = np.where(first, 1 / first.sum(), 3 / (~first).sum())

    def costs(batch: int) -> Floats:
        grown: Floats = flat * (1 + 0.01 * max(batch - 5, 0) * first)
        return grown

    flow = SyntheticFlow(
        {"counts": keyed_demand(costs, keys)},
        Plan(4, {}, {"counts": RoutingTable()}),
        noise=noise,
    )
    found = run(flow, 60)
    broken = next(at for at, value in enumerate(found) if value > BOUND)
    assert plans(flow)[0].batch - broken <= within, history(flow)
    assert len(plans(flow)) >= 2
    assert max(found) <= worst, history(flow)


def test_feldera_6187_slow_drift_of_whole_queries_is_acted_on() -> None:
    """They burst, so they are averaged over the window: half of it is how late a drift is seen."""

    def growing(batch: int) -> float:
        return 0.01 * (1 + 0.01 * max(batch - 5, 0))

    flow = whole_flow([growing, 0.01, 0.01, 0.01] * 100, [0, 1, 2, 3] * 100, 4)
    found = run(flow, 60)
    broken = next(at for at, value in enumerate(found) if value > BOUND)
    assert plans(flow)[0].batch - broken <= Balancing().window // 2, history(flow)
    assert max(found) <= 1.15, history(flow)


def test_feldera_6985_one_hot_worker_is_not_hidden_by_many_even_ones() -> None:
    """The mean over 64 workers hardly changes; the busiest one decides how long a batch takes."""
    places = [at % 64 for at in range(256)] + [5, 5, 5]
    flow = whole_flow([0.1] * len(places), places, 64)
    found = run(flow, 10)
    assert found[0] > 1.7
    assert found[-1] < 1.3, history(flow)


def test_storm_8590_a_worker_that_returns_gets_load_within_two_batches() -> None:
    flow = zipf_flow(2000, 0.85, workers=4)
    flow.plan = flow.next_plan = Plan(4, {}, flow.plan.tables, frozenset({3}))
    flow.drained = frozenset({3})
    for at in range(6):
        flow.queries[f"q{at}"] = whole_flow([0.2], [0], 1).queries["q0"]
        flow.plan = flow.next_plan = Plan(
            4, {**flow.plan.placement, f"q{at}": at % 3}, flow.plan.tables, frozenset({3})
        )
    run(flow, 5)
    flow.drained = frozenset()
    run(flow, 2)
    loads = flow.true_loads()
    assert loads[3] >= 0.8 * loads.mean(), history(flow)
    run(flow, 4)
    assert flow.imbalance() <= BOUND


def test_flink_35814_two_hot_keys_side_by_side_are_separated() -> None:
    """Both have the same home; whichever range or hash puts them together, a table parts them."""
    keys = 4000
    homes = home_workers(hash_keys(np.arange(keys)), 4)
    hot = np.flatnonzero(homes == 1)[:2]
    costs = np.full(keys, 0.0005)
    costs[hot] = 0.5
    flow = SyntheticFlow(
        {"counts": keyed_demand(lambda batch: costs, keys)},
        Plan(4, {}, {"counts": RoutingTable()}),
    )
    found = run(flow, 8)
    assert found[0] > 1.6
    assert found[-1] <= BOUND, history(flow)
    owners = flow.plan.route("counts", hash_keys(hot))
    assert owners[0] != owners[1]


def test_a_worker_that_stalls_for_one_batch_is_used_again_and_nothing_moves() -> None:
    flow = zipf_flow(2000, 0.85, workers=4)
    flow.stalls = frozenset({(20, 2), (33, 0)})
    run(flow, 45)
    assert len(plans(flow)) == 1, history(flow)
    nothing_returns(flow, Balancing().cooldown)
    assert flow.true_loads().min() > 0


@pytest.mark.parametrize("period", [2, 3, 4])
def test_a_worker_that_is_idle_again_and_again_is_no_reason_to_wait(period: int) -> None:
    """A stream with rows in every other batch is not held up, it is like that."""

    def pulsing(batch: int) -> float:
        return 0.2 if batch % period == 0 else 0.0

    flow = whole_flow([0.5, 0.5, 0.5, pulsing], [0, 0, 0, 1], 2)
    run(flow, 12)
    assert plans(flow), history(flow)
    assert plans(flow)[0].batch <= 5
    assert np.bincount(list(flow.plan.placement.values())[:3]).max() == 2
