"""Points measured on Spark have the same results as without it."""

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
    saved: list[PointResult] = []
    sweep_points(spark, [(FIGURE.id, point) for point in [*points, bad]], saved.extend)
    by_point = {result.point: result for result in saved}
    assert len(saved) == len(by_point) == 7
    for point in points:
        assert by_point[point].rows == measure_point(FIGURE, point).rows
    assert "seconds must be at least 0" in by_point[bad].error


def test_one_point_of_each_algorithm_goes_ahead_the_papers_in_turn() -> None:
    def points(id_: str, *algorithms: str) -> list[tuple[str, str]]:
        return [(id_, point_name({"algorithm": name, "seed": at}))
                for name in algorithms for at in range(2)]  # fmt: skip

    one, other = points("one-fig1", "a", "b"), points("other-fig1", "a")
    ordered = one_per_algorithm_first([*one, *other])
    assert ordered == [one[0], other[0], one[2], one[1], one[3], other[1]]


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
    saved: list[PointResult] = []
    sweep_points(spark, work[:3], saved.extend, {FIGURE.id: FIGURE, "twin": twin}.__getitem__)
    by_experiment = {(result.experiment, result.point): result for result in saved}
    assert by_experiment.keys() == set(work[:3])
    assert len(saved) == 3
    assert by_experiment["twin", shared].rows == by_experiment[FIGURE.id, shared].rows
    assert (
        by_experiment["twin", shared].cpu_seconds
        == 0.0
        < by_experiment[FIGURE.id, shared].cpu_seconds
    )


def live_rows(point: Point) -> list[Row]:
    session = SparkSession.getActiveSession()
    assert session is not None, "a live point runs on the driver"
    assert TaskContext.get() is None
    return [{"counted": session.range(int(point["rows"])).count()}]


def test_live_points_have_the_session_for_themselves(spark: SparkSession) -> None:
    live = replace(FIGURE, id="live", live=True, run=live_rows)
    saved: list[PointResult] = []
    work = [("live", '{"rows": 5}'), ("live", '{"rows": 7}')]
    sweep_points(spark, work, saved.extend, {"live": live}.__getitem__)
    assert [result.rows for result in saved] == ['[{"counted": 5}]', '[{"counted": 7}]']


def test_an_exception_in_save_stops_the_sweep(spark: SparkSession) -> None:
    def save(results: list[PointResult]) -> None:
        raise KeyboardInterrupt

    points = [point_name(point) for point in FIGURE.points("small")[:6]]
    with pytest.raises(KeyboardInterrupt):
        sweep_points(spark, [(FIGURE.id, point) for point in points], save)
    assert spark.range(3).count() == 3, "the session still works"
