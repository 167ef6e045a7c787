"""Sinks get each batch once, unless the driver dies between a delivery and the note of it."""

import io
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.support.local_runtime import Local, unlock_checkpoints
from tests.support.spark_harness import trades
from tests.support.submissions import STREAMS, SUBMISSIONS

from evenflow.errors import ResultsRemovedError
from evenflow.model.retention import Retention
from evenflow.spark.driver import maintenance, merge_results, sinks
from evenflow.spark.driver.pending_state import CancelQuery
from evenflow.spark.driver.sink_target import Sink, SinkTarget, sink_targets
from evenflow.spark.driver.sinks import SinkDelivery
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol import entry
from evenflow.spark.run_view import RunView
from evenflow.spec import load_spec
from evenflow.spec.sink_model import SinkSpec

SPEC = SinkSpec(
    format="console", path=None, table=None, queries="*", select=(), options={"numRows": 10_000}
)
TARGET = SinkTarget("shown", "dear", SPEC, None)


class BusyRun(RunView):
    """A run that commits a batch whenever a sink starts to read."""

    def __init__(self, spark: SparkSession, local: Local) -> None:
        super().__init__(spark, local.committer)
        self.local = local
        self.rng = np.random.default_rng(2)

    def commit(self) -> None:
        self.local.batch({"trades": trades(self.rng, 30)})

    def result_frames(self, name: str, since: int, until: int, batch: str) -> dict[str, DataFrame]:
        self.commit()
        return super().result_frames(name, since, until, batch)


def only_dear(_: Iterable[str]) -> tuple[SinkTarget, ...]:
    return (TARGET,)


def delivered(console: io.StringIO) -> list[str]:
    return sorted(console.getvalue().splitlines())


def expected(local: Local) -> int:
    return local.results("dear").total()


def test_no_batch_is_delivered_twice_while_others_are_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    local, console = Local(tmp_path, STREAMS, SUBMISSIONS[:1]), io.StringIO()
    run = BusyRun(spark, local)
    run.commit()
    delivery = SinkDelivery(run, only_dear, console)
    for _ in range(3):
        before = expected(local)
        delivery.deliver(TARGET)
        assert len(delivered(console)) == before
    SinkDelivery(RunView(spark, local.committer), only_dear, console).deliver(TARGET)
    assert len(delivered(console)) == expected(local)


def test_after_a_crash_the_same_batches_are_delivered_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = Local(tmp_path, STREAMS, SUBMISSIONS[:1])
    run, first, second = BusyRun(spark, local), io.StringIO(), io.StringIO()
    run.commit()

    class Killed(BaseException):
        """Ends everything, as SIGKILL does."""

    def kill(_: str) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(sinks, "fault_point", kill)
        with pytest.raises(Killed):
            SinkDelivery(run, only_dear, first).deliver(TARGET)
    again = SinkDelivery(RunView(spark, local.committer), only_dear, second)
    again.deliver(TARGET)
    shown = len(delivered(first))
    again_first = sorted(second.getvalue().splitlines()[:shown])
    assert again_first == delivered(first), "the same batches come again"
    assert len(delivered(second)) == expected(local) > shown, "what was committed since follows"


class PausedRun(RunView):
    """A run whose driver pauses in a delivery, before or after a write."""

    pause: Callable[[], None]

    def result_frames(self, name: str, since: int, until: int, batch: str) -> dict[str, DataFrame]:
        frames = super().result_frames(name, since, until, batch)
        self.pause()
        return frames


