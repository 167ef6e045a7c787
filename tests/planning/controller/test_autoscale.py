"""The number of workers follows the load, in a closed loop, and does not flap."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tests.support.flows import history, keyed_demand, plans, run, whole_flow

from evenflow.errors import InputError
from evenflow.model import Plan, RoutingTable
from evenflow.planning.controller import Autoscale, Balancing, advise, propose, replay_history
from evenflow.research.synthetic_flow import SyntheticFlow

KEYS = 400
CONFIG = Balancing(autoscale=Autoscale(min=1, max=8))


def even_flow(
    load: Callable[[int], float], active: int = 8, noise: float = 0.0, seed: int = 0
) -> SyntheticFlow:
    """A keyed query over equal keys that needs `load` workers in a batch, on 8 workers."""
    demand = keyed_demand(lambda batch: np.full(KEYS, load(batch) / KEYS), KEYS)
    drained = frozenset(range(active, 8))
    plan = Plan(8, {}, {"counts": RoutingTable()}, drained)
    return SyntheticFlow({"counts": demand}, plan, noise=noise, seed=seed, drained=drained)


def follow(flow: SyntheticFlow, batches: int, config: Balancing = CONFIG) -> list[int]:
    """Run batches; return the active workers of each. What is drained stays so, as in a run."""
    counts = []
    for _ in range(batches):
        counts.append(len(flow.plan.active))
        flow.step(lambda seen, before: propose(seen, before, config))
        flow.drained = flow.next_plan.drained
    return counts


def test_advice_is_the_rate_of_arrival_over_the_true_rate_of_a_worker() -> None:
    flow = even_flow(lambda _: 2.1)
    run(flow, 10, Balancing())
    advice = advise(flow.snapshots, flow.decisions, Balancing())
    assert advice is not None
    assert advice.busy_workers == pytest.approx(2.1)
    assert advice.rows_per_second / advice.true_rate == pytest.approx(2.1, rel=0.01)
    assert advice.utilisation == pytest.approx(2.1 / 8)
    assert (advice.workers, advice.active) == (int(np.ceil(2.1 * 1.08 / 0.7)), 8)
    assert "needs 4 workers, 8 are active" in advice.message
    assert advise(flow.snapshots[:2], (), Balancing()) is None, "too few batches"


def test_workers_are_added_in_few_steps_when_the_load_rises() -> None:
    flow = even_flow(lambda batch: 1.0 if batch < 30 else 4.0, active=2)
    counts = follow(flow, 60)
    assert counts[:30] == [2] * 30, history(flow)
    assert counts[38:] == [7] * 22, "4.0 * 1.08 / 0.7, rounded up"
    assert float(flow.true_loads().max()) <= 0.7


def test_workers_are_removed_once_the_peak_fits_with_room_to_spare() -> None:
    flow = even_flow(lambda batch: 3.0 if batch < 30 else 1.0)
    counts = follow(flow, 100)
    assert counts[25] == 6, "3.0 * 1.08 / (0.8 * 0.7), rounded up"
    assert counts[-1] == 2
    assert len(plans(flow)) <= 4, history(flow)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("load", [1.29, 1.95, 2.6])
def test_a_noisy_load_at_a_boundary_does_not_flap(load: float, seed: int) -> None:
    flow = even_flow(lambda _: load, noise=0.1, seed=seed)
    counts = follow(flow, 150)
    changes = np.count_nonzero(np.diff(counts[40:]))
    assert changes <= 1, counts


def test_waves_are_followed_up_at_once_and_down_only_after_their_window() -> None:
    flow = even_flow(lambda batch: 2.0 + np.sin(batch / 2))  # a wave of 12 batches, window 16
    counts = follow(flow, 120)
    assert len(set(counts[40:])) == 1, counts
    assert float(flow.true_loads().max()) <= 0.85


def test_the_limits_are_kept_at_once_and_pinned_queries_stay() -> None:
    flow = whole_flow([0.1] * 4, [0, 1, 2, 3], 4)
    flow.queries["q3"] = replace(flow.queries["q3"], pinned=True)
    follow(flow, 4, Balancing(autoscale=Autoscale(min=1, max=2)))
    assert flow.plan.active == (0, 3)
    follow(flow, 6, Balancing(autoscale=Autoscale(min=3)))
    assert len(flow.plan.active) == 3


def test_a_budget_drains_in_stages() -> None:
    flow = whole_flow([0.05] * 12, [at % 4 for at in range(12)], 4)
    config = Balancing(autoscale=Autoscale(max=2), budget_items=2)
    counts = follow(flow, 30, config)
    assert counts[-1] <= 2, history(flow)
    assert {d.trigger for d in plans(flow)} >= {"autoscale", "staged"}


def test_fixed_cost_of_workers_is_not_divided_among_them() -> None:
    flow = even_flow(lambda _: 1.0)
    demand = flow.queries["counts"]
    flow.queries["counts"] = replace(demand, fixed_seconds=0.3)
    run(flow, 10, Balancing())
    advice = advise(flow.snapshots, flow.decisions, Balancing())
    assert advice is not None
    assert advice.workers == int(np.ceil(1.0 / (0.7 / 1.08 - 0.3)))
    flow.queries["counts"] = replace(demand, fixed_seconds=0.9)
    run(flow, 10, Balancing())
    endless = advise(flow.snapshots, flow.decisions, Balancing())
    assert endless is not None
    assert "batches must be longer" in endless.message


def test_replay_scales_as_the_run_did() -> None:
    flow = even_flow(lambda batch: 1.0 if batch < 20 else 4.0, active=3)
    follow(flow, 50)
    replayed = replay_history(flow.snapshots, CONFIG).decisions
    scaled = [(d.batch, d.trigger, d.plan.active) for d in replayed if d.plan]
    assert scaled == [(d.batch, d.trigger, d.plan.active) for d in plans(flow) if d.plan]
    assert [str(trigger) for _, trigger, _ in scaled].count("autoscale") >= 2


def test_no_load_removes_no_worker() -> None:
    flow = even_flow(lambda batch: 2.0 if batch < 20 else 0.0)
    counts = follow(flow, 60)
    assert counts[-1] == counts[22]


@pytest.mark.parametrize("limits", [{"min": 0}, {"min": 3, "max": 2}, {"target": 0.0}])
def test_limits_are_checked(limits: dict[str, float]) -> None:
    with pytest.raises(InputError, match="autoscale needs"):
        Autoscale(**limits)  # type: ignore[arg-type]
