"""API responses follow from the measured state."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.support.service_world import StreamSpec, World, decision, hot_key, load

from evenflow.model.decision import BalanceMetrics, Outcome
from evenflow.model.plan import Move
from evenflow.model.routing import KeySplit, RoutingTable
from evenflow.service import present
from evenflow.service.correlation import correlation_matrix
from evenflow.service.course import batch_point
from evenflow.service.keys import hot_key_infos
from evenflow.service.metrics import Metrics
from evenflow.service.present import ObservedRun
from evenflow.service.timeline import Timeline


def seen(world: World, **more: Any) -> ObservedRun:
    snapshot = world.snapshot(**more)
    return ObservedRun(world.plan, world.queries, {"trades": StreamSpec()}, (snapshot,))


def test_before_the_first_batch_everything_is_idle() -> None:
    world = World()
    found = ObservedRun(world.plan, world.queries, {"trades": StreamSpec()})
    assert [worker.load for worker in present.worker_infos(found)] == [0.0, 0.0, 0.0]
    assert [query.load for query in present.query_infos(found)] == [0.0, 0.0, 0.0]
    assert present.stream_infos(found)[0].workers == []
    assert hot_key_infos(found) == []
    assert correlation_matrix([], world.plan.active).values == []


def test_loads_are_shares_of_a_core() -> None:
    found = seen(World())
    assert [worker.load for worker in present.worker_infos(found)] == [0.5, 0.3, 0.1]
    assert [query.name for query in present.query_infos(found)] == ["a", "k", "b"]
    assert present.query_infos(found, limit=1)[0].loads == {0: 0.5}
    point = batch_point(World().snapshot())
    assert (point.imbalance, point.rows_per_second) == (round(1.0 / 0.6, 4), 90.0)


def test_a_worker_is_draining_until_it_is_drained_in_the_plan() -> None:
    world = World()
    asked = seen(world, workers_to_drain=frozenset({2}))
    assert [worker.status for worker in present.worker_infos(asked)] == [
        "active",
        "active",
        "draining",
    ]
    done = replace(asked, plan=replace(world.plan, drained=frozenset({2})))
    assert present.worker_infos(done)[2].status == "drained"


def test_a_hot_key_has_its_share_and_owner() -> None:
    (key,) = hot_key_infos(seen(World()))
    assert (key.query, key.key, key.owner) == ("k", "hot", 1)
    assert key.share == pytest.approx(0.5 / 0.8)


def test_hot_keys_stay_through_batches_without_rows_and_follow_the_plan() -> None:
    world = World()
    heavy = hot_key()
    quiet = replace(heavy, cost=np.zeros(1))
    busy, idle = (
        world.snapshot(at, queries={"k": load([0.1, 0.6, 0.2], keys=found)})
        for at, found in ((1, heavy), (2, quiet))
    )
    moved = replace(world.plan, tables={"k": RoutingTable.from_entries(heavy.hashes, [2])})
    after = replace(idle, next_plan=moved)
    (key,) = hot_key_infos(ObservedRun(moved, world.queries, {}, (busy, after)))
    assert (key.key, key.owner, key.owners) == ("hot", 2, [2])
    split = RoutingTable().with_splits([KeySplit(int(heavy.hashes[0]), (2, 0), "events")])
    shared = replace(idle, next_plan=replace(world.plan, tables={"k": split}))
    (both,) = hot_key_infos(ObservedRun(world.plan, world.queries, {}, (busy, shared)))
    assert (both.owner, both.owners) == (2, [2, 0])
    assert key.share == pytest.approx(0.5 / 0.8)


def test_a_query_that_stopped_being_keyed_has_no_hot_keys() -> None:
    """The plan may be one commit older than the snapshots."""
    world = World()
    last = world.snapshot(1)
    gone = replace(last, next_plan=replace(world.plan, tables={}))
    assert hot_key_infos(ObservedRun(world.plan, world.queries, {}, (world.snapshot(), gone))) == []


def test_fixed_cost_is_not_part_of_key_shares() -> None:
    fixed = replace(hot_key(), rest_cost=np.full(3, 1.1), rest_fixed_cost=np.ones(3))
    assert fixed.cost_shares() == pytest.approx(0.5 / 0.8)
    assert replace(fixed, cost=np.zeros(1), rest_cost=np.ones(3)).cost_shares().tolist() == [0.0]


def test_streams_are_compared_with_round_robin() -> None:
    (stream,) = present.stream_infos(seen(World()))
    assert (stream.shipped_bytes, stream.workers) == (140.0, [0, 1, 2])
    # Alone, a is where it would be in turn: a full copy there, their keys for the others.
    assert stream.round_robin_bytes == 140.0
    assert stream.readers == 3


def test_correlation_is_that_of_shares_and_none_without_variation() -> None:
    rng = np.random.default_rng(3)
    shares = np.column_stack((rng.random(20) * 0.5, np.full(20, 0.25)))
    shares = np.column_stack((shares, 1 - shares.sum(axis=1)))
    tides = (
        1 + rng.random((20, 1)) * 9
    )  # the input rises and falls: loads all correlate, shares do not
    snapshots = [
        World().snapshot(batch, queries={"a": load(row)})
        for batch, row in enumerate(shares * tides)
    ]
    points = [batch_point(snapshot) for snapshot in snapshots]
    found = correlation_matrix(points, (0, 1, 2))
    loads = np.array([point.loads for point in points])
    assert np.corrcoef(loads[:, 0], loads[:, 1])[0, 1] > 0.3
    assert found.values[0][2] == pytest.approx(-1.0, abs=1e-3)
    assert [(pair.first, pair.second) for pair in found.apart[:1]] == [(0, 2)]
    even = [point.model_copy(update={"loads": [0.5, 0.5, 0.5]}) for point in points]
    assert correlation_matrix(even, (0, 1, 2)).values == [[None] * 3] * 3


def test_timeline_adds_each_batch_once_and_joins_outcomes() -> None:
    world, record = World(), Timeline(3, Metrics(lambda: None))
    snapshots = (world.snapshot(0), world.snapshot(1, loads=(0.4, 0.0, 0.0)))
    move = Move("k", 1, 2, int(world.plan.tables["k"].hashes[0]))
    made = (decision(0, plan=world.plan, moves=(move,)), decision(1))
    points, decisions = record.add(snapshots[:1], made[:1], ())
    assert ([p.batch for p in points], [d.number for d in decisions]) == ([0], [0])
    assert decisions[0].moves[0].key == "hot"
    assert decisions[0].loads_before == [1.0, 0.6, 0.2]
    outcome = Outcome(0, 1, BalanceMetrics(1.2, 2.0, 1.8), 77, 0.1)
    points, decisions = record.add(snapshots, made, (outcome,))
    assert ([p.batch for p in points], [d.number for d in decisions]) == ([1], [0, 1])
    assert decisions[0].measured is not None
    assert decisions[0].loads_after == [0.4, 0.6, 0.2]
    assert record.add(snapshots, made, (outcome,)) == ([], [])
    assert (record.batches, record.plan_changes, record.moves) == (2, 1, 1)
    assert record.transferred_bytes == 77
    assert [d.number for d in record.newest_decisions()] == [1, 0]


def test_timeline_drops_the_oldest_decisions() -> None:
    record, world = Timeline(3, Metrics(lambda: None)), World()
    for batch in range(300):
        change = world.plan if batch == 0 else None
        record.add((), (decision(batch, plan=change),), ())
    kept = [one.number for one in record.newest_decisions()]
    assert kept[-1] == 0  # the only change of plan outlives the many borders without one
    assert len(kept) < 100


def test_timeline_does_not_count_dropped_plans_again() -> None:
    record, world = Timeline(3, Metrics(lambda: None)), World()
    made = tuple(decision(batch, plan=world.plan) for batch in range(250))
    for _ in range(3):
        record.add((), made, ())
    assert record.plan_changes == 250


def test_key_values_texts_and_errors_are_escaped_and_bounded() -> None:
    hostile = "\x1b[31m\u202e<img src=x onerror=alert(1)>"
    world = World()
    world.queries["a"] = replace(world.queries["a"], text=f"SELECT\n{hostile}")
    keys = replace(hot_key(), names=(hostile + "x" * 5_000,))
    queries = {"k": load((0.0, 0.6, 0.2), keys=keys)}
    found = replace(seen(world, queries=queries), quarantined={"b": hostile * 1_000})
    (key,) = hot_key_infos(found)
    assert key.key.startswith("\\x1b[31m\\u202e<img")
    assert len(key.key) <= 250
    infos = {info.name: info for info in present.query_infos(found)}
    assert infos["a"].text == "SELECT\n\\x1b[31m\\u202e<img src=x onerror=alert(1)>"
    reason = infos["b"].quarantined
    assert reason is not None
    assert len(reason) < 1_000
    assert "\x1b" not in reason
