"""Start the program of `tests.support.crash_program`, kill it where asked or at random, check its rows."""

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
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a JVM that dies soon need not warm up


def lay(folder: Path, batches: int = 5) -> None:
    """Lay the rows of the scripted run."""
    rng = np.random.default_rng(5)
    rows = trades(rng, 24 * batches)
    late = pa.array([BEGIN_US + 3600 * SECOND]).cast(rows.schema.field("ts").type)
    last = rows.slice(0, 1).set_column(0, "ts", late)
    write_batches(folder / "trades", [*cut(rng, rows, batches), last])


def begin(folder: Path, *words: str, **environment: str) -> subprocess.Popen[bytes]:
    """Start the program, with the code that stands beside these tests."""
    command = [sys.executable, "-m", "tests.support.crash_program", str(folder), *words]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    own = {"PYTHONPATH": path, "JAVA_TOOL_OPTIONS": SHORT_LIVED, **environment}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **own}, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip


def end(process: subprocess.Popen[bytes]) -> int:
    """Wait; when it dies, its JVM goes too, as if the machine had lost power."""
    try:
        return process.wait(timeout=200)
    finally:
        os.killpg(process.pid, signal.SIGKILL)


def start(folder: Path, point: str = "", master: str = LOCAL) -> int:
    """Run the program to its end, or to where a crash point kills it."""
    mark = str(folder / f"mark-{point.partition(':')[0]}")
    return end(begin(folder, master, EVENFLOW_CRASH=point, EVENFLOW_CRASH_MARK=mark))


def kill_at_random(
    again: Callable[[], subprocess.Popen[bytes]],
    folder: Path,
    kills: int,
    chance: random.Random,
    *,
    moving: bool = False,
) -> Iterator[int]:
    """Start the program again and again and kill it within a second after a commit.

    With `moving` after one that has state handed over next, or taken in. Yields where the ledger
    stands then.
    """
    ledger = Ledger(FileStore(str(folder / "checkpoint")))
    for _ in range(kills):
        stood, process = _head(ledger), again()
        while not _is_after(ledger, stood, moving):
            assert process.poll() is None, (folder / "log").read_text()[-2000:]
            time.sleep(0.02)
        time.sleep(chance.random())
        assert process.poll() is None, "it ended before it was killed"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        yield _head(ledger)


def _head(ledger: Ledger) -> int:
    return max(ledger.batches(), default=0)


def _is_after(ledger: Ledger, stood: int, moving: bool) -> bool:
    head = _head(ledger)
    if head <= stood or not moving:
        return head > stood
    entry = ledger.entry(head)
    return entry.next_plan_number is not None or bool(entry.incoming)


def check(folder: Path, *asked: str) -> dict[str, Any]:
    """Compare what the program found with Spark's batch SQL; return what it told."""
    told: dict[str, Any] = json.loads((folder / "told.json").read_text())
    assert told["quarantined"] == []
    assert told["hosted"] == sorted([*told["expected"], *asked])
    for name, rows in told["expected"].items():
        assert rows, f"{name} has nothing to show"
        assert told["found"][name] == rows, name
    _check_history(str(folder / "checkpoint"))
    return told


def _check_history(checkpoint: str) -> None:
    """See that every batch and its decision are on record, each once, and all of it in Parquet."""
    snapshots, decisions, _ = read_history(checkpoint)
    committed = list(range(_head(Ledger(FileStore(checkpoint)))))
    assert [snapshot.batch for snapshot in snapshots] == committed
    assert [decision.batch for decision in decisions] == committed
    assert FileStore(checkpoint).list_names("history/recent") == []
