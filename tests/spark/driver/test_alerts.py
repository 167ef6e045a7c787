"""Alerts: rules, states, and a webhook that may hang. Without Spark."""

import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.support.local_runtime import Local
from tests.support.poll import until
from tests.support.spark_harness import trades
from tests.support.submissions import STREAMS
from tests.support.webhook_receiver import receiver

from evenflow.errors import InputError
from evenflow.model.alert import AlertKind, AlertRule, AlertRules
from evenflow.spark.driver import webhook
from evenflow.spark.driver.alert_book import MAX_FIRING, AlertBook
from evenflow.spark.driver.alert_measures import Measure
from evenflow.spark.driver.pending_state import CancelQuery
from evenflow.spark.driver.submission import Submission

RULES = AlertRules(imbalance=AlertRule(1.5, batches=3))


def uneven(value: float) -> Measure:
    return Measure(AlertKind.IMBALANCE, "workers", value, f"busiest at {value}")


def states(book: AlertBook) -> list[tuple[str, str]]:
    return [(alert.subject, alert.state) for alert in book.alerts]


def test_a_rule_fires_and_ends_after_so_many_batches_in_a_row(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "evenflow.alerts")
    book = AlertBook(RULES, "memory")
    values = [2.0, 2.0, 1.0, 2.0, 2.0, 2.0, 2.1, 1.0, 2.0, 1.0, 1.0]
    for batch, value in enumerate(values):
        book.update([uneven(value)], batch, float(batch))
        assert bool(states(book)) == (batch >= 5)
    assert states(book) == [("workers", "firing")]
    book.update([uneven(1.5)], 11, 11.0)
    (alert,) = book.alerts
    assert (alert.state, alert.batch, alert.ended_at) == ("resolved", 5, 11.0)
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["batch 5: busiest at 2.0", "over, it began at batch 5: busiest at 2.0"], (
        "told once"
    )


def test_a_batch_without_work_neither_fires_nor_ends() -> None:
    book = AlertBook(RULES, "memory")
    silent = frozenset({AlertKind.IMBALANCE})
    for batch in range(3):
        book.update([uneven(2.0)], batch, 0.0)
        book.update([], batch, 0.0, silent)
    for _ in range(10):
        book.update([], 4, 0.0, silent)
    assert states(book) == [("workers", "firing")]


def test_subjects_are_told_apart_and_bounded() -> None:
    book = AlertBook(AlertRules(), "memory")
    many = [Measure(AlertKind.QUARANTINE, f"q{at}", 1.0, "failed") for at in range(500)]
    book.update(many, 0, 0.0)
    assert len(book.alerts) == MAX_FIRING
    book.update(many[:1], 1, 1.0)
    assert sum(alert.state == "firing" for alert in book.alerts) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AlertRule(-1.0), "above must be"),
        (lambda: AlertRule(1.0, batches=0), "batches must be"),
        (lambda: AlertRule(1.0, to=("mail",)), "to must list log, page, webhook, got 'mail'"),
        (lambda: AlertRules(webhook="file:///etc"), "webhook must start with http"),
    ],
)
def test_rules_are_checked(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_a_run_tells_quarantine_late_rows_and_rows_set_aside(tmp_path: Path) -> None:
    rules = AlertRules(late_rows=AlertRule(0.01), lag=AlertRule(600.0))
    bad = Submission("query", "bad", "SELECT ts, CAST(symbol AS INT) AS n FROM trades")
    sums = Submission(
        "query", "sums",
        "SELECT window.start AS s, sum(qty) AS q FROM trades GROUP BY window(ts, '5 seconds')",
    )  # fmt: skip
    local = Local(tmp_path, STREAMS, [bad, sums])
    local.committer.alerts = book = AlertBook(rules, "memory")
    rows = trades(np.random.default_rng(3), 400, span_s=600)
    local.batch({"trades": rows.slice(200, 100)})
    assert ("bad", "firing") in states(book)
    (alert,) = [alert for alert in book.alerts if alert.subject == "bad"]
    assert alert.message.startswith("query bad is quarantined: ")
    local.batch({"trades": rows.slice(0, 50)})  # ten minutes late
    late = [alert for alert in book.alerts if alert.kind == "late_rows"]
    assert [(alert.subject, alert.value > 0.5) for alert in late] == [("sums", True)]
    nothing = pa.nulls(5, rows.schema.field("ts").type)
    broken = rows.slice(0, 5).set_column(rows.schema.get_field_index("ts"), "ts", nothing)
    local.batch({"trades": broken})
    aside = [alert for alert in book.alerts if alert.kind == "set_aside"]
    assert [(alert.subject, alert.value) for alert in aside] == [("trades", 5.0)]
    local.committer.commands.submit(CancelQuery("bad"))
    local.batch({"trades": rows.slice(300, 100)})
    assert {(a.subject, a.state) for a in book.alerts} == {
        ("bad", "resolved"), ("sums", "resolved"), ("trades", "resolved"),
    }  # fmt: skip


def sending_book(server: Any) -> AlertBook:
    return AlertBook(AlertRules(webhook=f"http://127.0.0.1:{server.server_port}/secret"), "place")


QUARANTINED = Measure(AlertKind.QUARANTINE, "q", 1.0, "query q is quarantined: why")


def test_a_webhook_gets_firing_and_resolved_once_though_it_fails_at_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhook, "RETRY_SECONDS", (0.01, 0.01))
    with receiver(failures=2) as server:
        book = sending_book(server)
        for batch in range(3):
            book.update([QUARANTINED], batch, float(batch))
        book.update([], 3, 3.0)
        until(lambda: len(server.got) == 4)
        book.close()
        assert [body["state"] for body in server.got] == ["firing"] * 3 + ["resolved"]
        first = server.got[0]
        assert (first["kind"], first["subject"], first["checkpoint"]) == (
            "quarantine",
            "q",
            "place",
        )
        assert first["text"] == "firing: query q is quarantined: why"


def test_a_webhook_that_hangs_delays_nobody_and_is_told_without_its_secret(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(webhook, "TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr(webhook, "RETRY_SECONDS", ())
    monkeypatch.setattr(webhook, "CLOSE_SECONDS", 0.2)
    with receiver(hangs=True) as server:
        book = sending_book(server)
        begun = time.perf_counter()
        for batch in range(0, 400, 2):
            book.update([QUARANTINED], batch, float(batch))
            book.update([], batch + 1, float(batch))
        assert time.perf_counter() - begun < 5, "200 alerts, each of which would hang"
        until(lambda: "alert not sent to 127.0.0.1 (" in caplog.text)
        assert "too many wait" in caplog.text
        assert "secret" not in caplog.text
        book.close()
