"""Points swept on Spark: the same results as without, and none lost when the sweep is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from evenflow.experiments import EXPERIMENTS
from evenflow.experiments.experiment import Outcome, Point, Row, measure, name_of
from evenflow.experiments.results import Results
from evenflow.spark.sweep import sweep

FIGURE = EXPERIMENTS["borealis-fig1"]


def test_a_sweep_measures_every_point_once(spark: SparkSession) -> None:
    points = [name_of(point) for point in FIGURE.points("small")[:6]]
    bad = '{"algorithm": "cut", "load": 0.5, "seconds": -1, "seed": 0}'
    kept: list[Outcome] = []
    sweep(spark, [(FIGURE.id, point) for point in [*points, bad]], kept.extend)
    found = {outcome.point: outcome for outcome in kept}
    assert len(kept) == len(found) == 7
    for point in points:
        assert found[point].rows == measure(FIGURE, point).rows
    assert "seconds must be at least 0" in found[bad].error


def live_rows(point: Point) -> list[Row]:
    session = SparkSession.getActiveSession()
    assert session is not None, "a live point runs on the driver"
    assert TaskContext.get() is None
    return [{"counted": session.range(int(point["rows"])).count()}]


def test_live_points_have_the_session_for_themselves(spark: SparkSession) -> None:
    live = replace(FIGURE, id="live", live=True, run=live_rows)
    kept: list[Outcome] = []
    work = [("live", '{"rows": 5}'), ("live", '{"rows": 7}')]
    sweep(spark, work, kept.extend, {"live": live}.__getitem__)
    assert [outcome.rows for outcome in kept] == ['[{"counted": 5}]', '[{"counted": 7}]']


def test_what_keeps_a_chunk_may_stop_the_sweep(spark: SparkSession) -> None:
    def keep(outcomes: list[Outcome]) -> None:
        raise KeyboardInterrupt

    points = [name_of(point) for point in FIGURE.points("small")[:6]]
    with pytest.raises(KeyboardInterrupt):
        sweep(spark, [(FIGURE.id, point) for point in points], keep)
    assert spark.range(3).count() == 3, "the session lives on"


@pytest.mark.slow
def test_a_killed_sweep_goes_on_where_it_was(tmp_path: Path) -> None:
    out, total = tmp_path / "out", len(FIGURE.points("small"))
    command = [str(Path(sys.executable).with_name("evenflow")), "reproduce", FIGURE.id,
               "--out", str(out), "--master", "local[2]", "--json"]  # fmt: skip
    killed = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while len(list(out.glob("points/*/*.parquet"))) < 3:
        assert killed.poll() is None, killed.communicate()
        time.sleep(0.02)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert not (out / "report.md").exists()
    before = Results(out).finished(FIGURE.id)
    assert 3 <= len(before) < total

    again = subprocess.run([*command, "--resume"], capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    told = json.loads(again.stdout)
    assert told["points_run"] == total - len(before)
    after = Results(out).finished(FIGURE.id)
    assert len(after) == total
    assert all(after[name] == outcome for name, outcome in before.items())
    rows = pq.read_table(out / f"{FIGURE.id}.parquet")
    assert len(rows) == total
    for suffix in ("png", "svg"):
        assert (out / f"{FIGURE.id}.{suffix}").stat().st_size > 2_000
