"""Only where it matters: what excess is worth, and what moves cost."""

from dataclasses import replace

import numpy as np
import pytest
from tests.support.flows import history, plans, run, whole_flow, zipf_flow

from evenflow.model import Plan, QueryLoad, Snapshot, Transfer
from evenflow.planning.controller import Balancing, decide
from evenflow.planning.controller.move_price import batch_interval, learnt_move_price


def batch(number: int, seconds: float, moved: float = 0.0, *, idle: bool = False) -> Snapshot:
    load = np.zeros(2) if idle else np.ones(2)
    counts = np.ones(2, dtype=np.int64)
    query = QueryLoad(("events",), counts, counts, load, load, load)
    transfers = (Transfer("q", 0, 1, int(moved * 1e6)),) if moved else ()
    plan = Plan(2, {"q": 0})
    return Snapshot(
        number, float(number), seconds, plan, plan, queries={"q": query}, transfers=transfers
    )


@pytest.mark.parametrize("kind", ["keys", "queries"])
def test_an_idle_system_is_left_alone(kind: str) -> None:
    """Load of one per cent of a core in all, however uneven: 200 batches without a plan."""
    if kind == "keys":
        flow = zipf_flow(300, 1.0, total=0.01, shift_every=40)
    else:
        flow = whole_flow([0.003, 0.003, 0.003, 0.001], [0, 0, 0, 1], 8)
    found = run(flow, 200)
    assert max(found) > 1.5
    assert plans(flow) == [], history(flow)
    last = flow.decisions[-1]
    assert last.reason == "not_worth_it"
    assert "ms more per batch; a plan needs 0.02 of the 1 s from batch to batch" in last.message


def test_the_same_load_is_worth_a_plan_if_batches_are_short() -> None:
    flow = zipf_flow(300, 1.0, total=0.01)
    run(flow, 4)
    short = [replace(snapshot, interval_seconds=0.01) for snapshot in flow.snapshots]
    assert decide(short, (), Balancing()).reason == "keys"
    assert decide(flow.snapshots, (), Balancing(min_excess=0.0)).reason == "keys"


def test_a_pause_of_the_input_does_not_count_as_time_of_a_batch() -> None:
    seen = [batch(0, 1.0), batch(1, 600.0, idle=True), batch(2, 1.2), batch(3, 1.1)]
    assert batch_interval(seen) == pytest.approx(1.1)
    assert batch_interval([batch(0, 0.0)]) == 0.0


def test_the_price_starts_as_configured_and_follows_measured_pauses() -> None:
    calm = [batch(number, 1.0) for number in range(20)]
    assert learnt_move_price(calm, 0.02) == pytest.approx(0.02)
    slow = [*calm[:9], batch(9, 1.9, moved=30.0), *calm[10:]]
    assert learnt_move_price(slow, 0.02) == pytest.approx((0.2 + 0.9) / 40)
    waits = [*calm[:9], batch(9, 1.0, moved=30.0), *calm[10:]]
    assert learnt_move_price(waits, 0.02) == pytest.approx(0.2 / 40)
    outlier = [*calm[:9], batch(9, 60.0, moved=30.0), *calm[10:]]
    assert learnt_move_price(outlier, 0.02) == pytest.approx((0.2 + 1.0) / 40)


def test_noise_of_batches_is_not_a_price() -> None:
    rng = np.random.default_rng(0)
    seen = [
        batch(number, 1.0 + 0.2 * rng.standard_normal(), 1e-3 * (number % 5 == 0))
        for number in range(200)
    ]
    assert learnt_move_price(seen, 0.02) == pytest.approx(0.02, abs=0.15)
    assert learnt_move_price(seen, 0.0) == 0.0


def test_a_price_learnt_from_pauses_stops_moves_that_do_not_pay() -> None:
    """Keys with much state: worth moving at the configured price, not at the measured one."""
    flow = zipf_flow(300, 1.0)
    flow.queries["counts"] = replace(flow.queries["counts"], state_bytes=3e6)
    run(flow, 3)
    assert flow.decisions[-1].reason == "keys"
    assert flow.decisions[-1].move_price == pytest.approx(0.02)
    earlier = [
        replace(batch(number - 9, 1.0 + (number == 4)), batch=number - 9) for number in range(9)
    ]
    earlier[4] = replace(earlier[4], transfers=(Transfer("q", 0, 1, 100_000),))
    dear = [replace(s, interval_seconds=5.0 * s.interval_seconds) for s in earlier]
    decision = decide([*dear * 20, *flow.snapshots], (), Balancing())
    assert decision.move_price is not None
    assert decision.move_price > 1.0
    assert decision.plan is None
