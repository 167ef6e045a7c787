"""One run on Spark that people attend to: a proposal, an alert, autoscaling, and its history."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.support.poll import until
from tests.support.spark_harness import Play, batch_rows, rows_of, write_batches, zipf_batches
from tests.support.webhook_receiver import receiver

import evenflow
from evenflow.model.alert import AlertRule, AlertRules
from evenflow.model.codes import BalancingMode
from evenflow.planning.controller.config import Autoscale, Balancing
from evenflow.spark.driver import balancer

COUNTS = """SELECT window.start AS s, symbol, count(*) AS n FROM trades
    GROUP BY window(ts, '2 seconds'), symbol"""
IN_MEMORY = 8


@pytest.mark.slow
def test_a_proposal_an_alert_autoscaling_and_the_history_of_one_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(balancer, "MAX_BATCHES_IN_MEMORY", IN_MEMORY)
    batches = zipf_batches(8, 1000, 100, 0.9, 99)[:8] + zipf_batches(15, 20, 100, 0.9, 99)[8:]
    write_batches(tmp_path / "trades", batches[:3])
    flow = Play(spark, tmp_path, workers=4, watermark="0 seconds").flow()
    flow.query("counts", COUNTS, key="symbol")
    with receiver() as server:
        run = flow.start(
            trigger="0 seconds",
            balancing=Balancing(mode=BalancingMode.PROPOSE, min_excess=0.0),
            alerts=AlertRules(
                imbalance=AlertRule(1.12, 2), webhook=f"http://127.0.0.1:{server.server_port}/"
            ),
            emulated_cost=2e-4,
        )
        try:
            approve_plan(run, server, lambda: write_batches(tmp_path / "trades", batches[3:8], 3))
            # Next to no load: the controller needs fewer workers.
            run.balancing = Balancing(
                min_excess=0.0, window=4, samples=2, cooldown=1, autoscale=Autoscale(min=1)
            )
            write_batches(tmp_path / "trades", batches[8:], 8)
            until(lambda: len(run.plan.active) == 1, run, 120)
            read = sum(map(len, batches))
            until(lambda: sum(batch.rows for batch in run.progress.values()) == read, run, 120)
            until(lambda: not run.has_pending_work, run, 60)
            past = run.past_snapshots()
            shown = [snapshot.batch for snapshot in (*past, *run.snapshots)]
            assert shown == list(range(shown[-1] + 1)), "every batch once"
            assert past
        finally:
            run.stop()
    check_counts(spark, run, batches)


def approve_plan(run: evenflow.Run, server: Any, send_more: Callable[[], None]) -> None:
    """Wait for a proposal and an alert, approve the plan, and wait until the alert is over."""

    def told() -> list[tuple[str, str]]:
        return [(alert["kind"], alert["state"]) for alert in server.got]

    assert run.progress == {}  # collected from now on
    until(lambda: bool(run.proposals()), run, 120)
    waiting = run.proposals()[0]
    assert (waiting.state, waiting.decision.reason) == ("waiting", "keys")
    assert not len(run.plan.tables["counts"]), "nothing moves before it is approved"
    until(lambda: ("imbalance", "firing") in told(), run, 60)
    run.approve(waiting.number)
    send_more()
    until(lambda: run.proposals()[0].state == "adopted", run, 60)
    until(lambda: bool(len(run.plan.tables["counts"])), run, 60)
    until(lambda: ("imbalance", "resolved") in told(), run, 60)


def check_counts(spark: SparkSession, run: evenflow.Run, batches: list[pa.Table]) -> None:
    expected = batch_rows(spark, COUNTS, {"trades": pa.concat_tables(batches)})
    last = max(row[0] for row in expected)  # its window stays open
    expected = type(expected)({row: n for row, n in expected.items() if row[0] < last})
    assert rows_of(run.results("counts")) == expected
