"""Split keys: whatever is split, grows, shrinks and moves, no result changes."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.support.local_runtime import Local
from tests.support.split_world import (
    HASHES,
    KEYED,
    KEYS,
    NAMES,
    QUERIES,
    SCHEMA,
    SESSIONS,
    STREAMS,
    Rows,
    any_batches,
    any_rows,
    host,
)

from evenflow.errors import InputError
from evenflow.model import KeySplit, Plan, RoutingTable
from evenflow.planning.controller import Balancing
from evenflow.spark.driver.balancer import Balancer
from evenflow.spark.driver.price_keys import key_stats
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.registry import StreamSpec
from evenflow.spark.protocol.report import Report


def split_streams(local: Local, query: str) -> tuple[str, ...]:
    return local.committer.commands.next_registry().queries[query].split_streams


def any_plan(chance: random.Random, local: Local, present: Plan) -> Plan:
    """Other owners and splits, some drained workers; keys that stay split keep their stream."""
    workers = local.workers
    drained = frozenset(chance.sample(range(workers), chance.choice([0, 0, 0, 1])))
    active = [worker for worker in range(workers) if worker not in drained]
    tables = {}
    for name in KEYED:
        splits = []
        for key in chance.sample(KEYS, chance.randrange(4)):
            before = present.tables[name].split_of(HASHES[key])
            stream = before.fragmented if before else chance.choice(split_streams(local, name))
            if len(active) > 1:
                owners = chance.sample(active, chance.randint(2, len(active)))
                splits.append(KeySplit(HASHES[key], tuple(owners), stream))
        moved = [HASHES[key] for key in chance.sample(KEYS, 2)]
        at = [chance.choice(active) for _ in moved]
        entries = RoutingTable.from_entries(np.array(moved, np.uint64), at)
        tables[name] = entries.with_splits(splits)
    return Plan(workers, {"dear": chance.choice(active)}, tables, drained)


def play(folder: Path, batches: list[Rows], workers: int, seed: int | None) -> Local:
    """Run the batches: in peace without a seed, else with splits, lost attempts, new processes."""
    chance = None if seed is None else random.Random(seed)  # noqa: S311
    local = host(folder, workers, chance)
    for rows in batches:
        if chance is not None and chance.random() < 0.7:
            present = local.committer.commands.next_registry_and_plan()[1]
            local.committer.commands.request_plan(any_plan(chance, local, present))
        local.batch(rows)
    local.rest()
    assert local.committer.checkpoint.head().quarantined == {}
    assert not local.committer.commands.refused
    return local


@pytest.mark.parametrize("seed", range(6))
def test_splits_that_grow_shrink_and_move_change_no_result(tmp_path: Path, seed: int) -> None:
    batches = any_batches(np.random.default_rng(seed), 3 + seed)
    calm = play(tmp_path / "calm", batches, 1, None)
    wild = play(tmp_path / "wild", batches, 2 + seed % 4, seed)
    for name in NAMES:
        assert wild.results(name) == calm.results(name), name
        assert calm.results(name), f"{name} gave nothing: the test is empty"
    late = calm.committer.checkpoint.head().late
    assert wild.committer.checkpoint.head().late == late, "a copied row is late once"


def stepped_rows(reports: list[Report], query: str) -> dict[int, int]:
    """Rows of a query on each worker that had some."""
    return {
        report.worker: stats.rows_in
        for report in reports
        for uid, stats in report.query_stats.items()
        if uid.startswith(f"{query}@") and stats.rows_in
    }


def split_everywhere(local: Local, query: str, stream: str, *keys: str | None) -> None:
    """Split some keys of a query over all workers, and wait until that is in force."""
    everyone = tuple(range(local.workers))
    splits = [KeySplit(HASHES[key], everyone, stream) for key in keys]
    table = RoutingTable().with_splits(splits)
    local.committer.commands.request_plan(Plan(local.workers, {}, {query: table}))
    local.batch()
    local.rest()
    assert not local.committer.commands.refused


def hot_rows(seed: int, count: int, key: str | None = "hot") -> pa.Table:
    rows = any_rows(np.random.default_rng(seed), count)
    return rows.set_column(1, "k", pa.array([key] * count, pa.string()))


def test_rows_of_the_divided_stream_go_to_one_owner_and_the_others_to_all(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, [Submission("query", "q", QUERIES["pairs"], ("k",))])
    split_everywhere(local, "q", "left", "hot")
    rows = stepped_rows(local.batch({"left": hot_rows(1, 300)}), "q")
    assert sum(rows.values()) == 300
    assert min(rows.values()) > 60, "divided about evenly"
    assert stepped_rows(local.batch({"right": hot_rows(2, 50)}), "q") == {0: 50, 1: 50, 2: 50}


def test_stored_rows_are_divided_as_soon_as_owners_change(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, [Submission("query", "q", QUERIES["pairs"], ("k",))])
    local.batch({"left": hot_rows(1, 300)})
    for owners in ((0, 1, 2), (2, 1), (1, 0)):
        split = RoutingTable().with_splits([KeySplit(HASHES["hot"], owners, "left")])
        local.committer.commands.request_plan(Plan(local.workers, {}, {"q": split}))
        local.batch()
        local.rest()
        reports = local.batch({"right": hot_rows(2, 50)})
        found = {r.worker: s.rows_out for r in reports for s in r.query_stats.values()}
        assert sorted(found) == sorted(owners)
        assert max(found.values()) < 1.5 * min(found.values()), "each has its part of old rows"
        local.forget()  # the next processes load what was saved


def test_a_null_key_matches_nothing_so_no_row_of_it_is_copied(tmp_path: Path) -> None:
    submissions = [Submission("query", name, QUERIES[name], ("k",)) for name in ("self", "pairs")]
    local = Local(tmp_path, STREAMS, submissions)
    split_everywhere(local, "self", "left", None)
    split_everywhere(local, "pairs", "left", None)
    reports = local.batch({"left": hot_rows(1, 300, None), "right": hot_rows(2, 300, None)})
    assert sum(stepped_rows(reports, "self").values()) == 300
    assert sum(stepped_rows(reports, "pairs").values()) == 600
    assert min(stepped_rows(reports, "self").values()) > 60


def test_the_pairs_of_a_split_self_join_are_found_by_all_owners(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, [Submission("query", "q", QUERIES["self"], ("k",))])
    split_everywhere(local, "q", "left", "hot")
    reports = local.batch({"left": hot_rows(1, 300)})
    found = [stats.rows_out for report in reports for stats in report.query_stats.values()]
    assert len(found) == 3
    assert max(found) < 1.5 * min(found)


def test_panes_of_a_split_key_are_kept_at_its_home_only(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, [Submission("query", "q", QUERIES["counts"], ("k",))])
    split_everywhere(local, "q", "left", "hot")
    reports = local.batch({"left": hot_rows(1, 300)})
    sent = Counter(handoff.worker for report in reports for handoff in report.handoffs)
    assert sent == {0: 2}, "each other owner sends its panes home"
    assert [sum(s.state_bytes for s in r.query_stats.values()) > 0 for r in reports] == [
        True, False, False,
    ]  # fmt: skip
    calm = Local(tmp_path / "calm", STREAMS, [Submission("query", "q", QUERIES["counts"], ("k",))])
    calm.batch({"left": hot_rows(1, 300)})
    for at in (60, 120):  # windows are emitted in the same batches as without a split
        for flow in (local, calm):
            flow.batch({"left": any_rows(np.random.default_rng(3), 5, first=at)})
        assert local.results("q") == calm.results("q")
        assert local.results("q")


@pytest.mark.parametrize(
    ("query", "stream", "key", "shared"),
    [
        ("self", "left", "hot", 1.0),
        ("pairs", "left", "hot", 0.25),
        ("pairs", "right", "hot", 0.75),
        ("counts", "left", "hot", 0.0),
        ("self", "left", None, 0.0),
    ],
)
def test_a_split_key_is_priced_as_on_one_worker(
    tmp_path: Path, query: str, stream: str, key: str | None, shared: float
) -> None:
    """Its rows and pairs count once; `shared` is the part of its rows that all owners pay."""
    rows = {"left": hot_rows(1, 300, key), "right": hot_rows(2, 100, key)}
    price = np.array([0.0, 1.0, 0.001])  # per row, and per pair or result
    measured = []
    for folder, split in (("one", False), ("three", True)):
        local = Local(
            tmp_path / folder, STREAMS, [Submission("query", "q", QUERIES[query], ("k",))]
        )
        if split:
            split_everywhere(local, "q", stream, key)
        hosted = local.committer.commands.next_registry().queries["q"]
        for _ in range(2):
            reports = local.batch({name: rows[name] for name in hosted.streams})
        counts = {r.worker: r.key_counts[hosted.uid] for r in reports if r.key_counts}
        plan = local.committer.commands.next_registry_and_plan()[1]
        keys = key_stats(hosted, plan.tables["q"].splits, counts, price, np.zeros(3), None)
        assert keys.hashes.tolist() == [HASHES[key]]
        measured.append((keys, counts))
    (one, _), (three, counts) = measured
    assert three.rows.tolist() == one.rows.tolist()
    assert three.cost[0] == pytest.approx(one.cost[0], rel=0.02)
    assert (three.owner.tolist(), three.split_by) == ([0], (stream,))
    assert three.shared_cost.tolist() == [shared * three.rows[0]]
    each = three.shared_cost[0] + (three.cost[0] - three.shared_cost[0]) / 3
    costs = [float(c.rows_in.sum() + 0.001 * c.produced.sum()) for c in counts.values()]
    assert costs == pytest.approx([each] * 3, rel=0.25)


def test_a_key_is_split_by_the_stream_that_leaves_the_fewest_rows_to_copy(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, [Submission("query", "q", QUERIES["pairs"], ("k",))])
    balancer = Balancer(Balancing.off())
    local.attend(balancer)
    rows = {
        "left": [hot_rows(1, 30), hot_rows(3, 9, "a")],
        "right": [hot_rows(2, 10), hot_rows(4, 90, "a")],
    }
    local.batch({name: pa.concat_tables(parts) for name, parts in rows.items()})
    load = balancer.snapshots[-1].queries["q"]
    assert load.split_streams == ("left", "right")
    assert load.keys is not None
    assert dict(zip(load.keys.names, load.keys.split_by, strict=True)) == {
        "hot": "left",
        "a": "right",
    }
    share = dict(zip(load.keys.names, load.keys.shared_cost, strict=True))
    assert share["hot"] / share["a"] == pytest.approx(10 / 9)


@pytest.mark.parametrize("isolate", [False, True])
def test_the_state_of_a_split_operator_is_merged_at_home(tmp_path: Path, isolate: bool) -> None:
    local = Local(tmp_path / "split", STREAMS, [replace(SESSIONS, isolate=isolate)])
    calm = Local(tmp_path / "calm", STREAMS, [SESSIONS])
    split_everywhere(local, "sessions", "left", "hot")
    for at in range(4):
        rows = {"left": hot_rows(at, 300)}
        reports = local.batch(rows)
        calm.batch(rows)
        assert sorted(stepped_rows(reports, "sessions")) == [0, 1, 2]
        sent = Counter(handoff.worker for report in reports for handoff in report.handoffs)
        assert sent == {0: 2}, "each other owner sends its state home"
        kept = [sum(s.state_bytes for s in r.query_stats.values()) > 0 for r in reports]
        assert kept == [True, False, False]
        assert local.results("sessions") == calm.results("sessions")
    assert local.results("sessions")


def test_only_an_operator_with_merge_can_be_split(tmp_path: Path) -> None:
    counter = "tests.support.operators:Counter"
    local = Local(
        tmp_path,
        {"trades": StreamSpec(SCHEMA.set(1, pa.field("symbol", pa.string())), "ts", 0)},
        [Submission("operator", "counts", counter, ("symbol",), streams=("trades",))],
    )
    assert split_streams(local, "counts") == ()
    table = RoutingTable().with_splits([KeySplit(HASHES["hot"], (0, 1), "trades")])
    with pytest.raises(InputError, match="cannot be split"):
        local.committer.commands.request_plan(Plan(3, {}, {"counts": table}))
