"""Starts `tests.support.crash_program`, kills it at a fault point or at random, checks its rows."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tests.support.spark_harness import BEGIN_US, SECOND, cut, trades, write_batches

from evenflow.spark.protocol.ledger import Ledger
from evenflow.storage.file_store import FileStore
from evenflow.storage.history import read_history

ROOT = Path(__file__).parents[2]
LOCAL = "local[2,4]"
FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # for a JVM that is killed soon


def write_rows(folder: Path, batches: int = 5) -> None:
    """Write the input files of the scripted run."""
    rng = np.random.default_rng(5)
    rows = trades(rng, 24 * batches)
    late = pa.array([BEGIN_US + 3600 * SECOND]).cast(rows.schema.field("ts").type)
    last = rows.slice(0, 1).set_column(0, "ts", late)
    write_batches(folder / "trades", [*cut(rng, rows, batches), last])


def start_program(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    """Start the program with the code of this checkout."""
    command = [sys.executable, "-m", "tests.support.crash_program", str(folder), *arguments]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    variables = {"PYTHONPATH": path, "JAVA_TOOL_OPTIONS": FAST_START, **environment}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **variables}, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip


def wait_program(process: subprocess.Popen[bytes]) -> int:
    """Wait for its exit code, then kill its JVM, as a power failure would."""
    try:
        return process.wait(timeout=600)
    finally:
        os.killpg(process.pid, signal.SIGKILL)


def run_program(folder: Path, point: str = "", master: str = LOCAL) -> int:
    """Run the program until it ends or a fault point kills it."""
    mark = str(folder / f"mark-{point.partition(':')[0]}")
    return wait_program(
        start_program(folder, master, EVENFLOW_CRASH=point, EVENFLOW_CRASH_MARK=mark)
    )


def kill_at_random(
    start: Callable[[], subprocess.Popen[bytes]],
    folder: Path,
    kills: int,
    chance: random.Random,
    *,
    moving: bool = False,
) -> Iterator[int]:
    """Start the program repeatedly and kill it within a second after a commit.

    With `moving`: after a commit that starts or ends a transfer of state. Yields the last batch of
    the ledger after each kill.
    """
    ledger = Ledger(FileStore(str(folder / "checkpoint")))
    for _ in range(kills):
        last_batch, process = _last_batch(ledger), start()
        while not _committed_after(ledger, last_batch, moving):
            assert process.poll() is None, (folder / "log").read_text()[-2000:]
            time.sleep(0.02)
        time.sleep(chance.random())
        assert process.poll() is None, "the program ended before the kill"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        yield _last_batch(ledger)


def _last_batch(ledger: Ledger) -> int:
    last = ledger.last_entry()
    return 0 if last is None else last.batch


def _committed_after(ledger: Ledger, batch: int, moving: bool) -> bool:
    entry = ledger.last_entry()
    if entry is None or entry.batch <= batch:
        return False
    return not moving or entry.next_plan_number is not None or bool(entry.incoming)


def check_rows(
    folder: Path, *submitted: str, checkpoint: FileStore | None = None
) -> dict[str, Any]:
    """Compare the program's results with Spark's batch SQL; return its report."""
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    assert report["quarantined"] == []
    assert report["hosted"] == sorted([*report["expected"], *submitted])
    for name, rows in report["expected"].items():
        assert rows, f"{name} has no rows: the test checks nothing"
        assert report["results"][name] == rows, name
    _check_history(checkpoint or FileStore(str(folder / "checkpoint")))
    return report


def _check_history(checkpoint: FileStore) -> None:
    """Check that the history has every batch and decision once, all of it in Parquet."""
    snapshots, decisions, _ = read_history(checkpoint)
    committed = list(range(_last_batch(Ledger(checkpoint))))
    assert [snapshot.batch for snapshot in snapshots] == committed
    assert [decision.batch for decision in decisions] == committed
    assert checkpoint.list_names("history/recent") == []
