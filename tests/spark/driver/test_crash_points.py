"""Killed at any step of a move, a run ends with the rows that Spark's batch SQL gives."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.support.crash_points import POINTS, Course, Killed, Kills, at_fault_points
from tests.support.local_runtime import Local
from tests.support.spark_harness import trades
from tests.support.submissions import (
    NAMES,
    STREAMS,
    SUBMISSIONS,
    hosting_all,
)

from evenflow.spark.driver.pending_state import COMMAND_FOLDER, CancelQuery, write_command
from evenflow.spark.driver.submission import Submission, subscription_rows
from evenflow.storage import fault_points

LATE = Submission("query", "late", "SELECT ts, qty FROM trades WHERE qty > 3", ("symbol",))
LIMIT = Submission("template", "limit", "SELECT ts FROM trades WHERE symbol = :symbol")


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_at_each_step_changes_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """The driver and all processes die at the point, in each batch of moves once."""
    course, kills = Course(seed=3, rows=80, batches=5), Kills(point)
    at_fault_points(monkeypatch, kills)
    calm = course.calm(hosting_all(tmp_path / "calm"))
    wild = course.play(hosting_all(tmp_path / "wild"), lambda: setattr(kills, "left", 1))
    kills.left = 0
    wild.rest()
    for name in NAMES:
        assert wild.results(name) == calm.results(name), name


@pytest.mark.parametrize("point", ["none", "driver.command", "driver.pulse", "driver.ledger"])
def test_what_was_asked_outlives_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    local = Local(tmp_path, STREAMS, [*SUBMISSIONS[:1], LIMIT])
    rows = {"trades": trades(np.random.default_rng(1), 60)}

    def kill(name: str) -> None:
        if name == point:
            raise Killed

    def asked(ask: Callable[[], object]) -> None:
        """Ask; a driver that dies before it can answer has written it down all the same."""
        with suppress(Killed):
            ask()
        local.reopen()

    at_fault_points(monkeypatch, kill)
    limit = local.committer.commands.next_registry_and_plan()[0].queries["limit"]
    mine = subscription_rows(limit, {"subscription": "mine", "symbol": "a"})
    yours = subscription_rows(limit, {"subscription": "yours", "symbol": "b"})
    asked(lambda: local.committer.commands.submit(LATE))
    asked(
        lambda: local.committer.commands.subscribe(
            "limit", pa.concat_tables([mine, yours]), subscribe=True
        )
    )
    asked(
        lambda: local.committer.commands.subscribe(
            "limit", yours.select(["subscription"]), subscribe=False
        )
    )
    asked(lambda: local.committer.commands.submit(CancelQuery("dear")))
    with suppress(Killed):
        local.batch()
    local.reopen()
    if point == "driver.pulse":  # the border was not reached, all is still to be taken in
        assert local.committer.has_pending_work()
    monkeypatch.undo()
    local.batch()
    registry = local.committer.checkpoint.registry()
    assert sorted(registry.queries) == ["late", "limit"]
    assert local.committer.checkpoint.head().commands_applied == 4
    local.batch(rows)
    found = rows["trades"].to_pylist()
    assert local.results("late").total() == sum(row["qty"] > 3 for row in found)
    assert local.results("limit").total() == sum(row["symbol"] == "a" for row in found)
    assert {row[0] for row in local.results("limit")} == {"mine"}
    assert local.committer.checkpoint.ledger.cancelled_query("dear").uid == "dear@1"
    assert local.store.list_names(COMMAND_FOLDER) == []


def test_an_ask_that_cannot_be_any_more_is_refused_by_the_next_run(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, SUBMISSIONS[:1])
    gone = Submission("operator", "gone", "tests.support.operators:Gone", streams=("trades",))
    write_command(local.store, 0, gone)
    local.reopen()
    assert [
        "tests.support.operators:Gone cannot be imported" in r
        for r in local.committer.commands.refused
    ] == [True]
    local.committer.commands.submit(LATE)
    local.batch()
    assert sorted(local.committer.commands.next_registry_and_plan()[0].queries) == ["dear", "late"]
    local.reopen()
    assert not local.committer.commands.refused


def test_twenty_crashes_anywhere_in_a_run_of_moves_change_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any step, also of a batch that is replayed after the crash before."""
    course, kills = Course(seed=11, rows=120, batches=9), Kills(random.Random(11))  # noqa: S311
    at_fault_points(monkeypatch, kills)
    calm = course.calm(hosting_all(tmp_path / "calm"))
    kills.left = 20
    wild = course.play(hosting_all(tmp_path / "wild"))
    assert not kills.left, f"{kills.left} crashes never came"
    wild.rest()
    for name in NAMES:
        assert wild.results(name) == calm.results(name), name


def test_a_crash_point_kills(tmp_path: Path) -> None:
    code = f"from {fault_points.__name__} import fault_point as c; [c('here') for _ in range(3)]"
    mark = tmp_path / "mark"
    environment = {**os.environ, "EVENFLOW_CRASH": "here:2", "EVENFLOW_CRASH_MARK": str(mark)}
    run = [sys.executable, "-c", code]
    assert subprocess.run(run, env=environment, check=False).returncode == -signal.SIGKILL
    assert subprocess.run(run, env=environment, check=False).returncode == 0
