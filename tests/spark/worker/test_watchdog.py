"""The watchdog of a worker process knows the clock only; it must not end a step that may go on."""

import faulthandler
import time

import pytest

from evenflow.spark.worker import sql_runtime
from evenflow.spark.worker.sql_runtime import SqlRuntime


def test_a_step_without_a_core_keeps_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with too much to do a first step takes minutes, of which few seconds count."""
    started: list[float] = []
    monkeypatch.setattr(sql_runtime, "WATCHDOG_RENEW_SECONDS", 0.05)
    monkeypatch.setattr(
        faulthandler, "dump_traceback_later", lambda seconds, **_: started.append(seconds)
    )
    monkeypatch.setattr("evenflow.sql.deadline_watch.seconds_waited", lambda *_: time.monotonic())
    runtime = SqlRuntime()
    with runtime.time_limit(pytest.fail, seconds=0.01):
        deadline = time.monotonic() + 20
        while len(started) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert len(started) >= 4
    assert set(started) == {sql_runtime.HARD_LIMIT_SECONDS + 0.015}
    runtime.stop_watchdog()


def test_the_watchdog_is_left_alone_once_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[float] = []
    ended: list[bool] = []
    monkeypatch.setattr(sql_runtime, "WATCHDOG_RENEW_SECONDS", 0.0)
    monkeypatch.setattr(
        faulthandler, "dump_traceback_later", lambda seconds, **_: started.append(seconds)
    )
    runtime = SqlRuntime()
    monkeypatch.setattr(runtime, "exit_process", lambda: ended.append(True))
    with runtime.time_limit(lambda: None, seconds=0.1):
        deadline = time.monotonic() + 20
        while not ended and time.monotonic() < deadline:
            time.sleep(0.01)
        before = len(started)
        time.sleep(0.3)
        assert ended
        assert len(started) == before
    runtime.stop_watchdog()
