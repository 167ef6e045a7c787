"""The course of a run: Spark's figures, the verdict, bounded space, the history of a key."""

from typing import Any

import pytest
from tests.support.http_clients import HTTP, served
from tests.support.service_world import FakeRun, World, decision

from evenflow.model.decision import BalanceMetrics, Outcome
from evenflow.model.plan import Move
from evenflow.model.progress import BatchProgress
from evenflow.service.course import Course, batch_point, select, with_progress
from evenflow.service.course_schema import BatchPoint
from evenflow.service.keeping_up import keeping_up
from evenflow.service.metrics import Metrics
from evenflow.service.timeline import Timeline


def point(batch: int, **more: Any) -> BatchPoint:
    return batch_point(World().snapshot(batch)).model_copy(update=more)


def batches(seconds: float, every: float, rows: Any = 100, backlog: Any = None) -> list[BatchPoint]:
    return [
        point(
            number,
            seconds=every,
            batch_seconds=seconds,
            rows=rows(number) if callable(rows) else rows,
            backlog_rows=backlog(number) if callable(backlog) else backlog,
        )
        for number in range(20)
    ]


@pytest.mark.parametrize(
    ("points", "trigger", "verdict", "words"),
    [
        ([], 1.0, "not known", "three batches"),
        (batches(0.4, 1.0), 1.0, "keeping up", "400 ms of 1 s"),
        (batches(0.4, 1.0), 0.1, "keeping up", "busy 40%"),
        (batches(1.5, 1.5), 1.0, "at the limit", "rows may wait at the source"),
        (batches(1.5, 1.5, backlog=7), 1.0, "at the limit", "the trigger is 1 s"),
        (batches(1.5, 1.5, rows=lambda n: 100 * n), 1.0, "falling behind", "batches grow"),
        (batches(0.9, 1, backlog=lambda n: 500 * n), 1.0, "falling behind", "5,500 rows"),
    ],
    ids=["none", "trigger", "idle", "saturated", "steady backlog", "growing", "backlog"],
)
def test_the_verdict_says_how_one_can_tell(
    points: list[BatchPoint], trigger: float, verdict: str, words: str
) -> None:
    found = keeping_up(points, trigger)
    assert (found.verdict, words in found.message) == (verdict, True), found


def test_a_batch_is_split_by_what_spark_reports_a_moment_later() -> None:
    timeline = Timeline(3, Metrics(lambda: None))
    snapshots = (World().snapshot(0), World().snapshot(1))
    (first, second), _ = timeline.add(snapshots, (), (), {}, {"trades": 1_000_500_000})
    assert (first.batch_seconds, first.lag_seconds) == (None, {})
    assert second.lag_seconds == {"trades": 0.5}
    report = BatchProgress(1, rows=80, seconds=1.6, fixed_seconds=0.4, backlog_rows=9)
    (again,), _ = timeline.add(snapshots, (), (), {1: report}, {"trades": 1_000_900_000})
    assert (again.batch, again.rows, again.backlog_rows) == (1, 80, 9)
    assert (again.input_per_second, again.processed_per_second) == (40.0, 50.0)
    assert (again.batch_seconds, again.fixed_seconds) == (1.6, 0.4)
    assert again.lag_seconds == {"trades": 0.5}
    assert timeline.points[-1] == again
    assert [each.batch for each in timeline.whole_course()] == [1, 0]


def test_a_long_run_is_averaged_and_nothing_is_lost() -> None:
    course, numbers = Course(limit=50), range(1_000)
    for number in numbers:
        course.add(point(number, seconds=float(number), loads=[number, 0.0, 0.0]))
    assert len(course.points) <= 50
    assert sum(each.batches for each in course.points) == len(numbers)
    assert sum(p.seconds * p.batches for p in course.points) == pytest.approx(sum(numbers))
    assert sum(p.loads[0] * p.batches for p in course.points) == pytest.approx(
        sum(numbers), rel=1e-6
    )
    part = select(course.points, 1_500.0, 1_900.0, count=5)
    assert len(part) == 5 and part[0].at >= 1_500.0 and part[-1].at <= 1_900.0
    assert part[0].batch_seconds is None  # Spark reported on none of them


def test_progress_gives_rates() -> None:
    found = with_progress(point(3, seconds=1.0), BatchProgress(3, 100, seconds=2.0))
    assert (found.input_per_second, found.processed_per_second) == (50.0, 50.0)


def many_queries() -> FakeRun:
    run = FakeRun()
    run.quarantined = {"b": "why"}
    for number in range(4):
        run.batch(number)
    return run


def test_the_list_of_queries_is_searched_filtered_and_sorted() -> None:
    with served(many_queries()) as server:

        def names(parameters: str) -> list[str]:
            found = HTTP.get(f"{server.url}/api/query-list?{parameters}").json()
            return [row["name"] for row in found["rows"]]

        assert names("order=load&descending=1") == ["a", "k", "b"]
        assert names("order=name&descending=1") == ["k", "b", "a"]
        assert names("show=keyed") == ["k"]
        assert names("show=quarantined") == ["b"]
        assert names("search=K") == ["k"]
        assert names("order=name&offset=1&limit=1") == ["b"]
        row = HTTP.get(f"{server.url}/api/query-list?search=a").json()["rows"][0]
        assert (row["load"], row["loads"]) == (0.5, {"0": 0.5})
        refused = HTTP.get(f"{server.url}/api/query-list?order=weight")
        assert (refused.status_code, "load, name" in refused.json()["error"]) == (400, True)
        assert HTTP.get(f"{server.url}/api/queries/k").json()["key"] == ["symbol"]
        assert HTTP.get(f"{server.url}/api/queries/nobody").status_code == 404


def test_a_key_has_its_history() -> None:
    run = many_queries()
    moved = Move("k", 1, 2, int(run.plan.tables["k"].hashes[0]))
    run.decisions = (decision(2, plan=run.plan, moves=(moved,)),)
    run.outcomes = (Outcome(2, 3, BalanceMetrics(1.2, 2.0, 1.8), 77, 0.1),)
    with served(run) as server:
        found = HTTP.get(f"{server.url}/api/queries/k/key?key=hot").json()
        assert [(p["batch"], p["owners"]) for p in found["points"]] == [(n, [1]) for n in range(4)]
        assert found["points"][0]["share"] == pytest.approx(0.5 / 0.8)
        assert [(m["batch"], m["before"], m["after"]) for m in found["moves"]] == [(2, 1, 2)]
        assert HTTP.get(f"{server.url}/api/queries/k/key?key=cold").status_code == 404
        whole = HTTP.get(f"{server.url}/api/course?points=2").json()
        assert [p["batches"] for p in whole["points"]] == [2, 2]
        assert HTTP.get(f"{server.url}/api/course?start=x").status_code == 400
