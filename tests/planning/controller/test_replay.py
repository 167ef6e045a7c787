"""Replay in a closed loop, and questions about other workers, rates and pins."""

import numpy as np
import pytest
from tests.support.flows import plans, run, zipf_flow

from evenflow.errors import InputError
from evenflow.model import Plan, RoutingTable, hash_keys, home_workers
from evenflow.planning.controller import Balancing, Scenario, evaluate_scenario, replay_history
from evenflow.research.synthetic_flow import ROWS_PER_SECOND, QueryDemand, SyntheticFlow


@pytest.fixture(scope="module")
def flow() -> SyntheticFlow:
    """Hash only, hot keys that shift, queries that come and go."""
    flow = zipf_flow(1500, 1.0, workers=6, shift_every=8)
    for at in range(6):
        flow.add_query(
            f"q{at}", QueryDemand(lambda batch: np.array([0.2]), streams=(f"s{at % 2}",)), at
        )

    def churn(flow: SyntheticFlow) -> None:
        if flow.batch == 6:
            flow.remove_query("q5")
            flow.add_query("late", QueryDemand(lambda batch: np.array([0.2])), 0)

    run(flow, 16, Balancing.off(), churn)
    return flow


def test_a_replay_without_planners_repeats_the_record(flow: SyntheticFlow) -> None:
    found = replay_history(flow.snapshots, Balancing.off())
    for recorded, replayed in zip(found.recorded[:6], found.replayed[:6], strict=True):
        assert replayed.imbalance == pytest.approx(recorded.imbalance)
        assert replayed.mean_load == pytest.approx(recorded.mean_load)


def test_a_replay_decides_as_the_controller_would_have(flow: SyntheticFlow) -> None:
    """The same demands run under the controller, and recorded without it and replayed."""
    live = zipf_flow(1500, 1.0, workers=6, shift_every=8)
    run(live, 16)
    record = zipf_flow(1500, 1.0, workers=6, shift_every=8)
    run(record, 16, Balancing.off())
    found = replay_history(record.snapshots, Balancing())
    made = [decision for decision in found.decisions if decision.plan is not None]
    assert [decision.batch for decision in made] == [one.batch for one in plans(live)]
    measured = [
        snapshot.worker_loads().max() / snapshot.worker_loads().mean()
        for snapshot in live.snapshots
    ]
    assert [one.imbalance for one in found.replayed] == pytest.approx(measured, rel=0.02)


@pytest.mark.parametrize("workers", [3, 10])
def test_a_replay_with_other_workers_conserves_the_load(flow: SyntheticFlow, workers: int) -> None:
    found = replay_history(flow.snapshots, Balancing(), workers)
    for recorded, replayed in zip(found.recorded, found.replayed, strict=True):
        assert replayed.mean_load * workers == pytest.approx(recorded.mean_load * 6)
    assert found.replayed[-1].imbalance < found.replayed[0].imbalance


@pytest.mark.parametrize("rate", [0.01, 0.99, 2.0])
def test_what_if_asks_how_much_more_not_how_well_it_is_known(rate: float) -> None:
    """Keys of a row a batch, all on one worker of two, are dealt out at any rate."""
    keys = hash_keys(np.arange(400))
    mine = keys[home_workers(keys, 2) == 0][:80]
    costs = np.full(80, 1 / ROWS_PER_SECOND)
    flow = SyntheticFlow(
        {"counts": QueryDemand(lambda batch: costs, mine)}, Plan(2, {}, {"counts": RoutingTable()})
    )
    run(flow, 10, Balancing.off())
    found = evaluate_scenario(flow.snapshots, Scenario(rate_factor=rate), Balancing())
    assert found.before.imbalance == 2.0
    assert found.after.imbalance <= 1.05


def test_what_if_a_worker_is_added_or_dropped(flow: SyntheticFlow) -> None:
    more = evaluate_scenario(flow.snapshots, Scenario(added_workers=2), Balancing())
    assert len(more.plan.active) == 8
    assert more.after.mean_load == pytest.approx(more.before.mean_load * 6 / 8)
    assert more.after.imbalance <= 1.1
    fewer = evaluate_scenario(
        flow.snapshots, Scenario(dropped_workers=frozenset({0, 1})), Balancing()
    )
    assert fewer.plan.active == (2, 3, 4, 5)
    assert fewer.after.mean_load == pytest.approx(fewer.before.mean_load * 6 / 4)
    assert not {0, 1} & set(fewer.plan.placement.values())


def test_what_if_a_query_is_pinned_or_rates_grow(flow: SyntheticFlow) -> None:
    pinned = evaluate_scenario(flow.snapshots, Scenario(pins={"late": 4}), Balancing())
    assert pinned.plan.placement["late"] == 4
    assert pinned.after.imbalance <= 1.08
    faster = evaluate_scenario(flow.snapshots, Scenario(rate_factor=10.0), Balancing())
    assert faster.after.mean_load == pytest.approx(10 * faster.before.mean_load)
    assert {verdict.code for verdict in faster.verdicts} >= {"overload"}


def test_questions_about_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="no batches are recorded"):
        replay_history([], Balancing())
    with pytest.raises(InputError, match="no batches are recorded"):
        evaluate_scenario([], Scenario(added_workers=1), Balancing())


@pytest.fixture(scope="module")
def crossed() -> SyntheticFlow:
    """Nearly every worker reads every stream, though each could read three of twelve."""
    places = np.random.default_rng(1).permutation(96) % 4
    queries = {
        f"q{at}": QueryDemand(
            lambda batch: np.array([0.1]), streams=(f"s{at % 12}",), state_bytes=1.0
        )
        for at in range(96)
    }
    flow = SyntheticFlow(queries, Plan(4, {f"q{at}": int(w) for at, w in enumerate(places)}))
    run(flow, 10, Balancing.off())
    return flow


@pytest.mark.parametrize("repair", ["repair", "mms"])
def test_a_replay_plans_source_traffic_as_the_runtime_does(
    crossed: SyntheticFlow, repair: str
) -> None:
    found = replay_history(crossed.snapshots, Balancing(repair=repair))
    (made,) = [decision for decision in found.decisions if decision.plan is not None]
    assert (made.trigger, made.batch) == ("traffic", 1)  # planned beside one batch
    assert found.replayed[0].shipped_bytes == 45_000.0
    assert found.replayed[-1].shipped_bytes == 12_000.0
    assert found.replayed[-1].imbalance == pytest.approx(1.0)
    refused = [one for one in found.decisions if one.trigger == "traffic" and one.plan is None]
    assert {one.reason for one in refused} == {"gain_too_small"}


def test_what_if_source_traffic_is_planned_for_fewer_workers(crossed: SyntheticFlow) -> None:
    change = Scenario(dropped_workers=frozenset({3}))
    plain = evaluate_scenario(crossed.snapshots, change, Balancing())
    lighter = evaluate_scenario(crossed.snapshots, change, Balancing(repair="repair"))
    assert lighter.after.shipped_bytes < plain.after.shipped_bytes / 2
    assert lighter.plan.active == (0, 1, 2)
    assert lighter.after.imbalance <= 1.08
