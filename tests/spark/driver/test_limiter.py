"""Tenants within their limits: slowed, caught up, quarantined, resumed."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.support.local_runtime import Local
from tests.support.spark_harness import shifted, trades
from tests.support.submissions import STREAMS, last_row

from evenflow.errors import InputError
from evenflow.model.tenants import TenantLimits, Tenants
from evenflow.spark.driver import limiter as limiter_module
from evenflow.spark.driver.limiter import Limiter
from evenflow.spark.driver.pending_state import AssignTenant, ResumeQuery
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.report import Report

ALL = "SELECT ts, symbol, venue, price, qty FROM trades"
SUMS = """SELECT window.start AS s, symbol, count(*) AS n, sum(qty) AS q
    FROM trades GROUP BY window(ts, '10 seconds'), symbol"""
PAIRS = """SELECT a.symbol, a.ts AS t1, b.ts AS t2 FROM trades a JOIN trades b
    ON a.symbol = b.symbol AND b.ts >= a.ts AND b.ts <= a.ts + INTERVAL 30 SECONDS"""
GREEDY = Submission("query", "greedy", ALL, tenant="acme")
LIGHT = Submission("query", "light", SUMS, tenant="acme")
OTHER = Submission("query", "other", ALL + " WHERE qty > 0", ("symbol",), tenant="globex")


def host(folder: Path, *submissions: Submission, **limits: Any) -> Local:
    limiter = Limiter(Tenants({"acme": TenantLimits(**limits)}))
    return Local(folder, STREAMS, list(submissions), workers=2, limiter=limiter)


def feed(local: Local, batches: int, count: int = 400) -> list[list[Report]]:
    return [local.batch({"trades": some_rows(local, count)}) for _ in range(batches)]


def some_rows(local: Local, count: int) -> pa.Table:
    number = local.committer.checkpoint.head().batch
    return shifted(trades(np.random.default_rng(number), count, span_s=5, late_s=2), 5 * number)


def slowed(local: Local) -> dict[str, str]:
    head = local.committer.checkpoint.head()
    slow = {uid: record for uid, record in head.slowed.items() if record.is_slow}
    return {uid.partition("@")[0]: record.reason for uid, record in slow.items()}


def quarantined(local: Local) -> dict[str, str]:
    head = local.committer.checkpoint.head()
    return {uid.partition("@")[0]: reason for uid, reason in head.quarantined.items()}


def stepped_rows(reports: list[Report], name: str) -> int:
    stats = [r.query_stats for r in reports]
    return sum(s.rows_in for by in stats for uid, s in by.items() if uid.startswith(f"{name}@"))


def test_the_greedy_query_of_a_tenant_waits_and_no_other_does(tmp_path: Path) -> None:
    local = host(tmp_path / "limited", GREEDY, LIGHT, OTHER, result_bytes="4 kB")
    free = host(tmp_path / "free", GREEDY, LIGHT, OTHER)
    reports = feed(local, 20)
    assert feed(free, 20)
    assert slowed(local).keys() == {"greedy"}
    assert "tenant 'acme' has" in slowed(local)["greedy"]
    assert "result_bytes are 4,000" in slowed(local)["greedy"]
    written = [
        sum(part.length for r in batch for uid, (part, _) in r.results.items() if "greedy" in uid)
        for batch in reports
    ]
    assert np.mean(written[8:]) < 1.5 * 4000 < np.mean(written[:3]), written
    for name in ("light", "other"):
        assert local.results(name) == free.results(name), "nobody else noticed"
        assert all(stepped_rows(batch, name) for batch in reports)
    assert 0 < local.results("greedy").total() < free.results("greedy").total()
    while local.committer.has_pending_work():  # without new rows, it catches up
        local.batch()
    assert local.results("greedy") == free.results("greedy")
    assert slowed(local) == {}


def test_too_many_waiting_rows_quarantine_the_query_and_it_resumes_from_there(
    tmp_path: Path,
) -> None:
    local = host(tmp_path, GREEDY, LIGHT, OTHER, result_bytes="2 kB", waiting_bytes="40 kB")
    given: Counter[Any] = Counter()
    while "greedy" not in quarantined(local):
        rows = some_rows(local, 400)
        given.update(tuple(row.values()) for row in rows.to_pylist())
        local.batch({"trades": rows})
        assert local.committer.checkpoint.head().batch < 30, "it is never quarantined"
    reason = quarantined(local)["greedy"]
    found = re.match(r"([\d,]+) bytes of its rows wait, more than waiting_bytes 40,000", reason)
    assert found is not None, reason
    assert 40_000 < int(found[1].replace(",", "")) < 80_000, "bounded"
    assert "result_bytes" in reason
    assert "resume" in reason
    feed(local, 2)
    local.reopen()
    feed(local, 1)
    local.committer.limiter.tenants = Tenants()
    local.committer.commands.submit(ResumeQuery("greedy"))
    local.batch()
    local.rest()
    assert local.results("greedy") == given, "every row before the quarantine, once"
    assert (quarantined(local), slowed(local)) == ({}, {})


def test_a_tenant_with_too_much_state_is_slowed_then_loses_its_largest_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiter_module, "STATE_BATCHES", 6)
    pairs = Submission("query", "pairs", PAIRS, ("symbol",), tenant="acme")
    local = host(tmp_path, pairs, LIGHT, OTHER, state_bytes="10 kB")
    feed(local, 5, 200)
    assert slowed(local).keys() == {"pairs"}
    feed(local, 5, 200)
    assert quarantined(local).keys() == {"pairs"}
    assert "state_bytes are 10,000" in quarantined(local)["pairs"]


def test_cpu_is_shared_out_so_that_batches_keep_their_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limiter believes that every row of the greedy query takes a millisecond."""
    local = host(tmp_path, GREEDY, OTHER, cpu_share=0.1)
    limiter = local.committer.limiter
    limiter.cores, limiter.trigger_seconds = 2, 1.0
    work = local.work

    def costly(number: int, rows: Any, attempt: int = 0) -> list[Report]:
        reports = work(number, rows, attempt)
        for report in reports:
            for uid, stats in report.query_stats.items():
                stats.cpu_seconds = stats.rows_in * (1e-3 if "greedy" in uid else 1e-6)
        return reports

    monkeypatch.setattr(local, "work", costly)
    processed = [stepped_rows(reports, "greedy") for reports in feed(local, 16)]
    assert processed[:3] == [400] * 3
    assert 150 < np.mean(processed[4:]) < 260, f"0.2 s of 2 s in a batch: {processed}"
    assert "its cpu_share of 0.1 is 0.20 s" in slowed(local)["greedy"]


