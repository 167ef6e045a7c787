"""The time limit of a query's code follows the trigger, its rows and its state."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.spark.worker.test_query_guard import operator
from tests.support.evil_operators import DueSleeps, Sleeps
from tests.support.innocent import INNOCENT, ROWS
from tests.support.local_runtime import Local, runtime
from tests.support.submissions import STREAMS

from evenflow.spark.protocol.step_limits import StepLimits, overrun_seconds
from evenflow.spark.worker.worker_process import WorkerProcess
from evenflow.sql import Operator


@pytest.mark.parametrize("trigger_us", [1_000_000, 2_000_000, 3_000_000])
def test_a_hang_is_found_within_three_triggers(trigger_us: int) -> None:
    limit = StepLimits.of_trigger(trigger_us).for_work(0, 0)
    assert limit + overrun_seconds(limit) <= 3 * trigger_us / 1e6


def test_many_rows_and_much_state_get_more_time() -> None:
    limits = StepLimits.of_trigger(100_000)
    assert limits.for_work(0, 0) == 2.0
    assert limits.for_work(40_000, 0) == 4.0
    assert limits.for_work(0, 100_000_000) == 4.0
    assert limits.for_first().for_work(0, 0) == 5.0


class Ended(BaseException):
    """In place of the end of a process."""


@pytest.mark.parametrize("kind", [Sleeps, DueSleeps])
def test_a_process_with_an_operator_that_hangs_ends_in_time(
    tmp_path: Path, kind: type[Operator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch notes the query and ends the process, which a test cannot survive: it is told."""
    local = Local(tmp_path, STREAMS, [INNOCENT, operator(kind)], workers=1)
    slept: list[float] = []
    ended: list[float] = []

    def sleep(_: float) -> None:  # until the watch wants to end the process
        began = time.monotonic()
        while not ended:
            time.sleep(0.01)
        slept.append(ended[0] - began)
        raise Ended

    monkeypatch.setattr("tests.support.evil_operators.time", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(runtime(), "exit_process", lambda: ended.append(time.monotonic()))
    run_batch, limits = WorkerProcess.run_batch, StepLimits(0.4)

    def limited(self: WorkerProcess, *given: object, **named: object) -> object:
        return run_batch(self, *given, **{**named, "step_limits": limits})  # type: ignore[arg-type]

    monkeypatch.setattr(WorkerProcess, "run_batch", limited)
    local.batch({"trades": ROWS[0]})
    assert slept, "nobody ended it"
    assert slept[0] > 0.5, "not before the limit and half of it have passed"
    assert set(local.committer.checkpoint.head().quarantined) == {"evil@2"}
