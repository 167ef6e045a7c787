"""Hot keys that no worker can carry alone, in a closed loop: split, kept, shrunk, moved."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tests.support.flows import history, plans, run

from evenflow.model import KeySplit, Plan, RoutingTable, hash_keys
from evenflow.model.arrays import Floats
from evenflow.planning.controller import Balancing, evaluate_scenario, replay_history
from evenflow.planning.controller.stage import partial_plan
from evenflow.planning.controller.what_if import Scenario
from evenflow.research.key_workload import zipf_costs
from evenflow.research.synthetic_flow import QueryDemand, SyntheticFlow

BOUND = 1.08
KEYS = 400


def split_flow(
    costs: Callable[[int], Floats],
    count: int = KEYS,
    workers: int = 8,
    shared: float = 0.0,
    noise: float = 0.0,
    split_by: str = "events",
    **more: object,
) -> SyntheticFlow:
    demand = QueryDemand(
        costs,
        hash_keys(np.arange(count)),
        split_by=split_by,
        shared_part=shared,
        **more,  # type: ignore[arg-type]
    )
    plan = Plan(workers, {}, {"pairs": RoutingTable()})
    return SyntheticFlow({"pairs": demand}, plan, noise=noise)


def with_hot(hot: dict[int, float], count: int = KEYS, total: float = 3.0) -> Floats:
    costs = np.full(count, total / count)
    for key, seconds in hot.items():
        costs[key] = seconds
    return costs


def owners(flow: SyntheticFlow, key: int) -> tuple[int, ...]:
    return flow.next_plan.owners_of_key("pairs", int(hash_keys(np.array([key]))[0]))


def split_changes(flow: SyntheticFlow) -> int:
    return sum(bool(move.owners_after) for d in plans(flow) for move in d.moves)


@pytest.mark.parametrize("shared", [0.0, 0.02])
@pytest.mark.parametrize("skew", [1.7, 2.0, 2.4, 3.0])
def test_a_self_join_is_even_after_each_shift(skew: float, shared: float) -> None:
    epochs = [zipf_costs(10_000, skew, np.random.default_rng(e), 4.0) for e in range(3)]
    flow = split_flow(lambda batch: epochs[min(batch // 8, 2)], 10_000, shared=shared)
    found = run(flow, 24)
    assert found[0] > 2
    for shift in (0, 8, 16):
        assert max(found[shift + 5 : shift + 8]) <= BOUND + 1e-9, history(flow)
    assert not flow.decisions[-1].verdicts


def test_one_hot_key_is_split_once_and_named() -> None:
    costs = with_hot({7: 2.0})
    flow = split_flow(lambda batch: costs)
    found = run(flow, 30)
    assert max(found[5:]) <= BOUND, history(flow)
    (made,) = plans(flow)
    assert f"key key7 is 40 % of pairs; split over {len(owners(flow, 7))} workers" in made.message
    assert len(owners(flow, 7)) == 4, "2.0 of 5.0 over 8 workers"
    assert made.moved_bytes > 0
    assert {split.fragmented for split in flow.plan.tables["pairs"].splits} == {"events"}


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_hot_key_that_cools_gets_fewer_workers(noise: float) -> None:
    hot, warm, cold = (with_hot({7: seconds}) for seconds in (2.0, 1.8, 0.01))
    flow = split_flow(
        lambda batch: hot if batch < 12 else warm if batch < 24 else cold, noise=noise
    )
    run(flow, 12)
    many = owners(flow, 7)
    assert len(many) >= 4
    run(flow, 12)
    assert owners(flow, 7) == many, "a little cooler is no reason"
    run(flow, 30)
    assert len(owners(flow, 7)) == 1, history(flow)
    cooled = [d for d in plans(flow) if any(len(m.owners_before) > 1 for m in d.moves)]
    assert "no longer split" in cooled[-1].message
    assert split_changes(flow) <= 4, history(flow)


def test_two_hot_keys_share_workers_as_needed() -> None:
    costs = with_hot({7: 2.0, 11: 1.2})
    flow = split_flow(lambda batch: costs)
    found = run(flow, 20)
    assert max(found[5:]) <= BOUND, history(flow)
    assert len(owners(flow, 7)) > len(owners(flow, 11)) > 1
    assert len(plans(flow)) == 1, history(flow)


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_keys_that_alternate_every_ten_batches(noise: float) -> None:
    """Each change is followed; between changes nothing moves back and forth."""
    first, second = with_hot({7: 2.0, 11: 0.1}), with_hot({7: 0.1, 11: 2.0})
    flow = split_flow(lambda batch: (first, second)[batch // 10 % 2], noise=noise)
    found = run(flow, 60)
    for change in range(10, 60, 10):
        settled = found[change + 4 : change + 10]
        assert max(settled) <= BOUND + 0.02 + 2 * noise / 3, history(flow)
    assert len(plans(flow)) <= 14, history(flow)


def test_a_stationary_skewed_stream_is_planned_once() -> None:
    costs = zipf_costs(2000, 2.0, np.random.default_rng(0), 4.0)
    flow = split_flow(lambda batch: costs, 2000, noise=0.05)
    found = run(flow, 40)
    assert len(plans(flow)) <= 2, history(flow)
    assert max(found[8:]) <= BOUND + 0.03, history(flow)


def test_a_query_that_cannot_be_split_keeps_its_verdict() -> None:
    costs = with_hot({7: 2.0})
    flow = split_flow(lambda batch: costs, split_by="")
    run(flow, 6)
    assert [verdict.code for verdict in flow.decisions[-1].verdicts] == ["heavy_key"]
    assert not flow.next_plan.tables["pairs"].splits
    off = split_flow(lambda batch: costs)
    run(off, 6, Balancing(max_owners=1))
    assert not off.next_plan.tables["pairs"].splits
    assert [verdict.code for verdict in off.decisions[-1].verdicts] == ["heavy_key"]


def test_what_every_owner_pays_is_named() -> None:
    costs = with_hot({7: 2.0})
    flow = split_flow(lambda batch: costs, shared=0.8)
    run(flow, 6)
    (verdict,) = flow.decisions[-1].verdicts
    assert verdict.code == "heavy_key"
    assert "80% of it on every worker that shares the key" in verdict.message


def test_copies_raise_the_mean_not_the_bound() -> None:
    """A key of 5 mean loads, a twelfth of it on every owner: all have more, but evenly."""
    costs = with_hot({7: 5.0, 11: 0.5}, total=2.5)
    flow = split_flow(lambda batch: costs, shared=0.08)
    found = run(flow, 8)
    assert len(owners(flow, 7)) == 8
    assert max(found[5:]) <= 1.03, history(flow)
    assert not flow.decisions[-1].verdicts


def test_a_hasty_plan_is_judged_again_with_more_batches() -> None:
    """After a shift the plan is made from one batch of few rows; later ones show what it missed."""
    shares = [zipf_costs(2_000, 1.0, np.random.default_rng(epoch), 1.0) for epoch in (1, 2)]

    def rows(batch: int) -> Floats:
        drawn = np.random.default_rng(batch).poisson(1_500 * shares[batch >= 8])
        return drawn.astype(np.float64)

    flow = split_flow(lambda batch: 5e-3 * rows(batch), 2_000, key_rows=rows)
    run(flow, 30)
    expected = replace(flow.queries["pairs"], key_seconds=lambda batch: shares[1])
    flow.queries = {"pairs": expected}
    assert flow.imbalance() <= 1.06, history(flow)
    made = [decision.batch for decision in plans(flow) if decision.batch >= 8]
    assert made[0] <= 9, "in time"
    assert 2 <= len(made) <= 5, history(flow)


@pytest.mark.parametrize("planner", ["mixed", "mintable", "simple"])
def test_any_planner_of_whole_keys_plans_around_splits(planner: str) -> None:
    costs = with_hot({7: 2.0})
    flow = split_flow(lambda batch: costs)
    found = run(flow, 8, Balancing(keys=planner))
    assert found[-1] <= BOUND, history(flow)
    assert len(owners(flow, 7)) > 1


def test_an_owner_that_is_drained_gives_its_part_to_others() -> None:
    costs = with_hot({7: 2.0})
    flow = split_flow(lambda batch: costs)
    run(flow, 8)
    gone = owners(flow, 7)[0]
    flow.drained = frozenset({gone})
    found = run(flow, 8)
    assert gone not in owners(flow, 7)
    assert len(owners(flow, 7)) > 1
    assert found[-1] <= BOUND, history(flow)
    flow.drained = frozenset()
    assert run(flow, 8)[-1] <= BOUND, history(flow)


def test_a_budget_splits_in_stages() -> None:
    costs = with_hot({7: 2.0, 11: 1.2, 19: 1.0})
    flow = split_flow(lambda batch: costs)
    found = run(flow, 80, Balancing(budget_items=1))
    assert all(len(decision.moves) <= 1 for decision in plans(flow))
    assert found[-1] <= BOUND, history(flow)
    assert len(owners(flow, 7)) > 1


def test_a_stage_keeps_the_splits_it_does_not_change() -> None:
    first, second = (int(h) for h in hash_keys(np.array([1, 2])))
    split = [KeySplit(first, (0, 1), "s"), KeySplit(second, (2, 3), "s")]
    none = Plan(4, {}, {"q": RoutingTable()})
    both = Plan(4, {}, {"q": RoutingTable().with_splits(split)})
    from evenflow.model import moves_between

    moves = moves_between(none, both)
    one = partial_plan(none, both, [move for move in moves if move.key_hash == first])
    assert [s.key_hash for s in one.tables["q"].splits] == [first]
    back = partial_plan(both, none, [])
    assert set(back.tables["q"].splits) == set(both.tables["q"].splits)


def test_replay_and_what_if_know_splits() -> None:
    costs = with_hot({7: 2.0})
    flow = split_flow(lambda batch: costs)
    run(flow, 8, Balancing.off())
    replayed = replay_history(flow.snapshots, Balancing())
    assert replayed.recorded[-1].imbalance > 2
    assert replayed.replayed[-1].imbalance <= BOUND
    result = evaluate_scenario(flow.snapshots, Scenario(rate_factor=2.0), Balancing())
    assert result.plan.tables["pairs"].splits
    assert result.after.imbalance <= BOUND
    split = split_flow(lambda batch: costs)
    run(split, 8)
    again = replay_history(split.snapshots, Balancing())
    assert again.replayed[-1].imbalance <= BOUND
    grown = evaluate_scenario(split.snapshots, Scenario(added_workers=4), Balancing())
    assert grown.after.imbalance <= BOUND


def test_a_plan_is_not_made_for_a_key_of_an_idle_system() -> None:
    costs = with_hot({7: 2.0}) / 1000
    flow = split_flow(lambda batch: costs)
    run(flow, 20)
    assert plans(flow) == []
    assert flow.decisions[-1].reason == "not_worth_it"


def test_replicas_cost_bytes() -> None:
    """Copies to many workers must pay: with very much state the key stays where it is."""
    costs = with_hot({7: 2.0})
    flow = split_flow(lambda batch: costs, state_bytes=1e12)
    run(flow, 6)
    assert plans(flow) == []
    cheap = replace(flow.queries["pairs"], state_bytes=1.0)
    flow.queries = {"pairs": cheap}
    run(flow, 6)
    assert plans(flow)
