"""Arrivals, workers that go and come, staged plans, plans made on the side, what came of them."""

from dataclasses import replace

import numpy as np
import pytest
from tests.support.flows import history, plans, run, valid_plan, whole_flow, zipf_flow

from evenflow.model import (
    Move,
    Plan,
    RoutingTable,
    Snapshot,
    Transfer,
    Trigger,
    hash_keys,
    moves_between,
)
from evenflow.planning.controller import (
    Balancing,
    decide,
    decide_traffic_repair,
    is_still_valid,
    mean_query_loads,
    mean_stream_bytes,
    measure_outcome,
    place_arriving_queries,
    plan_traffic_repair,
    select_window,
)
from evenflow.planning.controller.config import CHOICES
from evenflow.planning.controller.stage import partial_plan
from evenflow.research.synthetic_flow import QueryDemand, SyntheticFlow


@pytest.mark.parametrize("queries", CHOICES["queries"])
def test_arrivals_fill_workers_evenly_and_never_drained_ones(queries: str) -> None:
    plan = Plan(4, {"q0": 2, "q1": 0}, drained=frozenset({2}))  # q0 has to leave
    streams = {f"q{at}": (f"s{min(at // 2 % 5, 2)}",) for at in range(300)}  # most read s2
    loads = {name: 1.0 + at % 4 for at, name in enumerate(streams)}
    placed = place_arriving_queries(
        plan, streams, loads, Balancing(queries=queries, absolute_slack=5.0)
    )
    assert placed.keys() == streams.keys() - {"q1"}
    where = {**plan.placement, **placed}
    filled = np.bincount(list(where.values()), [loads[name] for name in where], minlength=4)
    assert filled[2] == 0
    mean = sum(loads.values()) / 3
    if queries != "off":
        assert filled.max() <= max(1.05 * mean, mean + 5 * 2.5)
    if queries in ("leastcost", "herd"):  # each stream to about one worker, s2 to all
        assert len({(streams[name], worker) for name, worker in where.items()}) <= 5


def test_an_arrival_joins_its_stream_and_a_heavy_worker_is_passed_over() -> None:
    plan = Plan(2, {"a": 0, "b": 1, "c": 1})
    streams = {"a": ("s",), "b": ("t",), "c": ("t",), "new": ("s",)}
    assert place_arriving_queries(plan, streams, {}, Balancing()) == {"new": 0}
    tight = Balancing(slack=0.0, absolute_slack=0.0)
    assert place_arriving_queries(plan, streams, {"a": 9.0, "b": 1.0, "c": 1.0}, tight) == {
        "new": 1
    }


def drained_flow() -> SyntheticFlow:
    flow = zipf_flow(1000, 0.6, workers=4)
    for at in range(12):
        flow.add_query(f"q{at}", QueryDemand(lambda batch: np.array([0.1])), at % 4)
    return flow


def test_a_drained_worker_is_empty_two_batches_later_and_its_load_dealt_evenly() -> None:
    flow = drained_flow()
    run(flow, 4)
    flow.drained = frozenset({1})
    run(flow, 2)
    loads = flow.true_loads()
    assert loads[1] == 0.0
    assert flow.imbalance() <= 1.08, history(flow)


def test_a_worker_with_a_pinned_query_is_not_drained_and_the_query_is_named() -> None:
    flow = drained_flow()
    flow.add_query("fixed", QueryDemand(lambda batch: np.array([0.1]), pinned=True), 1)
    flow.drained = frozenset({1, 2})
    run(flow, 3)
    assert flow.plan.drained == {2}
    (verdict,) = flow.decisions[-1].verdicts
    assert (verdict.code, verdict.subject) == ("pinned_on_drained", "fixed")


def test_all_workers_cannot_be_drained() -> None:
    flow = drained_flow()
    flow.drained = frozenset(range(4))
    run(flow, 3)
    assert flow.plan.drained == frozenset()
    assert {verdict.code for verdict in flow.decisions[-1].verdicts} == {"all_drained"}


