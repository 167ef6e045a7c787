"""Arrivals, workers that go and come, staged plans, plans made on the side, what came of them."""

import numpy as np
import pytest
from tests.planning.joint.flows import history, plans, run, whole_flow, zipf_flow

from evenflow.model import Plan, RoutingTable, hash_keys, moves
from evenflow.planning.joint import (
    Balancing,
    adopt,
    arrive,
    decide,
    global_plan,
    outcome,
    still_valid,
)
from evenflow.planning.joint.staging import between
from evenflow.simulation.flow import Demand, SyntheticFlow


@pytest.mark.parametrize("queries", ["herd", "leastcost", "off"])
def test_arrivals_fill_workers_evenly_and_never_drained_ones(queries: str) -> None:
    plan = Plan(4, drained=frozenset({2}))
    streams = {f"q{at}": (f"s{at % 3}",) for at in range(300)}
    placed = arrive(plan, streams, {}, Balancing(queries=queries))
    counts = np.bincount(list(placed.values()), minlength=4)
    assert counts[2] == 0
    assert counts.sum() == 300
    assert counts.max() <= 110
    if queries != "off":  # each stream to about one worker
        assert len({(streams[name], worker) for name, worker in placed.items()}) <= 5


def test_an_arrival_joins_its_stream_and_a_heavy_worker_is_passed_over() -> None:
    plan = Plan(2, {"a": 0, "b": 1, "c": 1})
    streams = {"a": ("s",), "b": ("t",), "c": ("t",), "new": ("s",)}
    assert arrive(plan, streams, {}, Balancing()) == {"new": 0}
    tight = Balancing(slack=0.0, absolute_slack=0.0)
    assert arrive(plan, streams, {"a": 9.0, "b": 1.0, "c": 1.0}, tight) == {"new": 1}


def drained_flow() -> SyntheticFlow:
    flow = zipf_flow(1000, 0.6, workers=4)
    for at in range(12):
        flow.arrive(f"q{at}", Demand(lambda batch: np.array([0.1])), at % 4)
    return flow


def test_a_drained_worker_is_empty_two_batches_later_and_its_load_dealt_evenly() -> None:
    flow = drained_flow()
    run(flow, 4)
    flow.drain = frozenset({1})
    run(flow, 2)
    loads = flow.true_loads()
    assert loads[1] == 0.0
    assert flow.imbalance() <= 1.08, history(flow)


def test_a_worker_with_a_pinned_query_is_not_drained_and_the_query_is_named() -> None:
    flow = drained_flow()
    flow.arrive("fixed", Demand(lambda batch: np.array([0.1]), pinned=True), 1)
    flow.drain = frozenset({1, 2})
    run(flow, 3)
    assert flow.plan.drained == {2}
    (verdict,) = flow.decisions[-1].verdicts
    assert (verdict.code, verdict.subject) == ("pinned_on_drained", "fixed")


def test_all_workers_cannot_be_drained() -> None:
    flow = drained_flow()
    flow.drain = frozenset(range(4))
    run(flow, 3)
    assert flow.plan.drained == frozenset()
    assert {verdict.code for verdict in flow.decisions[-1].verdicts} == {"all_drained"}


@pytest.mark.parametrize("order", ["hot", "small"])
def test_a_budget_spreads_a_plan_over_borders_in_the_order_asked(order: str) -> None:
    loads = [0.4, 0.3, 0.2, 0.1, 0.1, 0.1]
    flow = whole_flow(loads, [0] * 6, 3)
    flow.queries = {
        name: Demand(query.load, state=float(6 - at))
        for at, (name, query) in enumerate(flow.queries.items())
    }
    run(flow, 12, Balancing(budget_items=1, order=order))
    made = [decision.moves[0].query for decision in plans(flow)]
    assert len(made) > 1
    assert all(len(decision.moves) == 1 for decision in plans(flow))
    names = sorted(made, key=lambda name: int(name[1:]), reverse=order == "small")
    assert made == names
    assert flow.imbalance() <= 1.08
    assert plans(flow)[-1].target is None


