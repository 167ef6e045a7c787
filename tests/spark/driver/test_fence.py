"""Two drivers on one checkpoint: the later one goes on, the earlier one is stopped."""

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.support.local_runtime import Local, unlock_checkpoints
from tests.support.memory_store import memory_store
from tests.support.spark_harness import trades
from tests.support.submissions import STREAMS, SUBMISSIONS

from evenflow.errors import FencedError, InputError
from evenflow.model import Plan
from evenflow.planning.controller import Balancing
from evenflow.spark.driver.balancer import Balancer
from evenflow.spark.driver.committer import Committer
from evenflow.spark.driver.pending_state import CancelQuery
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.registry import Registry
from evenflow.spark.protocol.report import Report
from evenflow.storage.file_store import FileStore
from evenflow.storage.history import read_history

ROWS = {"trades": trades(np.random.default_rng(1), 60)}
LATE = Submission("query", "late", "SELECT ts, qty FROM trades WHERE qty > 3", ("symbol",))
Place = Callable[[], FileStore]


@pytest.fixture(params=["local", "remote"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A checkpoint that several drivers can open: the lock sees only those on one machine."""
    if request.param == "local":
        unlock_checkpoints(monkeypatch)
        return lambda: FileStore(str(tmp_path))
    remote = memory_store()
    return lambda: remote


def test_the_later_driver_goes_on_and_the_earlier_one_is_stopped(place: Place) -> None:
    calm = Local(memory_store(), STREAMS, SUBMISSIONS[:2])
    first = Local(place(), STREAMS, SUBMISSIONS[:2])
    for local in (calm, first):
        local.batch(ROWS)
    second = first.another()
    with pytest.raises(FencedError, match=r"taken over by another driver .*epoch 1.*has epoch 0"):
        first.batch(ROWS)
    for local in (calm, second):
        for _ in range(3):
            local.batch(ROWS)
    with pytest.raises(FencedError):
        first.batch(ROWS)
    assert first.committer.is_fenced
    for name in ("dear", "sums"):
        assert second.results(name) == calm.results(name)
    assert second.another().results("dear") == calm.results("dear"), "and for any other reader"


def test_a_driver_that_pauses_in_its_commit_changes_nothing(place: Place) -> None:
    """It has collected reports, which the batch of the later driver does not have."""
    first = Local(place(), STREAMS, SUBMISSIONS[:2])
    first.batch(ROWS)
    first.committer.commands.submit(CancelQuery("sums"))  # which the later one must apply
    seconds: list[Local] = []

    reports = first.work(1, ROWS)

    def pause() -> list[Report]:
        seconds.append(first.another())
        seconds[0].batch({"trades": ROWS["trades"].slice(0, 30)})
        return reports

    with pytest.raises(FencedError):
        first.committer.commit(1, pause)
    (second,) = seconds
    assert sorted(second.committer.checkpoint.registry().queries) == ["dear"]
    calm = Local(memory_store(), STREAMS, SUBMISSIONS[:2])
    calm.batch(ROWS)
    calm.batch({"trades": ROWS["trades"].slice(0, 30)})
    assert second.results("dear") == calm.results("dear")
    assert second.another().results("dear") == calm.results("dear")


def test_a_command_is_applied_by_the_later_driver_or_refused_by_the_earlier_one(
    place: Place,
) -> None:
    first = Local(place(), STREAMS, SUBMISSIONS[:2])
    second = first.another()
    with pytest.raises(FencedError):
        first.committer.commands.submit(LATE)
    second.committer.commands.submit(CancelQuery("sums"))
    second.batch()
    assert sorted(second.committer.checkpoint.registry().queries) == ["dear", "late"]
    assert second.committer.checkpoint.head().commands_applied == 2
    for _ in range(4):  # the files of the commands and of the entries are gone
        second.batch()
    with pytest.raises(FencedError):
        first.committer.commands.submit(CancelQuery("dear"))


def test_of_many_drivers_that_start_at_once_exactly_one_goes_on(place: Place) -> None:
    store = place()
    registry, plan = Registry(0, dict(STREAMS)), Plan(3)
    for submission in SUBMISSIONS[:2]:
        registry, plan = submission.apply(registry, plan)
    drivers = [Committer(store, 3, Balancer(Balancing.off())) for _ in range(6)]
    threads = [threading.Thread(target=d.open, args=(registry, plan)) for d in drivers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    epochs = [driver.checkpoint.head().epoch for driver in drivers]
    assert len(set(epochs)) == 6, "two drivers have the same epoch"
    committed = []
    for driver in drivers:
        try:
            driver.commit(0, lambda: [])
            committed.append(driver.checkpoint.head().epoch)
        except FencedError:
            assert driver.is_fenced
    assert committed == [max(epochs)]


def test_storage_that_overwrites_what_must_be_created_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = memory_store()
    monkeypatch.setattr(store, "create", store.write)
    with pytest.raises(InputError, match="supports conditional writes"):
        Local(store, STREAMS, SUBMISSIONS[:1])


def test_a_start_that_is_refused_does_not_stop_the_run(place: Place) -> None:
    first = Local(place(), STREAMS, SUBMISSIONS[:2])
    registry, plan = first.committer.commands.next_registry_and_plan()

    def check(hosted: Registry) -> None:
        raise InputError(f"{len(hosted.queries)} queries do not fit")

    with pytest.raises(InputError, match="2 queries do not fit"):
        Committer(first.store, 3, Balancer(Balancing.off())).open(registry, plan, (), check)
    with pytest.raises(InputError, match="has 3 workers, not 4"):
        Committer(first.store, 4, Balancer(Balancing.off())).open(registry, Plan(4))
    first.batch(ROWS)


def test_the_history_has_what_the_later_driver_committed(place: Place) -> None:
    first = Local(place(), STREAMS, SUBMISSIONS[:2])
    first.committer.balancer.open(first.committer.checkpoint.ledger)
    first.batch(ROWS)
    reports = first.work(1, ROWS)
    second = first.another()
    second.committer.balancer.open(second.committer.checkpoint.ledger)
    second.batch({"trades": ROWS["trades"].slice(0, 30)})

    def recorded() -> list[tuple[int, float, float]]:
        snapshots = read_history(second.store).snapshots
        return [(s.batch, s.at, sum(s.worker_cpu_seconds)) for s in snapshots]

    before = recorded()
    with pytest.raises(FencedError):
        first.committer.commit(1, lambda: reports)  # it notes its statistics before it commits
    assert len(second.store.list_names("history/recent")) == 3
    assert recorded() == before
    for at in range(2, 20):  # groups of batches become Parquet
        second.batch({"trades": ROWS["trades"].slice(0, at)})
    second.committer.balancer.close(20)
    assert second.store.list_names("history/recent") == []
    assert recorded()[:2] == before
    with pytest.raises(FencedError):
        first.committer.balancer.close(2)
    # Its statistics come after all others.
    with pytest.raises(FencedError):
        first.committer.commit(1, lambda: reports)
    assert recorded()[:2] == before
    again = second.another()
    again.committer.balancer.open(again.committer.checkpoint.ledger)
    again.committer.balancer.close(20)
    assert recorded()[:2] == before
