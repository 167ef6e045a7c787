"""Kills the driver with its JVM, a Python worker and an executor: no result row changes."""

import random
import signal
from functools import partial
from pathlib import Path

import pytest
from tests.support.crash_points import POINTS
from tests.support.kill_driver import (
    LOCAL,
    check_rows,
    kill_at_random,
    run_program,
    start_program,
    wait_program,
    write_rows,
)
from tests.support.spark_harness import write_batches, zipf_batches

# The steps of the batch that decides a move, and of the next one, which transfers state.
DECIDE_STEPS, TRANSFER_STEPS = ("plan", "ledger"), ("collected", "results", "pulse")


@pytest.mark.slow
def test_the_driver_killed_again_and_again(tmp_path: Path) -> None:
    write_rows(tmp_path)
    steps = [f"driver.{step}" for step in (*DECIDE_STEPS, *TRANSFER_STEPS)]
    assert {*steps, "worker.before_write", "worker.after_write"} == set(POINTS)
    for point in ("run.widened", "driver.command", *steps):
        assert run_program(tmp_path, f"{point}:1") == -signal.SIGKILL, f"{point} was not reached"
    assert run_program(tmp_path, "worker.after_write:2") == 0
    assert (tmp_path / "mark-worker.after_write").exists(), "no Python worker was killed"
    check_rows(tmp_path, "submitted")


@pytest.mark.slow
def test_one_of_four_executors_is_lost_in_a_hand_off(tmp_path: Path) -> None:
    """The worker has written the state that moves, and dies before the driver knows."""
    write_rows(tmp_path)
    assert run_program(tmp_path, "worker.handed_off:1:executor", "local-cluster[4,1,1024]") == 0
    assert (tmp_path / "mark-worker.handed_off").exists(), "no executor was killed"
    assert "ExecutorLostFailure" in (tmp_path / "log").read_text() or (
        "Lost executor" in (tmp_path / "log").read_text()
    )
    check_rows(tmp_path)


@pytest.mark.slow
def test_killed_at_random_while_the_controller_moves_hot_keys(tmp_path: Path) -> None:
    write_batches(tmp_path / "trades", zipf_batches(16, 900, 300, 0.9, shift=4))
    start = partial(start_program, tmp_path, LOCAL, "decided")
    chance = random.Random(3)  # noqa: S311
    killed = list(kill_at_random(start, tmp_path, 4, chance, moving=True))
    assert wait_program(start()) == 0
    assert check_rows(tmp_path)["decided"].count("keys") >= 3, f"killed in {killed}"
