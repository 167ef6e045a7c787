"""Points swept on Spark: the same results as without, and none lost when the sweep is killed."""

from dataclasses import replace

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from evenflow.research.experiment import PointResult, measure_point, point_name
from evenflow.research.experiments.registry import EXPERIMENTS
from evenflow.research.points import Point, Row
from evenflow.research.sweep import group_equal_points, one_per_algorithm_first, sweep_points

FIGURE = EXPERIMENTS["borealis-fig1"]


def test_a_sweep_measures_every_point_once(spark: SparkSession) -> None:
    points = [point_name(point) for point in FIGURE.points("small")[:6]]
    bad = '{"algorithm": "cut", "load": 0.5, "seconds": -1, "seed": 0}'
    kept: list[PointResult] = []
    sweep_points(spark, [(FIGURE.id, point) for point in [*points, bad]], kept.extend)
    found = {outcome.point: outcome for outcome in kept}
    assert len(kept) == len(found) == 7
    for point in points:
        assert found[point].rows == measure_point(FIGURE, point).rows
    assert "seconds must be at least 0" in found[bad].error


def test_one_point_of_each_algorithm_goes_ahead_the_papers_in_turn() -> None:
    def points(id_: str, *algorithms: str) -> list[tuple[str, str]]:
        return [(id_, point_name({"algorithm": name, "seed": at}))
                for name in algorithms for at in range(2)]  # fmt: skip

    one, other = points("one-fig1", "a", "b"), points("other-fig1", "a")
    found = one_per_algorithm_first([*one, *other])
    assert found == [one[0], other[0], one[2], one[1], one[3], other[1]]


def test_a_point_that_two_figures_show_is_measured_once(spark: SparkSession) -> None:
    twin, other = replace(FIGURE, id="twin"), replace(FIGURE, id="other", run=live_rows)
    known = {one.id: one for one in (FIGURE, twin, other)}
    shared, own = (point_name(point) for point in FIGURE.points("small")[:2])
    work = [(FIGURE.id, shared), ("twin", shared), ("twin", own), ("other", shared)]
    assert group_equal_points(work, known.__getitem__) == {
        (FIGURE.id, shared): [FIGURE.id, "twin"],
        ("twin", own): ["twin"],
        ("other", shared): ["other"],
    }
    kept: list[PointResult] = []
    sweep_points(spark, work[:3], kept.extend, {FIGURE.id: FIGURE, "twin": twin}.__getitem__)
    found = {(outcome.experiment, outcome.point): outcome for outcome in kept}
    assert found.keys() == set(work[:3])
    assert len(kept) == 3
    assert found["twin", shared].rows == found[FIGURE.id, shared].rows
    assert found["twin", shared].cpu_seconds == 0.0 < found[FIGURE.id, shared].cpu_seconds


def live_rows(point: Point) -> list[Row]:
    session = SparkSession.getActiveSession()
    assert session is not None, "a live point runs on the driver"
    assert TaskContext.get() is None
    return [{"counted": session.range(int(point["rows"])).count()}]


def test_live_points_have_the_session_for_themselves(spark: SparkSession) -> None:
    live = replace(FIGURE, id="live", live=True, run=live_rows)
    kept: list[PointResult] = []
    work = [("live", '{"rows": 5}'), ("live", '{"rows": 7}')]
    sweep_points(spark, work, kept.extend, {"live": live}.__getitem__)
    assert [outcome.rows for outcome in kept] == ['[{"counted": 5}]', '[{"counted": 7}]']


def test_what_keeps_a_chunk_may_stop_the_sweep(spark: SparkSession) -> None:
    def keep(outcomes: list[PointResult]) -> None:
        raise KeyboardInterrupt

    points = [point_name(point) for point in FIGURE.points("small")[:6]]
    with pytest.raises(KeyboardInterrupt):
        sweep_points(spark, [(FIGURE.id, point) for point in points], keep)
    assert spark.range(3).count() == 3, "the session lives on"