@pytest.mark.parametrize("order", ["hot", "small"])
def test_a_budget_spreads_a_plan_over_borders_in_the_order_asked(order: str) -> None:
    loads = [0.4, 0.3, 0.2, 0.1, 0.1, 0.1]
    flow = whole_flow(loads, [0] * 6, 3)
    flow.queries = {
        name: QueryDemand(query.key_seconds, state_bytes=float(6 - at))
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
    flow = whole_flow([0.5, 0.5, 0.5, 0.5], [0, 0, 0, 0], 4, state_bytes=1e6)
    run(flow, 12, Balancing(budget_bytes=10.0))
    assert flow.imbalance() == pytest.approx(1.0)
    assert all(len(decision.moves) == 1 for decision in plans(flow))


def test_a_drain_under_a_budget_ends_with_an_empty_worker() -> None:
    flow = drained_flow()
    flow.drained = frozenset({1})
    run(flow, 2, Balancing(budget_items=1))
    assert flow.next_plan.drained == frozenset()  # its queries go first
    run(flow, 12, Balancing(budget_items=1))
    assert flow.plan.drained == {1}
    assert flow.true_loads()[1] == 0.0


def test_a_target_is_dropped_when_it_no_longer_helps() -> None:
    flow = whole_flow([0.4, 0.4, 0.4, 0.1], [0, 0, 0, 1], 3)
    run(flow, 3, Balancing(budget_items=1))
    assert plans(flow)[-1].target is not None
    flow.remove_query("q0")
    flow.remove_query("q1")
    run(flow, 4, Balancing(budget_items=1))
    assert flow.decisions[-1].reason in ("balanced", "infeasible", "gain_too_small")


def test_plans_between_two_lead_from_one_to_the_other() -> None:
    hashes = np.sort(hash_keys(np.arange(50)))
    one = Plan(4, {"q": 0}, {"k": RoutingTable.from_entries(hashes[:20], [1] * 20)})
    two = Plan(4, {"q": 3}, {"k": RoutingTable.from_entries(hashes[10:40], [2] * 30)})
    todo = list(moves_between(one, two))
    halfway = partial_plan(one, two, todo[: len(todo) // 2])
    assert set(moves_between(one, halfway)) == set(todo[: len(todo) // 2])
    assert set(moves_between(halfway, two)) == set(todo[len(todo) // 2 :])
    assert moves_between(partial_plan(one, two, todo), two) == ()


def herded() -> SyntheticFlow:
    """Queries of eight streams, each stream on nearly every worker."""
    queries = {
        f"q{at}": QueryDemand(lambda batch: np.array([0.1]), streams=(f"s{at % 8}",))
        for at in range(160)
    }
    places = np.random.default_rng(0).permutation(np.arange(160) % 4)
    return SyntheticFlow(queries, Plan(4, {f"q{at}": int(w) for at, w in enumerate(places)}))


@pytest.mark.parametrize("repair", CHOICES["repair"])
def test_a_plan_made_on_the_side_ships_less(repair: str) -> None:
    flow, config = herded(), Balancing(repair=repair)
    run(flow, 4, config)
    plan = plan_traffic_repair(flow.snapshots, config)
    valid_plan(flow, plan)
    assert is_still_valid(plan, flow.snapshots[-1])
    decision = decide_traffic_repair(plan, flow.snapshots, flow.decisions, config)
    if repair == "off":
        assert (decision.plan, decision.reason) == (None, "gain_too_small")
        return
    assert decision.plan is not None, decision.reason
    assert decision.predicted is not None
    assert decision.predicted.shipped_bytes <= 0.6 * decision.before.shipped_bytes
    assert decision.predicted.imbalance <= 1.08


def test_a_plan_made_on_the_side_is_followed_when_queries_came_and_went() -> None:
    flow, config = herded(), Balancing(repair="repair")
    run(flow, 4, config)
    plan = plan_traffic_repair(flow.snapshots, config)
    flow.remove_query("q0")
    flow.add_query(
        "new", QueryDemand(lambda batch: np.array([0.1]), streams=("s1",), pinned=True), 2
    )
    run(flow, 1, config)
    decision = decide_traffic_repair(plan, flow.snapshots, flow.decisions, config)
    assert decision.plan is not None, decision.reason
    assert decision.plan.placement.keys() == flow.queries.keys()
    assert decision.plan.placement["new"] == 2


@pytest.mark.parametrize("change", ["drained", "pinned"])
def test_a_plan_made_on_the_side_is_dropped_when_it_does_not_fit_any_more(change: str) -> None:
    flow, config = herded(), Balancing(repair="repair")
    run(flow, 4, config)
    plan = plan_traffic_repair(flow.snapshots, config)
    if change == "drained":
        flow.drained = frozenset({1})
    else:
        moved = next(name for name, at in plan.placement.items() if at != flow.plan.placement[name])
        flow.queries[moved] = replace(flow.queries[moved], pinned=True)
    run(flow, 1, config)
    assert not is_still_valid(plan, flow.snapshots[-1])
    assert decide_traffic_repair(plan, flow.snapshots, flow.decisions, config).reason == "stale"


def test_a_plan_made_on_the_side_must_pay_for_the_state_it_moves() -> None:
    flow, config = herded(), Balancing(repair="partition")
    flow.queries = {name: replace(query, state_bytes=1e7) for name, query in flow.queries.items()}
    run(flow, 4, config)
    plan = plan_traffic_repair(flow.snapshots, config)
    assert (
        decide_traffic_repair(plan, flow.snapshots, flow.decisions, config).reason
        == "gain_too_small"
    )
    patient = replace(config, payback=100_000)
    assert decide_traffic_repair(plan, flow.snapshots, flow.decisions, patient).plan is not None


def test_a_plan_made_on_the_side_takes_nothing_back_that_has_just_moved() -> None:
    flow, config = herded(), Balancing(repair="partition")
    run(flow, 4, config)
    plan = plan_traffic_repair(flow.snapshots, config)
    name, there = next(
        (name, at) for name, at in plan.placement.items() if at != flow.plan.placement[name]
    )
    flow.decisions[-1] = replace(
        flow.decisions[-1], moves=(Move(name, there, flow.plan.placement[name]),)
    )
    decision = decide_traffic_repair(plan, flow.snapshots, flow.decisions, config)
    assert decision.plan is not None, decision.reason
    assert decision.plan.placement[name] == flow.plan.placement[name]


def test_plans_made_on_the_side_move_whole_types_though_no_two_loads_are_equal() -> None:
    """40 types over pairs of 12 streams: 88 copies of streams are left if queries move singly."""
    rng = np.random.default_rng(1)
    loads = rng.uniform(0.1, 0.15, 800)
    kinds = [tuple(f"s{at}" for at in rng.choice(12, 2, replace=False)) for _ in range(40)]
    queries = {
        f"q{at}": QueryDemand(lambda batch, at=at: loads[at : at + 1], streams=kinds[at % 40])  # type: ignore[misc]
        for at in range(800)
    }
    places = {f"q{at}": int(rng.integers(8)) for at in range(800)}
    flow, config = SyntheticFlow(queries, Plan(8, places)), Balancing(repair="repair")
    run(flow, 4, config)
    plan = plan_traffic_repair(flow.snapshots, config)
    copies = {(at, plan.placement[name]) for name, q in flow.queries.items() for at in q.streams}
    assert len(copies) <= 65


def test_batches_without_work_are_not_all_that_is_remembered() -> None:
    flow, config = whole_flow([0.5, 0.5, 0.1, 0.1], [0, 0, 1, 1], 2), Balancing(window=4)
    for _ in range(3):
        flow.snapshots.append(replace(flow.observe(), batch=flow.batch))
        flow.batch += 1
    busy, nothing = flow.snapshots[-1], np.zeros(2)
    idle = {name: replace(load, load=nothing) for name, load in busy.queries.items()}
    for _ in range(6):
        flow.snapshots.append(
            replace(
                busy,
                batch=flow.batch,
                queries=idle,
                shipped_bytes={},
                worker_cpu_seconds=nothing + 0.01,
            )
        )
        flow.batch += 1
    decision = decide(flow.snapshots, [], config)
    assert decision.reason == "queries", decision.message
    assert [snapshot.batch for snapshot in select_window(flow.snapshots, 3)] == [1, 2, 8]
    assert mean_query_loads(select_window(flow.snapshots, 4), ["q0"])["q0"] == pytest.approx(0.5)


def test_a_query_that_has_just_come_counts_with_what_it_needs() -> None:
    flow = whole_flow([0.5], [0], 2)
    run(flow, 7)
    flow.add_query("new", QueryDemand(lambda batch: np.array([0.3])), 1)
    run(flow, 1)
    assert mean_query_loads(flow.snapshots, flow.queries) == pytest.approx({"q0": 0.5, "new": 0.3})


def test_the_outcome_is_measured_under_the_plan() -> None:
    flow = zipf_flow(1000, 0.85, workers=4)
    run(flow, 4)
    decision = plans(flow)[0]
    assert measure_outcome(decision, flow.snapshots) is None
    run(flow, 4)
    handing = decision.batch + 1
    given = (Transfer("counts", 0, 1, 3), Transfer("counts", 2, 1, 4))
    flow.snapshots[handing] = replace(flow.snapshots[handing], transfers=given)
    found = measure_outcome(decision, flow.snapshots)
    assert found is not None
    assert decision.predicted is not None
    assert found.measured.imbalance == pytest.approx(decision.predicted.imbalance, rel=1e-3)
    assert (found.decision, found.handed_bytes, found.handed) == (decision.batch, 7, given)
    assert (found.pause_seconds, found.duration_seconds) == (0.0, 1.0)
    shipped = decision.before.shipped_bytes, decision.predicted.shipped_bytes
    assert (*shipped, found.measured.shipped_bytes) == (0, 0, 0), "no whole query"


def test_the_outcome_is_told_though_other_keys_moved_before_there_was_work() -> None:
    flow = zipf_flow(1000, 0.85, workers=4)
    run(flow, 6)
    decision = plans(flow)[0]
    assert decision.plan is not None
    seen = [snapshot for snapshot in flow.snapshots if snapshot.batch <= decision.batch + 1]
    later = hash_keys(np.arange(5000, 5002))
    table = decision.plan.tables["counts"]
    more = RoutingTable.from_entries(np.concatenate([table.hashes, later]), [*table.owners, 0, 1])
    after = replace(
        flow.snapshots[-1], plan=replace(decision.plan, tables={"counts": more}), batch=9
    )
    assert measure_outcome(decision, seen) is None
    assert measure_outcome(decision, [*seen, after]) is not None
    back = replace(after, plan=replace(decision.plan, tables={"counts": RoutingTable()}))
    assert measure_outcome(decision, [*seen, back]) is None, "its keys are elsewhere again"


def test_planning_twice_changes_nothing() -> None:
    flow = zipf_flow(1000, 0.85, workers=4)
    run(flow, 6)
    settled = decide(flow.snapshots, [], Balancing(samples=1, cooldown=0))
    assert settled.plan is None


def without_rows(flow: SyntheticFlow) -> Snapshot:
    """A batch in which nothing came: no load, and no keys are told."""
    last = flow.observe()
    none = np.zeros(flow.plan.workers)
    queries = {
        name: replace(query, load=none, cpu_seconds=none, keys=None)
        for name, query in last.queries.items()
    }
    return replace(last, queries=queries, shipped_bytes={}, workers_to_drain=flow.drained)


def test_a_budget_holds_for_keys_when_a_drain_is_asked_while_no_rows_flow() -> None:
    flow = zipf_flow(50, 1.0, workers=4)
    flow.queries = {name: replace(query, state_bytes=10.0) for name, query in flow.queries.items()}
    run(flow, 4)
    flow.drained = frozenset({1})
    seen = [*flow.snapshots, without_rows(flow)]
    assert seen[-1].idle
    asked = Balancing(budget_bytes=20.0)
    decision = decide(seen, flow.decisions, asked)
    assert decision.trigger == "drain"
    assert decision.target is not None, "keys with 10 bytes each are moved two at a border"
    assert 0 < decision.moved_bytes <= 20


def test_a_pin_asked_for_while_no_rows_flow_holds() -> None:
    flow = whole_flow([0.5, 0.5, 0.5, 0.1], [0, 0, 0, 1], 2)
    for _ in range(4):
        flow.step(lambda snapshots, decisions: decide(snapshots, decisions, Balancing.off()))
    last = without_rows(flow)
    pinned = {name: replace(query, pinned=True) for name, query in last.queries.items()}
    free = decide([*flow.snapshots, last], [], Balancing())
    held = decide([*flow.snapshots, replace(last, queries=pinned)], [], Balancing())
    assert free.moves
    assert not held.moves


def test_batches_without_work_lower_no_rate_and_are_no_samples() -> None:
    flow = whole_flow([0.5, 0.5], [0, 1], 2, streams=("s",))
    flow.stream_rates = {"s": 100.0}
    run(flow, 1)
    seen = [*flow.snapshots, without_rows(flow)]
    assert mean_stream_bytes(seen) == {"s": 100.0}
    assert [s.idle for s in select_window(seen, window=1)] == [False, True]
    assert mean_stream_bytes(seen[1:]) == {}


def test_the_rest_of_a_plan_for_traffic_is_followed_though_the_load_is_even() -> None:
    queries = {
        name: QueryDemand(lambda batch: np.array([0.5]), streams=(stream,))
        for name, stream in zip("abcd", "stts", strict=True)
    }
    flow = SyntheticFlow(queries, Plan(2, {"a": 0, "b": 0, "c": 1, "d": 1}))
    run(flow, 4)
    assert flow.decisions[-1].reason == "balanced"
    together = replace(flow.plan, placement={"a": 0, "b": 1, "c": 1, "d": 0})
    before = replace(flow.decisions[-1], trigger=Trigger.TRAFFIC, plan=flow.plan, target=together)
    decision = decide(flow.snapshots, [*flow.decisions[:-1], before], Balancing())
    assert decision.trigger == "staged"
    assert decision.plan == together
    assert decision.predicted is not None
    assert decision.predicted.shipped_bytes < decision.before.shipped_bytes