def test_if_batches_take_too_long_the_lowest_priority_waits_and_catches_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every batch takes longer than the trigger, until there is time again."""
    local = host(tmp_path / "busy", GREEDY, OTHER, priority="low")
    free = host(tmp_path / "free", GREEDY, OTHER)
    limiter = local.committer.limiter
    work = local.work

    def alike(number: int, rows: Any, attempt: int = 0) -> list[Report]:
        reports = work(number, rows, attempt)
        for report in reports:
            for stats in report.query_stats.values():
                stats.cpu_seconds = stats.rows_in * 1e-3
        return reports

    monkeypatch.setattr(local, "work", alike)
    limiter.trigger_seconds = 1e-6
    reports = feed(local, 12)
    feed(free, 12)
    assert slowed(local).keys() == {"greedy"}
    assert "priority low comes last" in slowed(local)["greedy"]
    assert [stepped_rows(batch, "greedy") for batch in reports[:3]] == [400] * 3, "3 in a row"
    assert sum(stepped_rows(batch, "greedy") for batch in reports[4:]) < 4 * 400
    assert local.results("other") == free.results("other"), "the higher priority never waits"
    limiter.trigger_seconds = 1e6
    feed(local, 1)
    feed(free, 1)
    local.rest()
    assert (slowed(local), quarantined(local)) == ({}, {})
    assert local.results("greedy") == free.results("greedy")


def test_tenants_may_host_so_much_and_no_more(tmp_path: Path) -> None:
    template = Submission(
        "template", "alarms", "SELECT ts FROM trades WHERE symbol = :symbol", tenant="acme"
    )
    local = host(tmp_path, GREEDY, template, OTHER, queries=2, subscriptions=3)
    commands, tenants = local.committer.commands, local.committer.limiter.tenants
    with pytest.raises(InputError, match="tenant 'acme' has 2 queries and may have 2; cancel one"):
        commands.check_queries(LIGHT, tenants)
    commands.check_queries(Submission("query", "more", ALL, tenant="globex"), tenants)
    commands.check_queries(Submission("query", "more", ALL), tenants)
    local.subscribe("alarms", [{"subscription": s, "symbol": s} for s in "ab"])
    for _ in range(3):  # as asked for, as begun, as counted by the workers
        commands.check_subscriptions("alarms", 1, tenants)
        with pytest.raises(InputError, match="has 2 subscriptions and may have 3, got 2 more"):
            commands.check_subscriptions("alarms", 2, tenants)
        local.batch()
    commands.subscribe("alarms", pa.table({"subscription": ["a"]}), subscribe=False)
    local.batch()
    local.batch()
    commands.check_subscriptions("alarms", 2, tenants)
    commands.submit(AssignTenant("greedy", "globex"))
    commands.check_queries(LIGHT, tenants)
    local.batch({"trades": last_row()})
    assert local.committer.checkpoint.registry().queries["greedy"].tenant == "globex"