def test_a_driver_that_was_taken_over_delivers_nothing_more(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlock_checkpoints(monkeypatch)
    first, rng = Local(tmp_path, STREAMS, SUBMISSIONS[:1]), np.random.default_rng(3)
    first.batch({"trades": trades(rng, 30)})
    consoles, seconds = (io.StringIO(), io.StringIO()), list[Local]()
    late, early = PausedRun(spark, first.committer), consoles[1]

    def take_over() -> None:
        second = first.another()
        seconds.append(second)
        delivery = SinkDelivery(RunView(spark, second.committer), only_dear, early)
        for _ in range(2):
            delivery.deliver(TARGET)
            second.batch({"trades": trades(rng, 30)})
        delivery.deliver(TARGET)

    late.pause = take_over
    old = SinkDelivery(late, only_dear, consoles[0])
    old._deliver_or_record_error(TARGET)
    assert "taken over by another driver" in old.errors["shown"]
    assert delivered(consoles[0]) == []
    assert len(delivered(early)) == expected(seconds[0])
    # One that pauses between the write and its note repeats that range, and nothing else.
    first = seconds.pop()
    first.batch({"trades": trades(rng, 30)})
    due = expected(first) - len(delivered(early))
    with monkeypatch.context() as patch:

        def pause(_: str) -> None:
            patch.undo()
            take_over()

        patch.setattr(sinks, "fault_point", pause)
        SinkDelivery(RunView(spark, first.committer), only_dear, consoles[0]).deliver(TARGET)
    assert len(delivered(consoles[0])) == due > 0
    assert len(delivered(early)) == expected(seconds[0]), "its note is not read"
    third = SinkDelivery(RunView(spark, seconds[0].another().committer), only_dear, consoles[0])
    third.deliver(TARGET)
    assert len(delivered(consoles[0])) == due, "nor after another start"


SPECIFICATION = """
workers: 3
checkpoint: run
datasets: {market: {kind: market, batches: 1}}
sources: {trades: {dataset: market, time: ts, watermark: 1 second}}
queries: {dear: "SELECT ts, symbol, price FROM trades"}
sinks:
  shown: {format: console, options: {numRows: 10000}}
  chosen: {format: console, queries: [dear]}
  fixed: {format: parquet, path: FOLDER/fixed}
"""


def test_queries_submitted_at_run_time_reach_the_sinks(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SPECIFICATION.replace("FOLDER", str(tmp_path)))
    checked = load_spec(tmp_path / "spec.yaml")
    local = Local(tmp_path / "run", STREAMS, SUBMISSIONS[:1])
    run, console, rng = RunView(spark, local.committer), io.StringIO(), np.random.default_rng(4)
    declared = {name: Sink(spec) for name, spec in checked.spec.sinks.items()}
    delivery = SinkDelivery(
        run, lambda names: sink_targets(declared, names, checked.order), console
    )

    def place(sql: str | None) -> None:
        """Cancel the query `new`, or submit it; then run a batch."""
        command = CancelQuery("new") if sql is None else Submission("query", "new", sql, None)
        local.committer.commands.submit(command)
        local.batch({"trades": trades(rng, 20)})

    place("SELECT ts, qty FROM trades")
    local.batch({"trades": trades(rng, 20)})
    # Cancelled, and its name used for something else, before a sink has read anything.
    place(None)
    place("SELECT ts, symbol, venue FROM trades")
    local.batch({"trades": trades(rng, 20)})
    assert {(t.sink, t.query) for t in delivery.targets} == {
        ("chosen", "dear"),
        *((sink, query) for sink in ("shown", "fixed") for query in ("dear", "new")),
    }
    for target in delivery.targets:
        delivery._deliver_or_record_error(target)
    lines = [line for line in delivered(console) if line.startswith("new: ")]
    assert len([line for line in lines if ", qty=" in line]) == 40
    assert len([line for line in lines if ", venue=" in line]) == 20
    assert delivery.errors.keys() == {"fixed"}, "its path has no {query}"
    assert "new: its results would go to the same place" in delivery.errors["fixed"]


def test_one_failing_query_of_a_sink_is_not_hidden_by_another(
    spark: SparkSession, tmp_path: Path
) -> None:
    local = Local(tmp_path, STREAMS, SUBMISSIONS[:1])
    local.batch({"trades": trades(np.random.default_rng(1), 20)})
    wrong = SPEC.model_copy(update={"select": ("no_such_column",)})
    targets = (replace(TARGET, spec=wrong), replace(TARGET, query="other"))
    delivery = SinkDelivery(RunView(spark, local.committer), lambda _: targets, io.StringIO())
    local.committer.commands.submit(replace(SUBMISSIONS[0], name="other"))
    local.batch({"trades": trades(np.random.default_rng(2), 20)})
    for target in targets:
        delivery._deliver_or_record_error(target)
    assert "no_such_column" in delivery.errors["shown"]


def test_results_are_read_with_and_without_a_spark_job(spark: SparkSession, tmp_path: Path) -> None:
    local, rng = Local(tmp_path, STREAMS, SUBMISSIONS[:1]), np.random.default_rng(6)
    for _ in range(3):
        local.batch({"trades": trades(rng, 30)})
    results = RunView(spark, local.committer).results
    whole = results("dear", batch="n")
    rows = sorted(map(str, whole.collect()))
    assert len(rows) > 20
    assert whole.to_arrow().num_rows == whole.count() == len(rows)
    assert sorted(whole.to_pandas()["n"].unique()) == [0, 1, 2]
    later = results("dear", since=1, until=2)
    assert later.count() == later.to_arrow().num_rows == (whole.to_pandas()["n"] == 1).sum()
    newest = results("dear", limit=4, batch="n")
    assert newest.where("n = 2").count() == newest.count() == 4
    assert set(map(str, newest.collect())) <= set(rows)
    assert newest.schema == whole.schema


def test_a_sink_behind_retention_stops_and_a_new_one_begins_with_what_is_there(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (entry, maintenance, merge_results):
        monkeypatch.setattr(module, "BLOCK_BATCHES", 4)
    console, rng = io.StringIO(), np.random.default_rng(2)
    local = Local(tmp_path, STREAMS, SUBMISSIONS[:1], keep=Retention(batches=6))
    run = RunView(spark, local.committer)
    local.batch({"trades": trades(rng, 30)})
    delivery = SinkDelivery(run, only_dear, console)
    delivery.deliver(TARGET)
    before = len(delivered(console))
    for _ in range(19):
        local.batch({"trades": trades(rng, 30)})
    assert run.first_kept > 1
    delivery._deliver_or_record_error(TARGET)
    assert f"batches 1 to {run.first_kept - 1} were removed" in delivery.errors["shown"]
    assert len(delivered(console)) == before
    new = replace(TARGET, sink="new")
    delivery.deliver(new)
    with pytest.warns(UserWarning, match=f"batches before {run.first_kept} were removed"):
        kept = run.results("dear").count()
    assert len(delivered(console)) == before + kept
    with pytest.raises(ResultsRemovedError, match="were removed"):
        run.results("dear", since=0)
