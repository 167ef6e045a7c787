"""Evidence against a query whose process died."""

import time
from pathlib import Path

import numpy as np
import pytest
from tests.support.local_runtime import Local, runtime
from tests.support.spark_harness import trades
from tests.support.submissions import STREAMS, SUBMISSIONS

from evenflow.spark.worker.crash_blame import AttemptLog, delete_notes
from evenflow.sql import Engine
from evenflow.storage.file_store import FileStore


def die(store: FileStore, attempt: int, *steps: str, start: str = "s", batch: int = 7) -> None:
    """An attempt whose process is killed in the last of some steps."""
    log = AttemptLog(store, 0, batch, attempt, start)
    for uid in steps[:-1]:
        log.record_step(uid)
        log.record_step("")
    log.record_step(steps[-1])


def blamed(store: FileStore, attempt: int = 3, start: str = "s", batch: int = 7) -> list[str]:
    return AttemptLog(store, 0, batch, attempt, start).blamed_uids


def test_only_the_same_query_twice_and_alone_is_blamed(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path))
    die(store, 0, "a", "b")
    die(store, 1, "a", "b")
    assert AttemptLog(store, 0, 7, 2, "s").suspect == "b"
    assert blamed(store, attempt=2) == []
    die(store, 2, "a", "b")  # another query ran before
    assert blamed(store) == []
    die(store, 3, "b")
    assert blamed(store, attempt=4) == ["b"]
    assert blamed(store, batch=8) == []
    delete_notes(store, 7)
    assert blamed(store, attempt=4) == ["b"], "batch 7 is not committed"
    delete_notes(store, 8)
    assert store.list_names("attempts/00000") == []


def test_different_queries_starts_and_speculation_blame_nobody(tmp_path: Path) -> None:
    for case, steps in enumerate([("a", "b"), ("", "b"), ("b", "")]):
        store = FileStore(str(tmp_path / str(case)))
        for attempt, uid in enumerate(steps, 1):
            die(store, attempt, uid)
        assert blamed(store) == [], steps
    store = FileStore(str(tmp_path / "starts"))
    for start in ("s", "t"):
        die(store, 1, "b", start=start)
    assert blamed(store) == blamed(store, start="t") == []
    store = FileStore(str(tmp_path / "speculation"))
    for attempt in (1, 2):
        die(store, attempt, "b", start="")
    assert blamed(store, start="") == []


def test_a_step_that_overran_its_limit_is_blamed_at_once_unless_it_ended(tmp_path: Path) -> None:
    store, engine = FileStore(str(tmp_path)), Engine()
    ended, hanging = AttemptLog(store, 0, 7, 0, "s"), AttemptLog(store, 1, 7, 0, "s")
    for log in (ended, hanging):
        log.record_step("slow")
        with engine.time_limit(0.05, 0.1, log.record_overrun):
            time.sleep(0.5)
    assert blamed(store, attempt=1) == ["slow"]
    ended.record_step("")
    assert blamed(store, attempt=1) == []
    assert AttemptLog(store, 1, 7, 0, "t").blamed_uids == ["slow"], "also after a restart"


def test_states_of_workers_that_moved_away_are_evicted_by_a_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = 7
    local = Local(tmp_path, STREAMS, SUBMISSIONS[6:7], workers=workers)
    plan = local.committer.commands.next_registry_and_plan()[1]
    rows = {"trades": trades(np.random.default_rng(1), 40)}
    first, second = local.processes
    for target in range(workers):
        local.committer.commands.request_plan(type(plan)(workers, {"lows": target}))
        for _ in range(3):
            local.batch(rows)
    assert len(first.states) == workers, "states that are committed stay"
    local.processes = [second, first]
    for target in range(workers):
        local.committer.commands.request_plan(type(plan)(workers, {"lows": target}))
        for _ in range(3):
            local.batch(rows)
    local.processes = [first, second]
    local.batch(rows)
    assert len(first.states) == workers, "all fit into the budget"
    used = sorted((state.batch, state.size_bytes) for state in first.states.values())
    monkeypatch.setattr(runtime(), "outdated_state_bytes", used[-3][1] + used[-2][1])
    local.batch(rows)
    local.batch(rows)
    assert len(first.states) <= 3
    assert max(batch for batch, _ in used) <= max(state.batch for state in first.states.values())
