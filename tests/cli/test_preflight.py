"""What cannot succeed is refused in one line before Spark starts; `evenflow diff`."""

import json
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.local_runtime import Local
from typer.testing import CliRunner

from evenflow.cli.app import app
from evenflow.cli.find_run import find_run
from evenflow.cli.preflight import check_start
from evenflow.errors import InputError, SetupError
from evenflow.spark import session
from evenflow.spark.check_session import check_interpreter, refuse_connect, use_interpreter
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.registry import StreamSpec
from evenflow.spark.protocol.run_note import RunNote, write_run_note
from evenflow.spec import load_spec
from evenflow.storage.file_store import FileStore

if TYPE_CHECKING:
    from scripts.s3_server import S3Server

SPEC = """
workers: 3
checkpoint: flow
datasets: {{market: {{kind: market, batches: 1}}}}
sources: {{trades: {{dataset: market, time: ts, watermark: 2 seconds}}}}
queries:
  dear: SELECT ts, price FROM trades WHERE price > {limit}
  added: SELECT ts, qty FROM trades
"""
runner = CliRunner()


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session, "open_session", refuse)


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """A specification, and a checkpoint with one of its queries and one more."""
    path = tmp_path / "mine.yaml"
    path.write_text(SPEC.format(limit=50))
    schema = load_spec(path).schemas["trades"]
    streams = {"trades": StreamSpec(schema, "ts", 2_000_000)}
    local = Local(
        tmp_path / "flow",
        streams,
        [
            Submission("query", "dear", "SELECT ts, price FROM trades WHERE price > 50", None),
            Submission("query", "old", "SELECT ts FROM trades", None),
        ],
    )
    local.committer.checkpoint.close()
    return path


def run(spec: Path, *options: str) -> str:
    done = runner.invoke(app, ["run", str(spec), *options])
    assert done.exit_code in (2, 4), done.output
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    return done.stderr


def test_diff(spec: Path, tmp_path: Path) -> None:
    done = runner.invoke(app, ["diff", str(spec), "--json"])
    found = json.loads(done.stdout)
    assert done.exit_code == 0, done.output
    assert (found["added"], found["kept"], found["changed"]) == (["added"], ["old"], [])
    spec.write_text(SPEC.format(limit=60))
    shown = runner.invoke(app, ["diff", str(spec)])
    assert (shown.exit_code, "~ dear has another definition" in shown.stdout) == (2, True)
    fresh = runner.invoke(app, ["diff", str(spec), "--set", f"checkpoint={tmp_path}/new"])
    assert (fresh.exit_code, "a new checkpoint" in fresh.stdout) == (0, True)
    late = runner.invoke(app, ["diff", str(spec), "--set", "sources.trades.watermark=9 seconds"])
    assert "~ trades is a source" in late.stdout


def test_refusals_before_spark_starts(spec: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"cannot listen on 127.0.0.1:{port}" in run(spec, "--port", port)
    assert "has 3 workers, not 4" in run(spec, "--no-page", "--workers", "4")
    spec.write_text(SPEC.format(limit=60))
    assert "dear exists in the checkpoint with a different definition" in run(spec, "--no-page")
    write_run_note(FileStore(str(spec.parent / "flow")), RunNote())
    assert "in use by another run, process" in run(spec, "--no-page")


def test_credentials_of_the_specification_are_used(
    s3: "S3Server", spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment has none, so a check that forgets those of the file cannot read."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    storage = json.dumps(s3.storage)
    on_s3 = f"{SPEC.format(limit=50)}\nstorage: {storage}\n".replace("checkpoint: flow", "")
    spec.write_text(f"{on_s3}checkpoint: s3://evenflow/preflight\n")
    check_start(load_spec(spec), serves=False)
    write_run_note(s3.store("preflight"), RunNote())
    assert "in use by another run, process" in run(spec, "--no-page")
    s3.store("preflight").write_record("meta", {})
    found = find_run(str(spec), "http://127.0.0.1:1")
    assert found.store is not None
    assert found.note is not None
    spec.write_text(spec.read_text().replace("testsecret", "wrong"))
    assert "cannot read the checkpoint s3://evenflow/preflight: " in run(spec, "--no-page")


def test_interpreters_are_tried(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="there is no such program"):
        check_interpreter(str(tmp_path / "python"))
    other = tmp_path / "python"
    other.write_text(
        "#!/bin/sh\necho 'ModuleNotFoundError: No module named evenflow' >&2; exit 1\n"
    )
    other.chmod(0o755)
    with pytest.raises(SetupError, match=r"cannot import Evenflow [(]ModuleNotFoundError"):
        check_interpreter(str(other))


def test_a_connect_session_is_refused() -> None:
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(InputError, match="Spark Connect"):
        refuse_connect(remote)


def test_without_a_choice_spark_runs_the_interpreter_of_the_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings: dict[str, str] = {}
    context = SimpleNamespace(pythonExec="python3", master="local[2]", getConf=lambda: settings)
    spark: Any = SimpleNamespace(sparkContext=context)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    use_interpreter(spark)
    assert context.pythonExec == sys.executable
    context.pythonExec, settings["spark.pyspark.python"] = "mine", "/no/such/python"
    with pytest.raises(SetupError, match="no such program"):
        use_interpreter(spark)
    context.master = "spark://host:7077"  # a path on other machines
    use_interpreter(spark)
    assert context.pythonExec == "mine"
