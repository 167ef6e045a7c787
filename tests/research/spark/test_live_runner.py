"""A point of each live experiment runs on Spark; its figure and claims can be drawn."""

import json
from itertools import cycle

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from evenflow.errors import InputError
from evenflow.model import hash_keys, jump_hash
from evenflow.research.experiment import (
    Experiment,
    PointResult,
    measure_point,
    point_name,
    tidy_table,
)
from evenflow.research.experiments.registry import EXPERIMENTS
from evenflow.research.live_runner import master_with_task_slots, with_spark_run
from evenflow.research.live_workload import keys_by_worker, two_choices
from evenflow.research.points import Point

LIVE = [experiment for experiment in EXPERIMENTS.values() if experiment.live]
# Columns of points that make them short.
SHORT: Point = {"workers": 2, "batch_rows": 400, "change": 3, "cost": 1e-5, "activate": 1,
                "keys": 500, "scale": 0.01, "batches": 3, "seconds": 100, "skip": 1}  # fmt: skip
CHOSEN = {"mixed-fig13": "ideal", "mixed-fig14": "pkg", "mixed-fig15": "mixed"}


def short_point(experiment: Experiment) -> Point:
    wanted = CHOSEN.get(experiment.id)
    points = experiment.points("small")
    point = next(p for p in points if wanted in (None, p["algorithm"]))
    return {**point, **{name: value for name, value in SHORT.items() if name in point}}


@pytest.mark.parametrize("experiment", LIVE, ids=lambda e: e.id)
def test_a_point_runs_and_is_drawn(spark: SparkSession, experiment: Experiment) -> None:
    point = short_point(experiment)
    outcome = measure_point(with_spark_run(experiment, spark), point_name(point))
    assert not outcome.error
    rows = json.loads(outcome.rows)
    make_workload = experiment.live_workload
    assert make_workload is not None
    streams = make_workload(point).streams.values()
    row_counts = [sum(map(len, parts)) for parts in zip(*streams, strict=True)]
    assert [row["rows"] for row in rows] == [count for count in row_counts if count]
    assert all(row["seconds"] > 0 and row["max_over_mean"] >= 1 for row in rows)
    if "activate" in point:
        assert (rows[0]["active"], rows[-1]["active"]) == (1, 2)
    _check_figure_and_claims(experiment, rows)


def _check_figure_and_claims(experiment: Experiment, rows: list[dict[str, float]]) -> None:
    """Draw the figure and check the claims of the whole grid, with these batches repeated."""
    outcomes = []
    for point in experiment.points("small"):
        count = 2 * int(point.get("change", point.get("batches", 1)))
        filled = [{**row, "batch": at} for at, row in zip(range(count), cycle(rows))]
        outcomes.append(PointResult(experiment.id, point_name(point), json.dumps(filled), 0.1))
    table = tidy_table(outcomes)
    claims = experiment.claims(table)
    assert len(claims) >= 2
    assert all(claim.text and claim.measured for claim in claims)
    assert experiment.draw is not None
    drawn = experiment.draw(table)
    assert all(panel.has_data() and panel.get_ylabel() for panel in drawn.axes)


def test_too_few_slots_are_named(spark: SparkSession) -> None:
    experiment = LIVE[0]
    point = point_name({**short_point(experiment), "workers": 5})
    outcome = measure_point(with_spark_run(experiment, spark), point)
    assert "5 workers need as many task slots, got 2" in outcome.error


def test_a_live_point_needs_spark() -> None:
    with pytest.raises(InputError, match="a live experiment needs a Spark session"):
        LIVE[0].run({"seed": 0})


@pytest.mark.parametrize(
    ("master", "roomier"),
    [
        ("local", "local[8,4]"),
        ("local[2,4]", "local[8,4]"),
        ("local[8]", "local[8]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("yarn", "yarn"),
    ],
)
def test_only_local_masters_get_more_slots(master: str, roomier: str) -> None:
    assert master_with_task_slots(master, 8) == roomier


def test_two_choices_stay_with_their_workers_and_are_more_even_than_the_hash() -> None:
    rng, workers = np.random.default_rng(1), 5
    keys = pa.chunked_array([pa.array(rng.zipf(1.5, 4_000) % 1_000)])
    chosen = two_choices(keys, workers)
    hashed = jump_hash(hash_keys(keys), workers)
    for key in np.unique(keys.to_numpy())[:50]:
        mine = set(chosen[keys.to_numpy() == key].tolist())
        assert len(mine) <= 2
    even, uneven = np.bincount(chosen), np.bincount(hashed)
    assert even.max() < uneven.max()
    assert jump_hash(hash_keys(keys_by_worker(workers)), workers).tolist() == list(range(workers))
