"""Real kills: of the driver with its JVM, of a Python worker, of an executor. No row changes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.spark.crashing import QUERIES
from tests.spark.harness import BEGIN_US, SECOND, cut, trades, write_batches

ROOT = Path(__file__).parents[2]


def lay(folder: Path, batches: int = 5) -> None:
    rng = np.random.default_rng(5)
    rows = trades(rng, 24 * batches)
    late = pa.array([BEGIN_US + 3600 * SECOND]).cast(rows.schema.field("ts").type)
    last = rows.slice(0, 1).set_column(0, "ts", late)
    write_batches(folder / "trades", [*cut(rng, rows, batches), last])


def start(folder: Path, point: str = "", master: str = "local[2,4]") -> int:
    """Run the program; when it dies, its JVM goes too, as if the machine had lost power."""
    environment = {
        **os.environ,
        "EVENFLOW_CRASH": point,
        "EVENFLOW_CRASH_MARK": str(folder / f"mark-{point.partition(':')[0]}"),
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-m", "tests.spark.crashing", str(folder), master]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            return process.wait(timeout=200)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def check(folder: Path, *, asked: bool = False) -> dict[str, int]:
    """Compare what the program found with Spark's batch SQL; give the rows of each query."""
    told = json.loads((folder / "told.json").read_text())
    assert told["quarantined"] == []
    assert told["hosted"] == sorted([*QUERIES, *(["asked"] if asked else [])])
    for name in QUERIES:
        assert told["expected"][name], f"{name} has nothing to show"
        assert told["found"][name] == told["expected"][name], name
    return {name: len(rows) for name, rows in told["found"].items()}


@pytest.mark.slow
def test_the_driver_killed_again_and_again(tmp_path: Path) -> None:
    lay(tmp_path)
    asking = ("run.widened:1", "driver.asked:1")
    for point in (*asking, "driver.plan:1", "driver.ledger:1", "driver.collected:2"):
        assert start(tmp_path, point) == -signal.SIGKILL, f"{point} was not reached"
    assert start(tmp_path, "worker.after_write:2") == 0
    assert (tmp_path / "mark-worker.after_write").exists(), "no Python worker was killed"
    check(tmp_path, asked=True)


@pytest.mark.slow
def test_separate_executors_and_one_of_them_killed(tmp_path: Path) -> None:
    lay(tmp_path)
    assert start(tmp_path, "worker.before_write:2:executor", "local-cluster[2,1,1024]") == 0
    assert (tmp_path / "mark-worker.before_write").exists(), "no executor was killed"
    assert "ExecutorLostFailure" in (tmp_path / "log").read_text() or (
        "Lost executor" in (tmp_path / "log").read_text()
    )
    check(tmp_path)
