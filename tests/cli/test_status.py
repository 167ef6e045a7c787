"""`evenflow status`, `list`, `stop` and `logs` of runs that are served, stopped or killed."""

import json
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.support.local_runtime import Local
from tests.support.service_world import FakeRun
from tests.support.spark_harness import trades
from tests.support.submissions import STREAMS, SUBMISSIONS
from typer.testing import CliRunner

from evenflow.cli import client
from evenflow.cli.app import app
from evenflow.cli.known_runs import KnownRun, remember_run
from evenflow.service import serve
from evenflow.spark.protocol.run_note import RunNote, process_start, write_run_note

runner = CliRunner()


@pytest.fixture
def flow(tmp_path: Path) -> Local:
    local = Local(tmp_path / "flow", STREAMS, SUBMISSIONS[:1])
    rows = trades(np.random.default_rng(1), 50)
    timeless = pa.array([None] * 3, rows.schema.field("ts").type)
    bad = rows.slice(0, 3).set_column(0, "ts", timeless)
    local.batch({"trades": pa.concat_tables([rows, bad])})
    return local


def invoke(*arguments: str) -> Any:
    done = runner.invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_a_stopped_run(flow: Local, tmp_path: Path) -> None:
    write_run_note(flow.store, replace(RunNote(), ended_at=1.0))
    flow.store.write_record("sinks/files/dear/000000", {"next": 0})
    found = invoke("status", str(tmp_path / "flow"))
    assert (found["state"], found["batches"], found["queries"]) == ("stopped", 1, 1)
    assert found["sinks_behind"] == {"files/dear": 1}
    assert found["set_aside"] == {"trades": {"rows": 3, "ahead": 0}}
    shown = runner.invoke(app, ["status", str(tmp_path / "flow")]).stdout
    assert "stopped, since 19" in shown
    assert "1 batch behind; the next run" in shown
    assert "3 rows: 3 without a valid event time, 0 ahead" in shown
    refused = runner.invoke(app, ["stop", str(tmp_path / "flow")])
    assert (refused.exit_code, "is not running" in refused.stderr) == (2, True)


def test_a_running_process_is_told_from_one_with_its_number(flow: Local, tmp_path: Path) -> None:
    place = str(tmp_path / "flow")
    write_run_note(flow.store, RunNote())
    assert invoke("status", place)["state"] == "running"
    write_run_note(flow.store, RunNote(first_batch=1))
    assert "not served yet" in runner.invoke(app, ["status", place]).stdout
    write_run_note(flow.store, replace(RunNote(), process_started=1))
    assert invoke("status", place)["state"] == "stopped"
    assert "without saying so" in runner.invoke(app, ["status", place]).stdout
    write_run_note(flow.store, replace(RunNote(), host="elsewhere"))
    assert invoke("status", place)["state"] == "unknown"


def test_stop_signals_a_run_without_a_service(flow: Local, tmp_path: Path) -> None:
    waiting = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    try:
        started = process_start(waiting.pid)
        write_run_note(flow.store, RunNote(pid=waiting.pid, process_started=started))
        assert invoke("stop", str(tmp_path / "flow")) == {"asked": "stop", "stopped": True}
        assert waiting.wait(30) != 0
    finally:
        waiting.kill()


def test_list_knows_the_runs_whose_checkpoints_exist(
    flow: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert "no runs yet" in runner.invoke(app, ["list"]).stdout
    for name in ("flow", "gone"):
        remember_run(KnownRun(name, str(tmp_path / name), "mine.yaml"))
    write_run_note(flow.store, RunNote())
    (listed,) = invoke("list")["runs"]
    assert (listed["name"], listed["state"], listed["batches"]) == ("flow", "running", 1)
    assert "flow" in runner.invoke(app, ["list"]).stdout
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    remember_run(KnownRun("flow", str(tmp_path / "flow"), "mine.yaml"))  # does not fail


def test_list_asks_one_service() -> None:
    server = serve(FakeRun(), port=0)
    try:
        (listed,) = invoke("list", "--url", server.url)["runs"]
        assert (listed["name"], listed["url"]) == ("memory", server.url)
    finally:
        server.stop()
    refused = runner.invoke(app, ["list", "--url", server.url])
    assert (refused.exit_code, "cannot reach" in refused.stderr) == (4, True)


def test_logs(flow: Local, tmp_path: Path) -> None:
    place = str(tmp_path / "flow")
    missing = runner.invoke(app, ["logs", place])
    assert (missing.exit_code, "flow.log" in missing.stderr) == (2, True)
    (tmp_path / "flow.log").write_text("".join(f"line {n}\n" for n in range(100)))
    (tmp_path / "flow-spark.log").write_text("spark's\n")
    assert runner.invoke(app, ["logs", place, "-n", "2"]).stdout == "line 98\nline 99\n"
    assert runner.invoke(app, ["logs", place, "--spark"]).stdout == "spark's\n"


def test_a_run_that_does_not_answer_is_not_called_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        found = runner.invoke(app, ["ps", "--url", url])
    assert (found.exit_code, "did not answer within 0.2 s" in found.stderr) == (4, True)
    gone = runner.invoke(app, ["ps", "--url", url])
    assert (gone.exit_code, "start a run with" in gone.stderr) == (4, True)
