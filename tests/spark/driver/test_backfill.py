"""A query with a backfill gives what batch SQL gives over the backfill and the stream."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.support.crash_points import Kills, at_fault_points, survive
from tests.support.local_runtime import Local
from tests.support.spark_harness import cut, shifted, trades
from tests.support.submissions import STREAMS, SUBMISSIONS, any_plan, last_row

from evenflow.model import Plan
from evenflow.spark.driver.maintenance import Maintenance
from evenflow.spark.driver.pending_state import CancelQuery, ResumeQuery
from evenflow.spark.driver.replacement import ReplaceQuery
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.backfill import BackfillPart, in_order, list_file
from evenflow.spark.worker import backfill_task
from evenflow.spark.worker.backfill_task import StoreBackfillTask
from evenflow.storage import records
from evenflow.storage.file_store import FileStore

HOSTED = ("dear", "sums", "pairs", "wide", "lows")
QUERIES = {s.name: s for s in SUBMISSIONS if s.name in HOSTED}
OTHER = Submission("query", "all_rows", "SELECT ts, symbol, price, qty, venue FROM trades")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill_task, "PART_ROWS", 9)


class World:
    """Rows before a moment and rows after it; parts of them are alike in time."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.chance = random.Random(seed)  # noqa: S311
        self.history = trades(rng, 80)
        self.past = cut(rng, self.history, 3)
        self.stream = [*cut(rng, shifted(trades(rng, 80), 60), 6), last_row()]

    def expected(self, folder: Path) -> Local:
        local = Local(folder, STREAMS, list(QUERIES.values()), workers=1)
        for rows in (*self.past, *self.stream):
            local.batch({"trades": rows})
        local.rest()
        return local

    def backfill(self, store: FileStore, name: str) -> str:
        """Store the rows that came so far, as Spark's tasks do."""
        spec = STREAMS["trades"]
        task = StoreBackfillTask(
            store.uri, store.options, name, "trades", spec.schema, spec.time, power_safe=False
        )
        batches = self.history.sort_by("ts").to_batches(max_chunksize=13)
        found = [row for out in task(iter(batches)) for row in out.to_pylist()]
        parts = [records.decode(row["part"], BackfillPart) for row in found]
        assert len(parts) == 9
        store.write_record(list_file(name), in_order(parts, {"trades": spec.delay_us}))
        return name


def submissions(world: World, store: FileStore) -> list[Submission]:
    return [
        Submission(
            s.form, s.name, s.text, s.key, s.publish, backfill=world.backfill(store, f"b{at}")
        )
        for at, s in enumerate(QUERIES.values())
    ]


def next_plan(world: World, local: Local) -> Plan | None:
    """A plan for the queries that are hosted, from time to time."""
    hosted = local.committer.checkpoint.registry().queries
    if world.chance.random() < 0.5 or not set(HOSTED) <= hosted.keys():
        return None
    plan = any_plan(world.chance, local.workers)
    placement = {name: at for name, at in plan.placement.items() if name in hosted}
    tables = {name: table for name, table in plan.tables.items() if name in hosted}
    if "all_rows" in hosted:
        placement["all_rows"] = min(plan.active)
    return Plan(plan.workers, placement, tables, plan.drained)


def check(world: World, local: Local, folder: Path, names: tuple[str, ...] = HOSTED) -> None:
    expected = world.expected(folder / "expected")
    assert local.rest() >= 0
    head = local.committer.checkpoint.head()
    assert (head.quarantined, head.late, head.slowed, head.backfills) == ({}, {}, {}, {})
    for name in names:
        assert expected.results(name), f"{name} gave nothing: the test is empty"
        assert local.results(name) == expected.results(name), name
    assert local.store.list_names("backfill") == []


@pytest.mark.parametrize("seed", range(4))
def test_results_are_those_of_all_rows(tmp_path: Path, seed: int) -> None:
    """It begins with the checkpoint, or while others run; with moves, or without."""
    world, is_new = World(seed), seed % 2 == 0
    store = FileStore(str(tmp_path / "run"))
    chance = world.chance if seed > 1 else None
    declared = submissions(world, store)
    hosted = [OTHER, *declared] if is_new else [OTHER]
    local = Local(store, STREAMS, hosted, workers=1 + seed, chance=chance)
    if not is_new:
        for rows in world.past:
            local.batch({"trades": rows})
        for submission in declared:
            local.committer.commands.submit(submission)
        local.batch()
    assert len(local.committer.checkpoint.head().backfills) == len(HOSTED)
    waited = 0
    for rows in world.stream:
        plan = next_plan(world, local) if seed > 1 else None
        if plan is not None:
            local.committer.commands.request_plan(plan)
        local.batch({"trades": rows})
        waited += len(local.committer.checkpoint.head().waiting)
    assert waited, "no row of the stream came before the backfill had ended"
    check(world, local, tmp_path)


