"""The watcher publishes one state and delta per batch, and survives errors."""

from typing import Any

from tests.support.poll import until
from tests.support.service_world import FakeRun, World, decision

from evenflow.service.watcher import PublishedState, Watcher


def watcher(shown: Any) -> Watcher:
    return Watcher(shown)


def looked(found: Watcher) -> PublishedState:
    published = found.poll()
    assert published is not None
    return published


def test_a_batch_is_published_once_with_its_delta() -> None:
    shown = FakeRun()
    found = watcher(shown)
    first = looked(found).state.summary
    assert (first.status, first.batch, first.late, first.quarantined) == ("starting", None, 3, 1)
    assert first.set_aside == 5
    assert found.poll() is None
    shown.batch(0)
    shown.batch(1)
    two = looked(found)
    assert [point.batch for point in two.delta.points] == [0, 1]
    assert two.delta.workers == two.state.workers
    assert two.state.summary.bound == 1.2
    shown.batch(2)  # just like the one before
    three = looked(found).delta
    assert (three.workers, three.queries, three.streams, three.hot_keys) == (None,) * 4
    assert "workers" not in three.model_dump(exclude_unset=True)
    shown.decisions = (decision(2),)
    assert [one.number for one in looked(found).delta.decisions] == [2]
    shown.is_active = False
    assert looked(found).state.summary.status == "ended"
    assert found.poll() is None


def test_errors_of_the_run_are_reported_and_survived() -> None:
    shown = FakeRun()
    seen: list[PublishedState] = []
    found = watcher(shown)
    found.start(seen.append, lambda: None)
    try:
        until(lambda: len(seen) == 1)
        shown.broken = True
        until(lambda: not found.is_alive)
        shown.batch(0)
        shown.broken = False
        until(lambda: len(seen) == 2)
        until(lambda: found.is_alive)
    finally:
        found.stop()
    assert not found.is_alive


def test_the_whole_run_begins_with_its_history() -> None:
    shown = FakeRun()
    shown.past = [World().snapshot(batch) for batch in range(8)]
    for batch in range(5, 9):  # a batch may be recorded and still be in memory
        shown.batch(batch)
    found = watcher(shown)
    found.start(lambda _: None, lambda: None)
    try:
        until(lambda: found.current is not None)
        shown.batch(9)
        until(lambda: found.current is not None and len(found.current.course) == 10)
        assert found.current is not None
        assert [point.batch for point in found.current.course] == list(range(10))
        assert [point.batch for point in found.current.state.points] == list(range(5, 10))
    finally:
        found.stop()
