"""Workers, moves and commits without Spark."""

import faulthandler
import gc
import random
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.local_runtime import Local, combine_always
from tests.support.memory_store import memory_store
from tests.support.operators import Counter
from tests.support.spark_harness import BEGIN_US, SECOND, cut, shifted, trades
from tests.support.submissions import (
    NAMES,
    STREAMS,
    SUBMISSIONS,
    SYMBOLS,
    any_plan,
    hosting_all,
    last_row,
)

from evenflow.model import KeySplit, Plan, RoutingTable, hash_keys
from evenflow.spark.driver.maintenance import SWEEP_EVERY_BATCHES
from evenflow.spark.driver.pending_state import CancelQuery
from evenflow.spark.driver.plan_changes import complete_plan
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.ledger import Ledger
from evenflow.spark.worker import sql_runtime, worker_batch
from evenflow.spark.worker.inbox import Inbox
from evenflow.spark.worker.query_guard import QueryGuard
from evenflow.spark.worker.query_work import QueryWork
from evenflow.sql import operator_path
from evenflow.sql.tasks.query_task import QueryTask
from evenflow.storage.bundle import Bundle
from evenflow.storage.file_store import FileStore

SPARED = ("results", "spark")  # what users keep, and what Spark itself looks after


def play(folder: Path, batches: list[pa.Table], workers: int, seed: int | None) -> Local:
    """Run the batches: in peace without a seed, else with moves, lost attempts, new processes."""
    chance = None if seed is None else random.Random(seed)  # noqa: S311
    local = hosting_all(folder, workers, chance)
    if chance is not None and chance.random() < 0.5:
        local.combine_rows()
    for at, rows in enumerate([*batches, last_row()]):
        if chance is not None and chance.random() < 0.6:
            local.committer.commands.request_plan(any_plan(chance, workers))
        if at == 1:  # in the midst of moves: one takes the symbol of another worker, one ends
            local.subscribe("alarms", [{"subscription": "a5", "symbol": "b", "limit": 20.0}])
            local.committer.commands.subscribe(
                "above", pa.table({"subscription": ["60"]}), subscribe=False
            )
        local.batch({"trades": rows})
    local.rest()
    assert local.committer.checkpoint.head().quarantined == {}
    assert local.committer.checkpoint.head().late == {}
    assert not local.committer.commands.refused
    return local


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 6), workers=st.integers(1, 5))
def test_moves_lost_attempts_and_new_processes_change_no_result(
    tmp_path_factory: pytest.TempPathFactory, seed: int, count: int, workers: int
) -> None:
    rng = np.random.default_rng(seed)
    batches = cut(rng, trades(rng, 100), count)
    calm = play(tmp_path_factory.mktemp("calm"), batches, 1, None)
    with pytest.MonkeyPatch.context() as patch:
        combine_always(patch)
        wild = play(tmp_path_factory.mktemp("wild"), batches, workers, seed)
    for name in NAMES:
        assert wild.results(name) == calm.results(name), name
        assert calm.results(name), f"{name} gave nothing: the test is empty"


def test_a_moved_key_is_where_the_plan_says(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, SUBMISSIONS[1:2], workers=2)
    rows = trades(np.random.default_rng(1), 40)
    hashes = hash_keys(pa.array(SYMBOLS, pa.string()))
    for owner in (0, 1, 0):
        plan = Plan(2, {}, {"sums": RoutingTable.from_entries(hashes, [owner] * len(SYMBOLS))})
        local.committer.commands.request_plan(plan)
        local.batch({"trades": rows})
        released = local.batch()
        assert all(sent.worker == owner for r in released for sent in r.handoffs)
        stepped = local.batch({"trades": rows})
        assert {r.worker for r in stepped if r.query_stats} == {owner}
        assert sum(s.rows_in for r in stepped for s in r.query_stats.values()) == len(rows)


