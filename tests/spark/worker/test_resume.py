"""A quarantined query keeps its state and goes on from there."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.support.local_runtime import Local
from tests.support.spark_harness import shifted, trades
from tests.support.submissions import STREAMS, SYMBOLS, any_splits, last_row

from evenflow.errors import InputError
from evenflow.model import Plan, RoutingTable, hash_keys
from evenflow.spark.driver.cleanup import delete_unreferenced
from evenflow.spark.driver.pending_state import CancelQuery, ResumeQuery
from evenflow.spark.driver.replacement import ReplaceQuery
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.stored_results import StoredResults

# `venue` 0 makes it fail: a row of one symbol, so on one worker only.
SUMS = """SELECT window.start AS s, symbol, count(*) AS n, sum(10 div venue) AS q
    FROM trades GROUP BY window(ts, '20 seconds'), symbol"""
PAIRS = """SELECT a.symbol, a.ts AS t1, b.ts AS t2, 10 div a.venue AS q FROM trades a
    JOIN trades b ON a.symbol = b.symbol
    AND b.ts >= a.ts AND b.ts <= a.ts + INTERVAL 30 SECONDS"""
ALARMS = """SELECT window.start AS s, symbol, count(*) AS n, sum(10 div venue) AS q
    FROM trades WHERE symbol = :symbol GROUP BY window(ts, '20 seconds'), symbol"""
SUBMISSIONS = [
    Submission("query", "sums", SUMS, ("symbol",)),
    Submission("query", "whole", SUMS),
    Submission("query", "pairs", PAIRS, ("symbol",)),
    Submission("template", "alarms", ALARMS, ("symbol",)),
    Submission("template", "alarm", ALARMS),
]
NAMES = [submission.name for submission in SUBMISSIONS]
QUERIES, TEMPLATES = NAMES[:3], NAMES[3:]


def rows_of_batch(number: int) -> pa.Table:
    rows = shifted(trades(np.random.default_rng(number), 30, span_s=8, late_s=4), 8 * number)
    venues = pa.array([number % 3 + 1] * len(rows), pa.int32())
    return rows.set_column(rows.schema.get_field_index("venue"), "venue", venues)


def poisoned(rows: pa.Table) -> pa.Table:
    """The rows and one more that makes every query fail on the worker of symbol a."""
    bad = rows.slice(0, 1).set_column(1, "symbol", pa.array(["a"]))
    bad = bad.set_column(2, "venue", pa.array([0], pa.int32()))
    return pa.concat_tables([rows, bad])


def any_plan(chance: random.Random, workers: int) -> Plan:
    hashes = hash_keys(pa.array(SYMBOLS, pa.string()))
    tables = {
        name: RoutingTable.from_entries(
            hashes, [chance.randrange(workers) for _ in SYMBOLS]
        ).with_splits(any_splits(chance, list(range(workers)), name))
        for name in ("sums", "pairs", "alarms")
    }
    return Plan(workers, {name: chance.randrange(workers) for name in ("whole", "alarm")}, tables)


def host(folder: Path, workers: int, chance: random.Random | None = None) -> Local:
    local = Local(folder, STREAMS, SUBMISSIONS, workers=workers, chance=chance)
    for name in TEMPLATES:
        local.subscribe(name, [{"subscription": s, "symbol": s} for s in ("a", "b")])
    local.batch()
    return local


def results(local: Local) -> dict[str, Counter[Any]]:
    return {name: local.results(name) for name in NAMES}


def quarantined(local: Local) -> set[str]:
    return {uid.partition("@")[0] for uid in local.committer.checkpoint.head().quarantined}


@pytest.mark.parametrize("seed", range(4))
def test_a_resumed_query_answers_over_all_rows_it_has_seen(tmp_path: Path, seed: int) -> None:
    """Also if its keys move before, while and after it is quarantined; twice."""
    chance = random.Random(seed)  # noqa: S311
    calm, hurt = host(tmp_path / "calm", 1), host(tmp_path / "hurt", 3, chance)
    for number in range(12):
        rows = rows_of_batch(number)
        hurt.committer.commands.request_plan(any_plan(chance, 3))
        if number in (3, 8):  # fails, and again in the batch in which it is resumed
            hurt.batch({"trades": poisoned(rows)})
            assert quarantined(hurt) == set(NAMES)
            for name in NAMES:
                hurt.committer.commands.submit(ResumeQuery(name))
            hurt.batch()
            continue
        if number == 4:
            hurt.batch({"trades": poisoned(rows)})
            continue
        if number in (5, 9):  # not seen: it is quarantined or has just been resumed
            hurt.committer.commands.request_plan(any_plan(chance, 3))
            if number == 5:
                for name in NAMES:
                    hurt.committer.commands.submit(ResumeQuery(name))
                hurt.batch({"trades": rows})
                assert quarantined(hurt) == set()
                continue
        calm.batch({"trades": rows})
        hurt.batch({"trades": rows})
        if number % 2:
            delete_unreferenced(hurt.committer.checkpoint, hurt.committer.checkpoint.head())
    for local in (calm, hurt):
        local.batch({"trades": last_row()})
        local.rest()
    assert results(hurt) == results(calm)
    assert all(results(calm).values())


def test_what_a_quarantined_query_needs_survives_until_it_is_cancelled(tmp_path: Path) -> None:
    calm, hurt = host(tmp_path / "calm", 2), host(tmp_path / "hurt", 2)
    for local in (calm, hurt):
        for number in range(3):
            local.batch({"trades": rows_of_batch(number)})
    hurt.batch({"trades": poisoned(rows_of_batch(3))})
    for name in TEMPLATES:
        for local in (calm, hurt):
            local.subscribe(name, [{"subscription": "late", "symbol": "c"}])
    assert quarantined(hurt) == set(NAMES)
    for _ in range(70):  # more than a sweep
        hurt.batch()
    hurt.reopen()
    kept = {f for s in hurt.committer.checkpoint.head().kept_states.values() for f in s.live_files}
    assert kept
    assert all(hurt.store.exists(file) for file in kept)
    with pytest.raises(InputError, match="no query 'none'"):
        hurt.committer.commands.submit(ResumeQuery("none"))
    for name in NAMES:
        hurt.committer.commands.submit(ResumeQuery(name))
    for local in (calm, hurt):
        local.batch()
        local.batch({"trades": rows_of_batch(4)})
        local.batch({"trades": last_row()})
        local.rest()
    assert results(hurt) == results(calm)
    with pytest.raises(InputError, match="'sums' is not quarantined"):
        hurt.committer.commands.submit(ResumeQuery("sums"))

    hurt.batch({"trades": poisoned(shifted(rows_of_batch(5), 3600))})
    for name in NAMES:
        hurt.committer.commands.submit(CancelQuery(name))
    hurt.batch()
    assert hurt.committer.checkpoint.head().kept_states == {}
    for _ in range(70):
        hurt.batch()
    assert len(hurt.store.list_names("state")) <= 4
    assert hurt.store.list_names("exchange") == []


DEFINITIONS = {"sums": SUMS, "pairs": PAIRS}


def mended(name: str) -> Submission:
    sql = DEFINITIONS[name].replace("10 div venue", "10 div nullif(venue, 0)")
    return Submission("query", name, sql.replace("10 div a.venue", "10 div nullif(a.venue, 0)"),
                      ("symbol",))  # fmt: skip


def all_results(local: Local, name: str) -> Counter[Any]:
    """The results of all definitions of a query."""
    versions = StoredResults(local.store).versions(name)
    uids = dict.fromkeys(uid for query in versions for uid in (*query.continues, query.uid))
    tables = [table for uid in uids for table in local.tables("results", uid)]
    return Counter(tuple(row.values()) for row in pa.concat_tables(tables).to_pylist())


def expected_of(folder: Path, name: str, batches: list[pa.Table]) -> Counter[Any]:
    local = Local(folder, STREAMS, [mended(name)], workers=1)
    for rows in batches:
        local.batch({"trades": rows})
    local.rest()
    return local.results(name)


def fail_and_replace(folder: Path, name: str) -> Local:
    """A query that failed in batch 3 and was given a definition that does not fail."""
    local = Local(folder, STREAMS, [s for s in SUBMISSIONS if s.name == name], workers=2)
    for number in range(3):
        local.batch({"trades": rows_of_batch(number)})
    local.batch({"trades": poisoned(rows_of_batch(3))})
    assert quarantined(local) == {name}
    kept = local.committer.checkpoint.head().kept_states
    assert [state.batch for state in kept.values()] == [3]
    local.committer.commands.submit(ReplaceQuery(mended(name)))
    local.batch({"trades": rows_of_batch(4)})
    assert quarantined(local) == {name}
    return local


def test_a_definition_that_does_not_fail_goes_on_with_the_state(tmp_path: Path) -> None:
    seen = [*map(rows_of_batch, range(3)), poisoned(rows_of_batch(6)), last_row()]
    expected = expected_of(tmp_path / "expected", "pairs", seen)
    local = fail_and_replace(tmp_path / "run", "pairs")
    local.reopen()
    local.committer.commands.submit(ResumeQuery("pairs"))
    local.batch({"trades": rows_of_batch(5)})
    for rows in seen[3:]:
        local.batch({"trades": rows})
    local.rest()
    assert quarantined(local) == set()
    assert all_results(local, "pairs") == expected
    assert local.tables("results", "pairs@1"), "the old definition gave nothing"


def test_a_definition_with_other_state_takes_the_place_of_a_query_that_failed(
    tmp_path: Path,
) -> None:
    """What it gives is right: it never gives a part of a window whose rows it has missed."""
    seen = [poisoned(rows_of_batch(number)) for number in range(5, 14)]
    before = [rows_of_batch(0), rows_of_batch(1), rows_of_batch(2), poisoned(rows_of_batch(3))]
    batches = [*before, rows_of_batch(4), *seen, last_row()]
    expected = expected_of(tmp_path / "expected", "sums", batches)
    local = fail_and_replace(tmp_path / "run", "sums")
    for rows in [*seen, last_row()]:
        local.batch({"trades": rows})
    local.rest()
    assert quarantined(local) == set()
    assert local.committer.checkpoint.registry().queries.keys() == {"sums"}
    found = all_results(local, "sums")
    assert found <= expected
    assert expected.total() > found.total() > expected.total() / 3
