"""`propose` always returns a decision: a requested plan first, then the planners, then repair."""

from dataclasses import replace

from tests.support.flows import run, whole_flow

from evenflow.model import Decision, Plan, Reason, Trigger, VerdictCode
from evenflow.planning.controller import (
    Balancing,
    RequestedPlan,
    decide,
    is_repair_due,
    plan_traffic_repair,
    propose,
    replay_history,
    same_plan,
    used_repair,
)
from evenflow.research.synthetic_flow import QueryDemand, SyntheticFlow


def even_flow() -> SyntheticFlow:
    """Balanced, but each stream goes to both workers."""
    flow = whole_flow([0.5, 0.5, 0.5, 0.5], [0, 0, 1, 1], 2)
    streams = dict(zip(flow.queries, "stts", strict=True))
    flow.queries = {
        name: QueryDemand(query.key_seconds, streams=(streams[name],))
        for name, query in flow.queries.items()
    }
    run(flow, 4)
    return flow


def test_a_requested_plan_is_followed_in_one_step_whatever_the_budget() -> None:
    flow = even_flow()
    plan = replace(flow.next_plan, placement=dict.fromkeys(flow.queries, 0))
    requested = RequestedPlan(plan, "requested by hand")
    config = Balancing(budget_items=1)
    decision = propose(flow.snapshots, flow.decisions, config, requested=requested, repair=plan)
    assert (decision.trigger, decision.reason) == (Trigger.MANUAL, Reason.MANUAL)
    assert decision.plan is plan
    assert decision.target is None
    assert decision.message == "requested by hand"
    assert not used_repair(decision), "it is due at the next boundary"


def test_without_a_request_or_repair_the_planners_decide() -> None:
    flow = whole_flow([0.5, 0.5, 0.5], [0, 0, 0], 3)
    run(flow, 3, Balancing.off())
    decision = propose(flow.snapshots, [], Balancing(), repair=Plan(3))
    assert decision == decide(flow.snapshots, [], Balancing())
    assert decision.plan is not None
    assert not used_repair(decision)


def test_a_finished_repair_is_followed_when_the_planners_change_nothing() -> None:
    flow, config = even_flow(), Balancing(move_seconds_per_mb=0.0)
    repair = replace(flow.next_plan, placement={"q0": 0, "q1": 1, "q2": 1, "q3": 0})
    decision = propose(flow.snapshots, flow.decisions, config, repair=repair)
    assert decision.trigger == Trigger.TRAFFIC
    assert decision.plan is not None
    assert same_plan(decision.plan, repair)
    assert used_repair(decision)


def test_a_repair_that_saves_nothing_leaves_its_reason() -> None:
    flow = even_flow()
    decision = propose(flow.snapshots, flow.decisions, Balancing(), repair=flow.next_plan)
    assert (decision.trigger, decision.reason) == (Trigger.TRAFFIC, Reason.GAIN_TOO_SMALL)
    assert decision.plan is None
    assert used_repair(decision)


def test_a_failed_repair_is_a_verdict() -> None:
    flow = even_flow()
    failure = MemoryError("too large")
    decision = propose(flow.snapshots, flow.decisions, Balancing(repair="ic"), repair=failure)
    assert decision.plan is None
    assert [(v.code, v.subject, v.message) for v in decision.verdicts] == [
        (VerdictCode.PLANNER_FAILED, "ic", "MemoryError: too large")
    ]
    assert used_repair(decision)


def test_replay_decides_as_the_runtime_does() -> None:
    flow, config = even_flow(), Balancing(repair="ic", cooldown=2, samples=2)
    repair, planned = None, None
    decisions: list[Decision] = []
    replayed = replay_history(flow.snapshots, config).decisions
    for end in range(1, len(flow.snapshots) + 1):
        seen = flow.snapshots[:end]
        decision = propose(seen, decisions, config, repair=repair)
        repair = None if used_repair(decision) else repair
        if repair is None and decision.plan is None and is_repair_due(planned, seen[-1], config):
            planned, repair = seen[-1], plan_traffic_repair(seen, config)
        decisions.append(decision)
        if decision.plan is not None:
            break  # the record does not follow it
    codes = [(decision.trigger, decision.reason) for decision in decisions]
    assert [(d.trigger, d.reason) for d in replayed[: len(codes)]] == codes
    assert any(trigger == Trigger.TRAFFIC for trigger, _ in codes)
