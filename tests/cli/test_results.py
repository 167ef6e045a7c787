"""`evenflow results` of a run that is not served: read from its checkpoint, without Spark."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from tests.support.local_runtime import Local
from tests.support.spark_harness import trades
from tests.support.submissions import STREAMS, SUBMISSIONS
from typer.testing import CliRunner

from evenflow.cli.app import app

runner = CliRunner()


def test_a_stopped_run_is_read_from_its_checkpoint(tmp_path: Path) -> None:
    local = Local(tmp_path / "flow", STREAMS, SUBMISSIONS[:2])
    local.batch({"trades": trades(np.random.default_rng(1), 50)})
    spec = tmp_path / "mine.yaml"
    spec.write_text("checkpoint: flow\nworkers: none of this is checked\n")
    for place in (str(spec), str(tmp_path / "flow")):
        done = runner.invoke(app, ["results", "dear", "--run", place, "--limit", "5", "--json"])
        assert done.exit_code == 0, done.output
        page = json.loads(done.stdout)
        assert (len(page["rows"]), page["complete"]) == (5, True)
        assert page["rows"][0].keys() == {"ts", "symbol", "price"}
    empty = runner.invoke(app, ["results", "sums", "--run", str(spec)])
    assert (empty.exit_code, "no results yet" in empty.stderr) == (0, True)


def test_it_does_not_load_spark(tmp_path: Path) -> None:
    local = Local(tmp_path, STREAMS, SUBMISSIONS[:1])
    local.batch({"trades": trades(np.random.default_rng(1), 50)})
    program = (
        "import sys; from evenflow.cli.app import app\n"
        f"try: app(['results', 'dear', '--run', {str(tmp_path)!r}])\n"
        "except SystemExit: print('pyspark' in sys.modules, 'duckdb' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "False False"


def test_a_run_that_is_not_there_is_named(tmp_path: Path) -> None:
    spec = tmp_path / "mine.yaml"
    spec.write_text("checkpoint: flow\n")
    done = runner.invoke(app, ["results", "dear", "--run", str(spec)])
    assert (done.exit_code, "has not been run yet" in done.stderr) == (2, True)
    done = runner.invoke(app, ["results", "dear", "--run", str(tmp_path)])
    assert (done.exit_code, "there is no checkpoint" in done.stderr) == (2, True)
