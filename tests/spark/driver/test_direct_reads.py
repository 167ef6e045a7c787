"""Who reads a derived stream in the batch in which it is published; results are as ever."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.crash_points import Kills, at_fault_points, survive
from tests.support.local_runtime import Local
from tests.support.spark_harness import BEGIN_US, SECOND, cut, shifted, trades
from tests.support.submissions import STREAMS, last_row

from evenflow.model import Plan
from evenflow.spark.driver.direct_reads import with_direct_reads
from evenflow.spark.driver.pending_state import CancelQuery, ResetWatermark, ResumeQuery
from evenflow.spark.driver.replacement import ReplaceQuery
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.ledger import DirectRead, Slowed
from evenflow.spark.worker.crash_blame import AttemptLog
from evenflow.spark.worker.direct_rows import DirectRows
from evenflow.spark.worker.query_work import QueryWork

WORKERS = 3
CHAINS = [
    Submission(
        "query", "dear", "SELECT ts, symbol, price FROM trades WHERE price > 20", None, True
    ),
    Submission(
        "query",
        "bars",
        """SELECT window.start AS s, symbol, count(*) AS n, sum(price) AS p
        FROM dear GROUP BY window(ts, '10 seconds'), symbol""",
        None,
        True,
    ),
    Submission(
        "query",
        "wide",
        """SELECT window.start AS w, sum(n) AS n, max(p) AS p
        FROM bars GROUP BY window(s, '20 seconds')""",
        None,
        True,
    ),
    Submission("query", "big", "SELECT w, n FROM wide WHERE n > 3"),
    Submission(
        "query",
        "near",
        """SELECT b.s, d.ts, b.symbol, b.n, d.price FROM bars b JOIN dear d ON b.symbol = d.symbol
        AND d.ts >= b.s AND d.ts <= b.s + INTERVAL 4 SECONDS""",
    ),
    Submission(
        "query",
        "beside",
        """SELECT b.s, t.ts, b.n, t.qty FROM bars b JOIN trades t ON b.symbol = t.symbol
        AND t.ts >= b.s AND t.ts <= b.s + INTERVAL 6 SECONDS""",
    ),
    Submission(
        "query",
        "tops",
        """SELECT window.start AS s, symbol, max(n) AS n
        FROM bars GROUP BY window(s, '30 seconds'), symbol""",
        ("symbol",),
    ),
    Submission("template", "busy", "SELECT s, symbol, n FROM bars WHERE n > :least"),
]
NAMES = [submission.name for submission in CHAINS]
WHOLE = [submission.name for submission in CHAINS if submission.key is None]
SUBSCRIBED = {"busy": [{"subscription": "two", "least": 2}]}
# No query is where one of its streams is published.
APART = {"dear": 0, "bars": 1, "wide": 2, "big": 0, "near": 2, "beside": 2, "busy": 0}


def chain(length: int, *, windows: bool) -> list[Submission]:
    """Queries that each read the one before, all whole."""
    found = [Submission("query", "q1", "SELECT ts AS t, symbol, qty FROM trades", None, True)]
    for at in range(2, length + 1):
        sql = f"SELECT t, symbol, qty + 1 AS qty FROM q{at - 1}"
        if windows and at % 2 == 0:
            sql = f"""SELECT window.start AS t, symbol, sum(qty) AS qty
            FROM q{at - 1} GROUP BY window(t, '10 seconds'), symbol"""
        found.append(Submission("query", f"q{at}", sql, None, True))
    return found


def pinned(submissions: list[Submission], workers: Mapping[str, int]) -> list[Submission]:
    return [replace(s, worker=workers.get(s.name)) for s in submissions]


def batches_to_answer(local: Local, name: str) -> int:
    """How many batches without rows it takes until a query gives its last results."""
    count = 0
    while local.committer.has_pending_work():
        before = local.results(name).total()
        local.batch()
        count += 1
        if local.results(name).total() > before:
            answered = count
    return answered


@pytest.mark.parametrize("windows", [False, True])
def test_a_chain_of_ten_answers_within_two_batches(tmp_path: Path, windows: bool) -> None:
    queries = chain(10, windows=windows)
    near = Local(tmp_path / "near", STREAMS, pinned(queries, {q.name: 1 for q in queries}))
    far = Local(
        tmp_path / "far", STREAMS, pinned(queries, {q.name: at % 2 for at, q in enumerate(queries)})
    )
    rows = {"trades": trades(np.random.default_rng(1), 200)}
    for local in (near, far):
        local.batch(rows)
    if not windows:
        assert near.results("q10").total() == 200, "in the batch of the rows"
        assert far.rest() == 9
    else:
        for local in (near, far):
            local.batch({"trades": last_row()})  # it completes all windows
        assert batches_to_answer(near, "q10") == 1, "in the batch after the row that completes them"
        assert batches_to_answer(far, "q10") > 9
    near.rest()
    far.rest()
    assert near.results("q10") == far.results("q10") != {}
    assert near.committer.checkpoint.head().late == {}


def test_the_entry_says_who_reads_directly(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, pinned(CHAINS, dict.fromkeys(WHOLE, 1)), subscribed=SUBSCRIBED)
    reads = local.committer.checkpoint.head().direct_reads
    assert {uid.partition("@")[0]: read.streams for uid, read in reads.items()} == {
        "bars": ("dear",),
        "wide": ("bars",),
        "big": ("wide",),
        "near": ("bars", "dear"),
        "beside": ("bars",),
        "busy": ("bars",),
    }
    local.batch({"trades": trades(np.random.default_rng(1), 50)})
    head = local.committer.checkpoint.head()
    assert head.direct_reads.keys() == reads.keys()
    assert head.already_read == {uid: read.streams for uid, read in reads.items()}
    assert head.derived_rows == (), "only keyed queries would read them, and nothing is due yet"


def play(local: Local, batches: list[pa.Table], plans: Sequence[Plan | None]) -> set[str]:
    """Run batches with moves; return the names of those who read directly at some time."""
    found, reached_us = set[str](), dict[str, int]()
    for rows, plan in zip([*batches, last_row()], plans, strict=True):
        if plan is not None:
            local.committer.commands.request_plan(plan)
        head, registry = local.committer.checkpoint.head(), local.committer.checkpoint.registry()
        found |= {uid.partition("@")[0] for uid in head.direct_reads}
        before_us = reached_us
        reached_us = {uid: head.watermark_us(q) for uid, q in registry.by_uid.items()}
        assert all(reached_us[uid] >= us for uid, us in before_us.items()), "a watermark fell"
        local.batch({"trades": rows})
    local.rest()
    head = local.committer.checkpoint.head()
    assert head.quarantined == {}
    assert head.late == {}
    assert not local.committer.commands.refused
    return found


def any_placement(chance: random.Random) -> Plan:
    """Whole queries anywhere; often most are together."""
    home = chance.randrange(WORKERS)
    together = chance.random() * 1.2
    placement = {
        name: home if chance.random() < together else chance.randrange(WORKERS) for name in WHOLE
    }
    return Plan(WORKERS, placement)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(2, 12))
def test_placements_and_moves_change_no_result(
    tmp_path_factory: pytest.TempPathFactory, seed: int, count: int
) -> None:
    rng, chance = np.random.default_rng(seed), random.Random(seed)  # noqa: S311
    batches = cut(rng, trades(rng, 150), count)
    calm = Local(
        tmp_path_factory.mktemp("calm"), STREAMS, pinned(CHAINS, APART), subscribed=SUBSCRIBED
    )
    assert play(calm, batches, [None] * (count + 1)) == set(), "each is apart from what it reads"
    wild = Local(
        tmp_path_factory.mktemp("wild"), STREAMS, CHAINS, subscribed=SUBSCRIBED, chance=chance
    )
    plans = [any_placement(chance) if chance.random() < 0.6 else None for _ in range(count + 1)]
    assert play(wild, batches, plans), "nobody read directly: the test is empty"
    for name in NAMES:
        assert wild.results(name) == calm.results(name), name
        assert calm.results(name), f"{name} gave nothing: the test is empty"


@pytest.mark.parametrize("seed", range(2))
def test_crashes_anywhere_change_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng, chance = np.random.default_rng(seed), random.Random(seed)  # noqa: S311
    batches = [*cut(rng, trades(rng, 150), 8), last_row()]
    kills = Kills(random.Random(seed))  # noqa: S311
    at_fault_points(monkeypatch, kills)
    calm = Local(tmp_path / "calm", STREAMS, pinned(CHAINS, APART), subscribed=SUBSCRIBED)
    play(calm, batches[:-1], [None] * len(batches))
    wild = Local(tmp_path / "wild", STREAMS, CHAINS, subscribed=SUBSCRIBED)
    kills.left = 15
    for rows in batches:
        survive(wild, {"trades": rows}, any_placement(chance))
    assert kills.left < 5
    kills.left = 0
    wild.rest()
    for name in NAMES:
        assert wild.results(name) == calm.results(name) != {}, name


@pytest.mark.parametrize("part", ["save", "release"])
def test_rows_of_a_publisher_that_fails_after_they_were_read_count_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """Its results are dropped with it, so those who read them must not have seen them."""
    local = Local(tmp_path, STREAMS, CHAINS[:2], workers=2)
    together, apart = Plan(2, {"dear": 0, "bars": 0}), Plan(2, {"dear": 1, "bars": 0})
    local.committer.commands.request_plan(together)
    local.batch()
    local.rest()
    given = [shifted(trades(np.random.default_rng(at), 50), 70 * at) for at in range(3)]
    if part == "release":  # in the batch after the next
        local.committer.commands.request_plan(apart)
    local.batch({"trades": given[0]})
    assert local.committer.checkpoint.head().direct_reads
    original = getattr(QueryWork, part)

    def fail(work: QueryWork, *arguments: object) -> None:
        if work.query.name == "dear":
            raise ZeroDivisionError(part)
        original(work, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(QueryWork, part, fail)
        reports = local.batch({"trades": given[1]})
    head = local.committer.checkpoint.head()
    assert head.quarantined == {"dear@1": f"ZeroDivisionError: {part}"}
    assert reports[0].query_stats["bars@2"].rows_in == 0
    local.committer.commands.submit(ResumeQuery("dear"))
    local.batch()
    local.batch({"trades": given[2]})
    local.batch({"trades": last_row()})
    local.rest()
    published = [row for row in local.results("dear").elements() if row[0] < last_time()]
    counted = sum(count * row[2] for row, count in local.results("bars").items())
    assert counted == len(published) > 0
    expected = sum(price > 20 for at in (0, 2) for price in given[at]["price"].to_pylist())
    assert len(published) == expected


def last_time() -> object:
    return last_row()["ts"][0].as_py()


def test_a_reader_that_ends_the_process_is_blamed_though_its_publisher_runs_before(
    tmp_path: Path,
) -> None:
    local = Local(tmp_path, STREAMS, pinned(CHAINS, dict.fromkeys(WHOLE, 0)), subscribed=SUBSCRIBED)
    entry, registry = local.committer.checkpoint.head(), local.committer.checkpoint.registry()
    rows = DirectRows(registry, entry)
    uids = [registry.queries[name].uid for name in sorted(WHOLE)]
    for suspect in ("", *uids):
        order = rows.in_order(uids, suspect)
        assert sorted(order) == sorted(uids)
        for uid in order:
            assert {order.index(each) for each in rows.publishers(uid)} <= set(
                range(order.index(uid))
            )
        assert order.index(suspect) == len(rows.publishers_of_all(suspect)) if suspect else True
    suspect = registry.queries["bars"].uid
    for attempt in (1, 2):
        log = AttemptLog(local.store, 0, 7, attempt, "start")
        log.let_run_before_suspect(rows.publishers_of_all(log.suspect))
        for uid in (registry.queries["dear"].uid, suspect):
            log.record_step(uid)
    assert AttemptLog(local.store, 0, 7, 3, "start").blamed_uids == [suspect]


def test_a_watermark_that_is_set_back_takes_readers_back(tmp_path: Path) -> None:
    """Rows between the old and the new watermark count again, also at the end of a chain."""
    local = Local(tmp_path, STREAMS, pinned(CHAINS[:2], {"dear": 0, "bars": 0}))
    rows = trades(np.random.default_rng(1), 100)
    local.batch({"trades": last_row()})
    local.rest()
    head = local.committer.checkpoint.head()
    assert head.direct_reads["bars@2"].watermark_us == head.watermarks["trades"]
    back_us = BEGIN_US - 20 * SECOND
    local.committer.commands.submit(ResetWatermark("trades", back_us))
    local.batch()
    head = local.committer.checkpoint.head()
    assert not head.direct_reads
    assert not head.reached_us
    assert head.watermarks["trades"] == head.watermarks["dear"] == back_us
    local.batch({"trades": rows})
    assert local.committer.checkpoint.head().direct_reads
    local.batch({"trades": shifted(last_row(), 3600)})
    local.rest()
    seen = sum(price > 20 for price in rows["price"].to_pylist())
    last = sum(price > 20 for price in last_row()["price"].to_pylist())
    counted = sum(count * row[2] for row, count in local.results("bars").items())
    assert local.committer.checkpoint.head().late == {}
    assert counted == seen + last


@pytest.mark.parametrize("seed", range(3))
def test_a_reader_is_replaced_without_a_gap_and_nothing_twice(tmp_path: Path, seed: int) -> None:
    """Its successor starts apart or beside the publisher; both have seen the same at the switch."""
    rng, chance = np.random.default_rng(seed), random.Random(seed)  # noqa: S311
    batches = [*cut(rng, trades(rng, 200), 9), last_row()]
    queries = CHAINS[:3]
    other = """SELECT window.start AS w, sum(n) AS n, max(p) AS p, count(*) AS symbols
        FROM bars GROUP BY window(s, '20 seconds')"""
    results = []
    for name in ("run", "twin"):
        local = Local(tmp_path / name, STREAMS, [*queries[:2], replace(queries[2], publish=False)])
        for number, rows in enumerate(batches):
            if name == "run" and number in (1, 4):
                placement = dict.fromkeys(("dear", "bars", "wide"), chance.randrange(WORKERS))
                local.committer.commands.request_plan(Plan(WORKERS, placement))
            if name == "run" and number == 3:
                assert "wide@3" in local.committer.checkpoint.head().direct_reads
                local.committer.commands.submit(ReplaceQuery(Submission("query", "wide", other)))
            local.batch({"trades": rows})
        local.rest()
        registry = local.committer.checkpoint.registry()
        assert sorted(registry.queries) == ["bars", "dear", "wide"], "the switch has happened"
        uids = ["wide@3", *({registry.queries["wide"].uid} - {"wide@3"})]
        assert len(uids) == (2 if name == "run" else 1)
        tables = [t.select(["w", "n", "p"]) for uid in uids for t in local.tables("results", uid)]
        results.append(pa.concat_tables(tables).sort_by("w"))
    assert results[0].equals(results[1])
    assert len(results[0])


def test_a_reader_that_ends_leaves_the_others_their_own_rows(tmp_path: Path) -> None:
    """Rows of a derived stream were shared out when it still read them."""
    by_symbol, by_count = (
        Submission("query", name, f"SELECT s, symbol, n, '{name}' AS who FROM bars", (key,))
        for name, key in (("by_symbol", "symbol"), ("by_count", "n"))
    )
    for gone in (by_count, Submission("query", "by_count", by_count.text, None, worker=1)):
        queries = [*pinned(CHAINS[:2], {"dear": 0, "bars": 0}), by_symbol, gone]
        local = Local(tmp_path / str(gone.key), STREAMS, queries)
        local.batch({"trades": trades(np.random.default_rng(1), 150)})
        local.batch({"trades": last_row()})
        local.committer.commands.submit(CancelQuery(gone.name))
        local.batch()  # `bars` publishes in it for both, and one of them reads that
        assert local.committer.checkpoint.head().derived_rows
        local.rest()
        bars = {row[:3]: count for row, count in local.results("bars").items()}
        assert {row[:3]: count for row, count in local.results("by_symbol").items()} == bars


def test_a_reader_that_is_slowed_keeps_the_watermark_it_had_reached(tmp_path: Path) -> None:
    """Also after its streams have passed it, while rows of an earlier watermark wait."""
    local = Local(tmp_path, STREAMS, pinned(CHAINS[:2], {"dear": 0, "bars": 0}))
    registry, plan = local.committer.commands.next_registry_and_plan()
    bars = registry.queries["bars"]
    reached = local.committer.checkpoint.head()
    reached = replace(
        reached,
        watermarks={"trades": 90, "dear": 50},
        direct_reads={bars.uid: DirectRead(("dear",), 80)},
    )
    slowed = Slowed(reason="budget", since=1, until=0, first=0, rows=1, held_us=50)
    for dear_us in (50, 70, 90, 100):
        following = replace(
            reached, watermarks={"trades": 110, "dear": dear_us}, slowed={bars.uid: slowed}
        )
        reached = with_direct_reads(following, reached, registry, plan)
        assert not reached.direct_reads
        assert reached.watermark_us(bars) == 80
    caught_up = replace(reached, slowed={}, watermarks={"trades": 110, "dear": 100})
    assert with_direct_reads(caught_up, reached, registry, plan).watermark_us(bars) >= 100
