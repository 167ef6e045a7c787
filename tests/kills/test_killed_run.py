"""Real kills: of the driver with its JVM, of a Python worker, of an executor. No row changes."""

import random
import signal
from functools import partial
from pathlib import Path

import pytest
from tests.spark.driver.test_crash_points import POINTS
from tests.support.kill_driver import LOCAL, begin, check, end, kill_at_random, lay, start
from tests.support.spark_harness import write_batches, zipf_batches

# A move is decided and committed; in the batch after that, state is handed over.
DECIDING, HANDING_OVER = ("plan", "ledger"), ("collected", "results", "pulse")


@pytest.mark.slow
def test_the_driver_killed_again_and_again(tmp_path: Path) -> None:
    lay(tmp_path)
    steps = [f"driver.{step}" for step in (*DECIDING, *HANDING_OVER)]
    assert {*steps, "worker.before_write", "worker.after_write"} == set(POINTS)
    for point in ("run.widened", "committer.asked", *steps):
        assert start(tmp_path, f"{point}:1") == -signal.SIGKILL, f"{point} was not reached"
    assert start(tmp_path, "worker.after_write:2") == 0
    assert (tmp_path / "mark-worker.after_write").exists(), "no Python worker was killed"
    check(tmp_path, "asked")


@pytest.mark.slow
def test_separate_executors_and_one_of_them_killed(tmp_path: Path) -> None:
    lay(tmp_path)
    assert start(tmp_path, "worker.before_write:2:executor", "local-cluster[2,1,1024]") == 0
    assert (tmp_path / "mark-worker.before_write").exists(), "no executor was killed"
    assert "ExecutorLostFailure" in (tmp_path / "log").read_text() or (
        "Lost executor" in (tmp_path / "log").read_text()
    )
    check(tmp_path)


@pytest.mark.slow
def test_killed_at_random_while_the_controller_moves_hot_keys(tmp_path: Path) -> None:
    write_batches(tmp_path / "trades", zipf_batches(16, 900, 300, 0.9, shift=4))
    again = partial(begin, tmp_path, LOCAL, "decided")
    chance = random.Random(3)  # noqa: S311
    killed = list(kill_at_random(again, tmp_path, 4, chance, moving=True))
    assert end(again()) == 0
    assert check(tmp_path)["decided"].count("keys") >= 3, f"killed in {killed}"
