"""The initial plan after a warm-up, and large clusters that are planned in parts."""

from collections.abc import Callable

import numpy as np
import pytest
from tests.support.flows import history, plans, run, whole_flow

from evenflow.errors import InputError
from evenflow.model import imbalance
from evenflow.planning.controller import Balancing
from evenflow.research.synthetic_flow import SyntheticFlow


def pulse(phase: int) -> Callable[[int], float]:
    """Return a load that is high in one of two batches."""
    return lambda batch: 0.4 if (batch + phase) % 2 else 0.1


def in_step(workers: int = 4, queries: int = 16) -> SyntheticFlow:
    """Return queries of two phases; those of one worker burst together."""
    places = [at * workers // queries for at in range(queries)]
    return whole_flow([pulse(place % 2) for place in places], places, workers)


@pytest.mark.parametrize("initial", ["cor-glb", "variance"])
def test_all_queries_are_placed_afresh_once_when_the_warm_up_ends(initial: str) -> None:
    flow = in_step()
    run(flow, 20, Balancing(operators="off", initial=initial, warm_up=6, samples=3))
    [plan] = plans(flow)
    assert (plan.batch, plan.trigger, plan.reason) == (5, "initial", "queries")
    assert "placed afresh by" in plan.message
    busiest = [imbalance(s.worker_loads()) for s in flow.snapshots]
    assert min(busiest[:6]) > 1.5, "bursts coincide"
    assert max(busiest[8:]) < 1.01, "each worker has both phases"


def test_no_initial_plan_without_the_setting_or_when_nothing_is_planned() -> None:
    for config in (
        Balancing(operators="off"),
        Balancing(mode="off", initial="cor-glb").effective(),
    ):
        flow = in_step()
        run(flow, 20, config)
        assert not plans(flow)


def test_a_run_that_is_long_past_its_warm_up_is_left_alone() -> None:
    flow = in_step()
    run(flow, 30, Balancing.off())
    run(flow, 5, Balancing(operators="off", initial="cor-glb", warm_up=6))
    assert not plans(flow)


@pytest.mark.parametrize("way", ["domains", "overlapping", "pairs", "central"])
@pytest.mark.parametrize("operators", ["cor-se-imp", "variance"])
def test_many_workers_are_evened_in_parts(way: str, operators: str) -> None:
    loads = np.random.default_rng(2).uniform(0.02, 0.1, 240)
    flow = whole_flow(loads.tolist(), [at // 20 for at in range(240)], 24)
    config = Balancing(
        operators=operators,
        large_cluster=way,
        large_workers=8,
        large_queries=120,
        domain_size=6,
        cooldown=0,
    )
    seen = run(flow, 20, config)
    assert max(seen[:3]) > 1.5, "half of the workers have all queries"
    assert seen[-1] < 1.7, history(flow)
    assert plans(flow)[0].trigger == "imbalance"


def test_settings_are_checked() -> None:
    for name, value in (("warm_up", 0), ("domain_size", 1), ("large_queries", 0)):
        with pytest.raises(InputError, match=name):
            Balancing(**{name: value})  # type: ignore[arg-type]
    assert Balancing(window=4, samples=2).initial == "off", "then a warm-up is never counted"
    with pytest.raises(InputError, match="warm_up must be between 1 and window = 16, got 17"):
        Balancing(initial="cor-glb", warm_up=17)
    with pytest.raises(InputError, match="large_cluster must be one of"):
        Balancing(large_cluster="halves")