def test_a_stream_is_delivered_once_to_each_worker_that_needs_it(tmp_path: Path) -> None:
    submissions = [
        Submission("query", f"q{at}", "SELECT ts, qty FROM trades WHERE qty > 0", worker=at // 2)
        for at in range(4)
    ]
    local = Local(tmp_path, STREAMS, submissions, workers=3)
    reports = local.batch({"trades": trades(np.random.default_rng(1), 50)})
    assert [bool(report.shipped_bytes) for report in reports] == [True, True, False]
    assert reports[0].shipped_bytes == reports[1].shipped_bytes
    assert [len(report.query_stats) for report in reports] == [2, 2, 0]


def test_a_failing_query_is_quarantined_alone(tmp_path: Path) -> None:
    good, bad = (
        SUBMISSIONS[0],
        Submission("query", "bad", "SELECT ts, CAST(symbol AS INT) AS x FROM trades", worker=0),
    )
    local = Local(tmp_path, STREAMS, [good, bad], workers=2)
    rows = trades(np.random.default_rng(1), 50)
    local.batch({"trades": rows})
    local.batch({"trades": rows})
    ((uid, reason),) = local.committer.checkpoint.head().quarantined.items()
    assert uid.startswith("bad@")
    assert "not a whole number" in reason
    assert local.results("bad") == {}
    expensive = [price for price in rows["price"].to_pylist() if price > 50]
    assert local.results("dear").total() == 2 * len(expensive)


def test_poison_rows_are_set_aside_and_counted(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, SUBMISSIONS[:1])
    rows = trades(np.random.default_rng(1), 3)
    times = pa.array([None, 9 * 10**18 // 1000, BEGIN_US], pa.int64()).cast(
        STREAMS["trades"].schema.field("ts").type
    )
    local.batch({"trades": rows.set_column(0, "ts", times)})
    assert local.committer.checkpoint.head().poison == {"trades": 2}
    assert local.committer.checkpoint.head().watermarks["trades"] == BEGIN_US - 5 * SECOND
    assert [len(rows) for rows in local.tables("poison", "trades")] == [2]


def test_no_poison_row_is_lost_between_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenflow.spark.worker.router._CHUNK_BYTES", 1)
    local = Local(tmp_path, STREAMS, SUBMISSIONS[:1])
    rows = trades(np.random.default_rng(1), 2)
    bad = rows.set_column(0, "ts", pa.nulls(2, rows.schema.field("ts").type))
    local.batch({"trades": pa.concat_tables([bad, bad.slice(1)])})
    assert local.committer.checkpoint.head().poison == {"trades": 3}
    assert [len(rows) for rows in local.tables("poison", "trades")] == [3]


def test_a_large_chunk_for_several_workers_is_written_once(tmp_path: Path) -> None:
    other = Submission("query", "cheap", "SELECT ts, price FROM trades WHERE price <= 50", None)
    local = Local(tmp_path, STREAMS, [SUBMISSIONS[0], other], workers=2)
    rows = trades(np.random.default_rng(1), 6000)
    reports = local.work(0, {"trades": rows})
    assert reports[0].shipped_bytes == reports[1].shipped_bytes
    (file,) = local.store.list_names("chunks")
    size = local.store.read(f"chunks/{file}").size
    assert reports[0].shipped_bytes == {"trades": size}
    local.work(0, {"trades": rows}, attempt=1)
    assert local.store.list_names("chunks") == [file], "a second attempt writes the same file"
    local.batch({"trades": rows})
    assert local.store.list_names("chunks") == [], "a committed batch leaves no chunks"
    assert local.results("dear").total() + local.results("cheap").total() == 6000


def test_late_rows_are_counted(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, SUBMISSIONS[1:2])
    local.batch({"trades": last_row()})
    local.batch({"trades": trades(np.random.default_rng(1), 30)})
    assert list(local.committer.checkpoint.head().late.values()) == [30]


def test_a_template_answers_its_subscriptions_wherever_they_live(tmp_path: Path) -> None:
    sql = "SELECT ts, symbol, price FROM trades WHERE symbol = :symbol AND price > :limit"
    local = Local(tmp_path, STREAMS, [Submission("template", "limit", sql, ("symbol",))])
    wanted = [
        {"subscription": f"s{at}", "symbol": s, "limit": 10.0 * at} for at, s in enumerate("abcd")
    ]
    local.subscribe("limit", wanted)
    local.batch()
    rows = trades(np.random.default_rng(1), 200)
    local.batch({"trades": rows})
    expected = [
        (w["subscription"], r["ts"], r["symbol"], r["price"])
        for r in rows.to_pylist()
        for w in wanted
        if r["symbol"] == w["symbol"] and r["price"] > w["limit"]
    ]
    assert sorted(local.results("limit").elements()) == sorted(expected)
    # One takes another symbol, which lives on another worker; two end.
    again = {"subscription": "s0", "symbol": "d", "limit": 95.0}
    local.subscribe("limit", [again])
    gone = pa.table({"subscription": ["s1", "s2", "unknown"]})
    local.committer.commands.subscribe("limit", gone, subscribe=False)
    local.batch()
    before = local.results("limit")
    local.batch({"trades": rows})
    new = local.results("limit") - before
    assert {row[0] for row in new} <= {"s0", "s3"}
    assert all(row[2] == "d" and row[3] > 95 for row in new if row[0] == "s0")
    assert any(row[0] == "s0" for row in new)


def test_a_state_that_stays_the_same_is_written_once_and_used_by_all_processes(
    tmp_path: Path,
) -> None:
    sums = Submission(
        "query",
        "sums",
        "SELECT window.start AS s, count(*) AS n FROM trades GROUP BY window(ts, '10 seconds')",
        worker=0,
    )
    limit = Submission("template", "limit", "SELECT ts FROM trades WHERE price > :limit", worker=0)
    alone = Submission("template", "alone", "SELECT ts FROM trades WHERE price > :limit", worker=1)
    local = Local(tmp_path, STREAMS, [sums, limit, alone], workers=2)
    registry = local.committer.commands.next_registry_and_plan()[0]
    for name in ("limit", "alone"):
        local.subscribe(name, [{"subscription": "s", "limit": 10.0}])
    local.batch()
    rng = np.random.default_rng(1)
    both = list(local.processes)
    states, tasks = [], []
    for at in range(4):
        local.processes = [both[at % 2]]
        local.batch({"trades": trades(rng, 50)})
        states.append(local.committer.checkpoint.head().state_refs)
        held = local.process().states
        uids = [registry.queries[name].uid for name in ("limit", "alone")]
        tasks.append([held[worker].tasks[uid].task for worker, uid in enumerate(uids)])
    assert len({state[1] for state in states}) == 1, "worker 1 has only a template"
    assert len({state[0] for state in states}) == 4, "worker 0 counts"
    assert [a is b for a, b in zip(tasks[0], tasks[2], strict=True)] == [True, True]


def test_disk_use_stays_bounded_while_plans_and_queries_come_and_go(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, SUBMISSIONS[1:3], workers=2)
    passing = Submission("query", "passing", "SELECT ts FROM trades")
    rng, chance = np.random.default_rng(1), random.Random(1)  # noqa: S311
    given, files, used, period = 0, [], [], SWEEP_EVERY_BATCHES
    for at in range(3 * period):
        if at % 4 == 0:
            tables = any_plan(chance, 2).tables
            local.committer.commands.request_plan(
                Plan(2, {}, {name: tables[name] for name in ("sums", "pairs")})
            )
        if at % 8 in (3, 7):
            local.committer.commands.submit(passing if at % 8 == 3 else CancelQuery("passing"))
        rows = shifted(trades(rng, 5, span_s=1, late_s=1), 2 * at)
        reports = local.batch({"trades": rows})
        given += sum(report.results.get("sums@1", (None, 0))[1] for report in reports)
        found = [path for path in tmp_path.rglob("*") if path.is_file()]
        kept = [path for path in found if path.relative_to(tmp_path).parts[0] not in SPARED]
        files.append(len(kept))
        used.append(sum(path.stat().st_size for path in kept))
    # Old files go in sweeps; in the first period there is no state yet.
    for sizes in (files, used):
        _, second, third = (max(sizes[at - period : at]) for at in (period, 2 * period, 3 * period))
        assert third <= 1.1 * second
    assert local.results("sums").total() == given
    assert len(local.committer.checkpoint.ledger._plans) <= 6


def test_a_checkpoint_may_stand_in_another_file_system(tmp_path: Path) -> None:
    """A store in memory takes the way that object stores take."""
    found = []
    for place in (tmp_path, memory_store()):
        local = hosting_all(place, workers=2)
        chance = random.Random(4)  # noqa: S311
        for rows in [
            *cut(np.random.default_rng(4), trades(np.random.default_rng(4), 60), 4),
            last_row(),
        ]:
            local.committer.commands.request_plan(any_plan(chance, 2))
            local.batch({"trades": rows})
            local.reopen()
        local.rest()
        found.append({name: local.results(name) for name in NAMES})
    assert found[0] == found[1]
    assert all(found[0].values())


def split_plan(query: str, owners: tuple[int, ...], stream: str) -> Plan:
    table = RoutingTable().with_splits([KeySplit(1, owners, stream)])
    return Plan(2, {}, {query: table})


def test_a_committed_batch_is_not_run_again(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, SUBMISSIONS[:1])
    rows = {"trades": trades(np.random.default_rng(1), 20)}
    local.batch(rows)
    before = local.results("dear")
    local.committer.commit(0, lambda: local.work(0, rows))
    assert local.results("dear") == before


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Plan(3), "the plan is for 3 workers; there are 2"),
        (Plan(2, {"dear": 2}), "puts 'dear' on worker 2; active are"),
        (Plan(2, {"sums": 0}), "the plan names sums"),
        (Plan(2, {"fixed": 0}), "'fixed' is pinned to worker 1"),
        (
            Plan(2, {}, {"sums": RoutingTable.from_entries(np.array([1], np.uint64), [5])}),
            "not active",
        ),
        (Plan(2, {"dear": 1}, drained=frozenset({1})), "worker 1; active are"),
        (Plan(2, drained=frozenset({0, 1})), "one must stay"),
        (Plan(2, {}, {"fixed": RoutingTable()}), "the plan names fixed"),
        (split_plan("sums", (0, 5), "trades"), r"over workers \[0, 5\]; active are \[0, 1\]"),
        (split_plan("sums", (0, 1), "quotes"), "by stream 'quotes'; it can be split by trades"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(tmp_path: Path, plan: Plan, message: str) -> None:
    fixed = Submission("query", "fixed", "SELECT ts FROM trades", worker=1)
    local = Local(tmp_path, STREAMS, [*SUBMISSIONS[:2], fixed], workers=2)
    registry, present = local.committer.commands.next_registry_and_plan()
    with pytest.raises(ValueError, match=message):
        complete_plan(plan, present, registry)


def test_a_query_that_ends_its_process_is_found_by_care(tmp_path: Path) -> None:
    submissions = [SUBMISSIONS[0], Submission("query", "deadly", "SELECT ts FROM trades", worker=0)]
    local = Local(tmp_path, STREAMS, submissions, workers=1)
    rows = {"trades": trades(np.random.default_rng(1), 20)}

    class Death(BaseException):
        """As SIGKILL would, nothing of ours catches it."""

    def deadly(work: QueryWork, inbox: Inbox, backfill: Any = None) -> None:
        if work.query.name == "deadly":
            raise Death
        step(work, inbox, backfill)

    def die(guard: QueryGuard, uid: str, error: BaseException) -> None:
        if isinstance(error, Death):
            raise error
        fail(guard, uid, error)

    step, fail = QueryWork.step, QueryGuard.fail
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QueryWork, "step", deadly)
        patch.setattr(QueryGuard, "fail", die)
        for attempt in range(3):
            with pytest.raises(Death):
                local.work(0, rows, attempt)
            local.forget()
        reports = local.work(0, rows, 3)
    assert list(reports[0].failed) == ["deadly@2"]
    local.committer.commit(0, lambda: reports)
    assert "ended the worker's process" in local.committer.checkpoint.head().quarantined["deadly@2"]
    assert local.results("dear")


def test_a_process_killed_by_others_blames_nobody(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, SUBMISSIONS[:1], workers=1)
    rows = {"trades": trades(np.random.default_rng(1), 20)}
    assert local.work(0, rows, attempt=1)[0].failed == {}
    assert local.work(0, rows, attempt=2)[0].failed == {}


def test_a_python_operator_keeps_its_counts_when_keys_move(tmp_path: Path) -> None:
    path = operator_path(Counter)
    counting = Submission("operator", "counts", path, ("symbol",), streams=("trades",))
    local = Local(tmp_path, STREAMS, [counting], workers=3)
    rows = trades(np.random.default_rng(1), 60, span_s=1, late_s=1)
    hashes = hash_keys(pa.array(SYMBOLS, pa.string()))
    for owner in (0, 1, 2):
        local.batch({"trades": rows})
        table = RoutingTable.from_entries(hashes, [owner] * len(SYMBOLS))
        local.committer.commands.request_plan(Plan(3, {}, {"counts": table}))
        local.rest()
    symbols = rows["symbol"].to_pylist()
    expected = {(s, symbols.count(s) * times) for s in SYMBOLS for times in (1, 2, 3)}
    assert set(local.results("counts")) == expected


def test_the_watch_over_a_process_ends_before_what_is_no_querys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow disk must not look like a query that hears nothing."""
    watched: list[bool] = [False]
    seen: dict[str, bool] = {}

    def begin(seconds: float, **_: Any) -> None:
        assert seconds > sql_runtime.HARD_LIMIT_SECONDS
        watched.append(True)

    monkeypatch.setattr(faulthandler, "dump_traceback_later", begin)
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", lambda: watched.append(False))
    for owner, name in (
        (worker_batch, "open_inbox"),
        (Bundle, "write"),
        (QueryWork, "step"),
    ):
        really = getattr(owner, name)

        def noted(*given: Any, name: str = name, really: Any = really, **more: Any) -> Any:
            seen[name] = seen.get(name, False) or watched[-1]
            return really(*given, **more)

        monkeypatch.setattr(owner, name, noted)
    local = Local(tmp_path, STREAMS, SUBMISSIONS[:2], workers=1)
    local.batch({"trades": trades(np.random.default_rng(0), 50, span_s=1)})
    assert seen == {"open_inbox": False, "write": False, "step": True}
    assert not watched[-1]


def test_a_plan_is_found_however_many_came_after_it_and_as_it_is_read(tmp_path: Path) -> None:
    ledger = Ledger(FileStore(str(tmp_path)))
    for number in range(20):
        ledger.write_plan(number, Plan(4, {"b": number % 4, "a": 0}))
    assert [ledger.plan(number).placement["b"] for number in range(20)] == [0, 1, 2, 3] * 5
    assert ledger.plan(19) is ledger.plan(19)
    again = Ledger(FileStore(str(tmp_path)))
    for number in (0, 19):
        assert list(ledger.plan(number).placement) == list(again.plan(number).placement)


def test_a_flow_goes_back_also_after_many_plans_without_moves(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, [one for one in SUBMISSIONS if one.name == "sums"], workers=2)
    hashes = hash_keys(pa.array(SYMBOLS, pa.string()))
    rows = trades(np.random.default_rng(1), 40)
    local.committer.commands.request_plan(
        Plan(2, {}, {"sums": RoutingTable.from_entries(hashes, [1] * len(hashes))})
    )
    for at in range(10):
        local.batch({"trades": shifted(rows, at)})
        name = f"more{at}"
        local.committer.commands.submit(
            Submission("query", name, "SELECT ts FROM trades", worker=0)
        )
    local.committer.commands.request_rollback()
    for at in range(10, 13):
        local.batch({"trades": shifted(rows, at)})
    table = local.committer.checkpoint.ledger.plan(
        local.committer.checkpoint.head().plan_number
    ).tables["sums"]
    assert len(table) == 0


def test_what_a_task_kept_is_free_when_it_is_closed(tmp_path: Path) -> None:
    """Without waiting for the collector, which looks at what stays only now and then."""
    local = Local(tmp_path, STREAMS, [one for one in SUBMISSIONS if one.name == "sums"], workers=1)
    local.batch({"trades": trades(np.random.default_rng(1), 40)})
    (state,) = [p.states[0] for p in local.processes if 0 in p.states]
    (kept,) = state.tasks.values()
    assert isinstance(kept.task, QueryTask)
    runs = [weakref.ref(run) for store in kept.task.stores().values() for run in store.runs]
    assert runs
    gc.disable()
    try:
        state.drop_task(next(iter(state.tasks)))
        assert [run() for run in runs] == [None] * len(runs)
    finally:
        gc.enable()