def test_a_budget_of_bytes_still_lets_a_larger_item_through() -> None:
    flow = whole_flow([0.5, 0.5, 0.5, 0.5], [0, 0, 0, 0], 4, state=1e6)
    run(flow, 12, Balancing(budget_bytes=10.0))
    assert flow.imbalance() == pytest.approx(1.0)
    assert all(len(decision.moves) == 1 for decision in plans(flow))


def test_a_drain_under_a_budget_ends_with_an_empty_worker() -> None:
    flow = drained_flow()
    flow.drain = frozenset({1})
    run(flow, 2, Balancing(budget_items=1))
    assert flow.following.drained == frozenset()  # its queries go first
    run(flow, 12, Balancing(budget_items=1))
    assert flow.plan.drained == {1}
    assert flow.true_loads()[1] == 0.0


def test_a_target_is_dropped_when_it_no_longer_helps() -> None:
    flow = whole_flow([0.4, 0.4, 0.4, 0.1], [0, 0, 0, 1], 3)
    run(flow, 3, Balancing(budget_items=1))
    assert plans(flow)[-1].target is not None
    flow.leave("q0")
    flow.leave("q1")
    run(flow, 4, Balancing(budget_items=1))
    assert flow.decisions[-1].reason in ("balanced", "infeasible", "gain_too_small")


def test_plans_between_two_lead_from_one_to_the_other() -> None:
    hashes = np.sort(hash_keys(np.arange(50)))
    one = Plan(4, {"q": 0}, {"k": RoutingTable.of(hashes[:20], [1] * 20)})
    two = Plan(4, {"q": 3}, {"k": RoutingTable.of(hashes[10:40], [2] * 30)})
    todo = list(moves(one, two))
    halfway = between(one, two, todo[: len(todo) // 2])
    assert set(moves(one, halfway)) == set(todo[: len(todo) // 2])
    assert set(moves(halfway, two)) == set(todo[len(todo) // 2 :])
    assert moves(between(one, two, todo), two) == ()


def herded() -> SyntheticFlow:
    """Queries of eight streams, each stream on nearly every worker."""
    queries = {
        f"q{at}": Demand(lambda batch: np.array([0.1]), streams=(f"s{at % 8}",)) for at in range(40)
    }
    places = np.random.default_rng(0).permutation(np.arange(40) % 4)
    return SyntheticFlow(queries, Plan(4, {f"q{at}": int(w) for at, w in enumerate(places)}))


def test_a_plan_made_on_the_side_ships_less() -> None:
    flow, config = herded(), Balancing(repair="partition")
    run(flow, 4, config)
    plan = global_plan(flow.snapshots, config)
    assert still_valid(plan, flow.snapshots[-1])
    decision = adopt(plan, flow.snapshots, config)
    assert decision.plan is not None, decision.reason
    assert decision.predicted is not None
    assert decision.predicted.shipped_bytes <= 0.6 * decision.before.shipped_bytes
    assert decision.predicted.imbalance <= 1.08


def test_a_plan_made_on_the_side_is_dropped_when_the_flow_has_changed() -> None:
    flow, config = herded(), Balancing(repair="repair")
    run(flow, 4, config)
    plan = global_plan(flow.snapshots, config)
    flow.leave("q0")
    run(flow, 1, config)
    assert not still_valid(plan, flow.snapshots[-1])
    assert adopt(plan, flow.snapshots, config).reason == "stale"


def test_the_outcome_is_measured_under_the_plan() -> None:
    flow = zipf_flow(1000, 0.85, workers=4)
    run(flow, 4)
    decision = plans(flow)[0]
    assert outcome(decision, flow.snapshots) is None
    run(flow, 4)
    found = outcome(decision, flow.snapshots, handed_bytes=7)
    assert found is not None
    assert decision.predicted is not None
    assert found.measured.imbalance == pytest.approx(decision.predicted.imbalance, rel=1e-3)
    assert (found.decision, found.handed_bytes) == (decision.batch, 7)


def test_planning_twice_changes_nothing() -> None:
    flow = zipf_flow(1000, 0.85, workers=4)
    run(flow, 6)
    settled = decide(flow.snapshots, [], Balancing(samples=1, cooldown=0))
    assert settled.plan is None
