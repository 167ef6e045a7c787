"""Faults of the machine under a run: it stops with the cause, and repaired it goes on exactly.

The table of all faults and their tests is in docs/reference/faults.md.
"""

import errno
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from copy import copy
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.support.faults import full_disk, no_open_files, read_only
from tests.support.local_runtime import Local
from tests.support.spark_harness import cut, trades
from tests.support.submissions import STREAMS, SUBMISSIONS, any_plan, last_row

from evenflow.model import Plan
from evenflow.spark.protocol.ledger import Ledger
from evenflow.spark.protocol.report import Report
from evenflow.spark.worker.sql_runtime import SqlRuntime
from evenflow.spark.worker.worker_process import WorkerProcess

ROOT = Path(__file__).parents[3]
NAMES = ("sums", "pairs")
Fault = Callable[[], AbstractContextManager[None]]


def play(folder: Path, fault: Fault | None = None) -> tuple[Local, list[OSError]]:
    """Run batches with moves; the fault comes in each, and is gone when the batch runs again."""
    rng, chance = np.random.default_rng(3), random.Random(3)  # noqa: S311
    batches = [*cut(rng, trades(rng, 60), 4), last_row()]
    local, errors = Local(folder, STREAMS, SUBMISSIONS[1:3], workers=2), []
    for at, rows in enumerate(batches):
        tables = any_plan(chance, 2).tables
        plan = Plan(2, {}, {name: tables[name] for name in NAMES})
        local.committer.commands.request_plan(plan)
        if fault is not None:
            try:
                faulty_batch(local, rows, fault, while_working=at % 2 == 0)
            except OSError as error:
                errors.append(error)
                local.reopen()
        if local.committer.checkpoint.head().batch == at:
            local.committer.commands.request_plan(plan)
            local.batch({"trades": rows})
    local.rest()
    assert local.committer.checkpoint.head().quarantined == {}
    return local, errors


def faulty_batch(local: Local, rows: pa.Table, fault: Fault, *, while_working: bool) -> None:
    """Run a batch; the fault comes before the workers work, or when the driver commits."""
    number = local.committer.checkpoint.head().batch
    local.store.write(f"spark/offsets/{number}", [])
    with ExitStack() as faults:
        if while_working:
            faults.enter_context(fault())

        def collect() -> list[Report]:
            reports = local.work(number, {"trades": rows})
            if not while_working:
                faults.enter_context(fault())
            return reports

        local.committer.commit(number, collect)


def check(folder: Path, fault: Fault, number: int, named: str) -> None:
    """Compare with an undisturbed run; the errors must have the number and name a file."""
    calm, _ = play(folder / "calm")
    wild, errors = play(folder / "disk" / "wild", fault)
    assert len(errors) >= 4, errors
    for error in errors:
        causes = [error, error.__cause__]
        assert number in [getattr(cause, "errno", None) for cause in causes], repr(error)
        assert named in str(error)
    for name in NAMES:
        assert wild.results(name) == calm.results(name), name
        assert calm.results(name), "the test checks nothing"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    fault = partial(read_only, tmp_path / "disk" / "wild")
    check(tmp_path, fault, errno.EACCES, str(tmp_path / "disk" / "wild"))


def test_too_many_open_files(tmp_path: Path) -> None:
    check(tmp_path, no_open_files, errno.EMFILE, "Too many open files")


def test_a_full_disk(tmp_path: Path) -> None:
    """On a file system of its own, where the test may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=64m tmpfs {disk}"
    program = [sys.executable, "-m", "tests.spark.driver.test_faults", str(tmp_path)]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f'{mount} || exit 77; exec "$@"', "sh", *program],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip
    if done.returncode == 77 or done.stderr.startswith("unshare: "):
        pytest.skip("a file system cannot be mounted here")
    assert done.returncode == 0, done.stderr[-3000:]


def test_attempts_that_hang_and_end_after_another_was_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As speculation has it: two attempts of every worker at a batch, and the slow one is late.

    (Spark itself starts no copy of a task on the host of the first, so not on one machine.)
    """
    calm, _ = play(tmp_path / "calm")
    rng, chance = np.random.default_rng(3), random.Random(3)  # noqa: S311
    batches = [*cut(rng, trades(rng, 60), 4), last_row()]
    local = Local(tmp_path / "wild", STREAMS, SUBMISSIONS[1:3], workers=2)
    slow, go, slow_runtime = copy(local), threading.Event(), SqlRuntime()

    def hang(point: str) -> None:
        is_slow = threading.current_thread() is not threading.main_thread()
        if point == "worker.before_write" and is_slow:
            assert go.wait(120)

    monkeypatch.setattr("evenflow.spark.worker.worker_batch.fault_point", hang)
    for rows in batches:
        tables = any_plan(chance, 2).tables
        local.committer.commands.request_plan(Plan(2, {}, {n: tables[n] for n in NAMES}))
        number = local.committer.checkpoint.head().batch
        slow.processes = [WorkerProcess(Ledger(local.store), slow_runtime)]
        late = threading.Thread(target=slow.work, args=(number, {"trades": rows}))
        late.start()
        local.batch({"trades": rows})
        before = len(list((tmp_path / "wild/state").iterdir()))
        go.set()
        late.join()
        go.clear()
        assert len(list((tmp_path / "wild/state").iterdir())) > before, "it wrote nothing"
    local.rest()
    for name in NAMES:
        assert local.results(name) == calm.results(name), name
    assert local.committer.checkpoint.head().quarantined == {}


def test_the_clock_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour back before every batch: nothing stops, and no result and no duration depends on it.

    (Rows are late or ahead by the clock of their batch only if it is wrong by more than a day.)
    """
    calm, _ = play(tmp_path / "calm")
    now = [1_700_000_000.0]

    def back() -> float:
        now[0] -= 3600.0
        return now[0]

    monkeypatch.setattr("time.time", back)
    wild, _ = play(tmp_path / "wild")
    for name in NAMES:
        assert wild.results(name) == calm.results(name), name
    assert all(batch.seconds >= 0 for batch in wild.committer.completed_batches)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    spares = iter([0, 0, 8192, 4096, 4096])
    check(
        place,
        lambda: full_disk(place / "disk", next(spares)),
        errno.ENOSPC,
        "No space left on device",
    )