@pytest.mark.parametrize("seed", range(3))
def test_kills_on_the_way_change_nothing(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(10 + seed)
    store = FileStore(str(tmp_path / "run"))
    local = Local(store, STREAMS, [OTHER], workers=3)
    for rows in world.past:
        local.batch({"trades": rows})
    for submission in submissions(world, store):
        local.committer.commands.submit(submission)
    kills = Kills(world.chance, left=12)
    at_fault_points(monkeypatch, kills)
    survive(local, {}, None)
    for rows in world.stream:
        survive(local, {"trades": rows}, next_plan(world, local))
    while local.committer.has_pending_work():
        survive(local, {}, None)
    assert kills.left < 12
    check(world, local, tmp_path)


def test_a_query_that_fails_on_the_way_takes_the_same_part_again(tmp_path: Path) -> None:
    """Its rows of the stream are those that wait, and those that come when it runs again."""
    world, store = World(5), FileStore(str(tmp_path / "run"))
    local = Local(store, STREAMS, submissions(world, store), workers=2)
    local.batch({"trades": world.stream[0]})
    uid = local.committer.checkpoint.registry().queries["sums"].uid
    before = local.committer.checkpoint.head().backfills[uid]
    local.reopen()
    local.committer.leave_out(["sums"], safe=False)
    local.forget()
    local.batch()
    assert local.committer.checkpoint.head().backfills[uid] == before
    local.committer.commands.submit(ResumeQuery("sums"))
    local.batch()
    assert local.committer.checkpoint.head().backfills[uid] == before
    for rows in world.stream[1:]:
        local.batch({"trades": rows})
    check(world, local, tmp_path)


def test_a_definition_with_the_same_state_goes_on_with_the_backfill(tmp_path: Path) -> None:
    world, store = World(6), FileStore(str(tmp_path / "run"))
    local = Local(store, STREAMS, submissions(world, store), workers=2)
    local.batch({"trades": world.stream[0]})
    text = QUERIES["sums"].text.replace("sum(qty)", "sum(qty) + 0")
    submission = Submission("query", "sums", text, ("symbol",), publish=True)
    local.committer.commands.submit(ReplaceQuery(submission))
    for rows in world.stream[1:]:
        local.batch({"trades": rows})
    check(world, local, tmp_path, tuple(name for name in HOSTED if name != "sums"))
    query = local.committer.checkpoint.registry().queries["sums"]
    parts = [t for uid in (*query.inherits, query.uid) for t in local.tables("results", uid)]
    rows_found = sorted(map(str, pa.concat_tables(parts).to_pylist()))
    expected = world.expected(tmp_path / "again")
    uid = expected.committer.checkpoint.registry().queries["sums"].uid
    whole = pa.concat_tables(expected.tables("results", uid))
    assert rows_found == sorted(map(str, whole.to_pylist()))


def test_a_cancelled_query_leaves_no_rows_behind(tmp_path: Path) -> None:
    world, store = World(7), FileStore(str(tmp_path / "run"))
    local = Local(store, STREAMS, [OTHER, *submissions(world, store)], workers=2)
    local.batch({"trades": world.stream[0]})
    for name in ("wide", "pairs"):
        local.committer.commands.submit(CancelQuery(name))
    world.backfill(store, "stray")  # a driver was killed before it submitted the query
    local.reopen()
    assert not any(name.startswith("stray") for name in store.list_names("backfill"))
    for rows in world.stream[1:]:
        local.batch({"trades": rows})
    check(world, local, tmp_path, ("dear", "sums", "lows"))


@pytest.mark.parametrize("is_new", [True, False])
def test_a_backfill_of_one_batch_is_deleted(tmp_path: Path, is_new: bool) -> None:
    """It begins and ends between two passes of maintenance."""
    world, store = World(8), FileStore(str(tmp_path / "run"))
    sums = replace(QUERIES["sums"], backfill=world.backfill(store, "b"))
    local = Local(store, STREAMS, [OTHER, sums] if is_new else [OTHER], workers=9)
    if not is_new:
        local.batch({"trades": world.stream[0]})
        local.committer.commands.submit(sums)
        commit_without_maintenance(local)
    assert local.committer.checkpoint.head().backfills
    commit_without_maintenance(local)
    assert not local.committer.checkpoint.head().backfills
    assert len(store.list_names("backfill")) == 10
    local.batch()
    assert store.list_names("backfill") == []


def commit_without_maintenance(local: Local) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Maintenance, "work", lambda *_: None)
        local.batch()
