"""What limits a plan: budgets, the price of source traffic, levels that are off."""

from functools import partial

import numpy as np
import pytest
from tests.support.flows import history, plans, run, whole_flow, zipf_flow

from evenflow.model import Plan, RoutingTable, hash_keys
from evenflow.model.arrays import Floats
from evenflow.planning.controller import Balancing
from evenflow.planning.controller.predict import moved_bytes
from evenflow.research.synthetic_flow import QueryDemand, SyntheticFlow


def outgrown_flow() -> SyntheticFlow:
    """Two whole queries that could be keyed, each too heavy for a worker."""
    keys = hash_keys(np.arange(400))
    demand = QueryDemand(lambda batch: np.full(400, 0.9 / 400), keys, state_bytes=100.0)
    return SyntheticFlow({"a": demand, "b": demand}, Plan(4, {"a": 0, "b": 1}))


def test_queries_become_keyed_one_at_a_time_under_a_budget() -> None:
    at_once = outgrown_flow()
    run(at_once, 12)
    assert len(plans(at_once)[0].moves) == 2
    flow = outgrown_flow()
    run(flow, 12, Balancing(budget_items=1))
    assert [len(decision.moves) for decision in plans(flow)] == [1, 1], history(flow)
    assert flow.plan.tables.keys() == {"a", "b"}
    assert flow.imbalance() <= 1.08


def test_a_step_that_cannot_keep_to_the_budget_says_so() -> None:
    config = Balancing(budget_bytes=1e4)
    flow = outgrown_flow()
    run(flow, 12, config)
    assert {verdict.code for one in plans(flow) for verdict in one.verdicts} == {"over_budget"}
    light = zipf_flow(3000, 0.3, workers=4)
    light.heavy_keys = 5
    run(light, 4, config)
    light.drained = frozenset({1})
    run(light, 8, config)
    last = plans(light)[-1]
    assert last.plan is not None
    assert (last.plan.drained, last.moved_bytes > 1e4) == (frozenset({1}), True)
    assert [verdict.code for verdict in last.verdicts] == ["over_budget"]
    assert f"{last.moved_bytes:,.0f} bytes, the budget is 10,000" in last.verdicts[0].message


@pytest.mark.parametrize(
    ("off", "flow"),
    [
        ("keys", zipf_flow(2000, 1.0)),
        ("operators", whole_flow([0.5, 0.5, 0.1], [0, 0, 1], 2)),
    ],
)
def test_a_level_that_is_off_is_the_reason_why_load_stays_uneven(
    off: str, flow: SyntheticFlow
) -> None:
    found = run(flow, 6, Balancing(**{off: "off"}, promote=False))  # type: ignore[arg-type]
    assert found[-1] > 1.08
    assert plans(flow) == []
    assert flow.decisions[-1].reason == "off"


def _always(load: Floats, _batch: int) -> Floats:
    return load


def shipped(operators: str, price: float) -> tuple[float, float]:
    """Return bytes shipped by the plan and imbalance: three queries a stream, three workers of
    four in use.
    """
    rng = np.random.default_rng(0)
    loads = rng.uniform(0.1, 0.5, (24, 1))
    queries = {
        f"q{at}": QueryDemand(partial(_always, load), streams=(f"s{at // 3}",))
        for at, load in enumerate(loads)
    }
    places = {f"q{at}": (at // 3) % 3 for at in range(24)}
    flow = SyntheticFlow(queries, Plan(4, places))
    found = run(flow, 20, Balancing(operators=operators, traffic_price=price))
    return float(sum(sent.sum() for sent in flow.snapshots[-1].shipped_bytes.values())), found[-1]


@pytest.mark.parametrize("operators", ["variance", "cor-se-imp", "llf-bal"])
def test_source_traffic_has_its_price_whichever_planner_is_asked(operators: str) -> None:
    free, even = shipped(operators, 0.0)
    dear, uneven = shipped(operators, 1.0)
    prohibitive, _ = shipped(operators, 100.0)
    assert prohibitive <= dear < free
    assert prohibitive == 8000.0  # each of eight streams to one worker, as before
    assert even <= 1.08 < uneven


def test_a_keyed_query_that_becomes_whole_brings_all_its_state_but_what_is_there() -> None:
    flow = SyntheticFlow(
        {
            "k": QueryDemand(
                lambda batch: np.full(100, 0.01), hash_keys(np.arange(100)), state_bytes=10.0
            )
        },
        Plan(4, tables={"k": RoutingTable()}),
    )
    run(flow, 1, Balancing.off())
    (snapshot,) = flow.snapshots
    here = float(snapshot.queries["k"].state_bytes[2])
    assert moved_bytes(flow.plan, Plan(4, {"k": 2}), snapshot) == 1000.0 - here
