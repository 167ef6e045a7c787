"""Formats that hold each row once, also if a delivery is repeated after a crash."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from tests.support.local_runtime import Local
from tests.support.spark_harness import trades
from tests.support.submissions import STREAMS, SUBMISSIONS

from evenflow.errors import InputError
from evenflow.spark.driver import sinks
from evenflow.spark.driver.pending_state import CancelQuery
from evenflow.spark.driver.sink_target import Delivery, Sink, SinkTarget, sink_targets
from evenflow.spark.driver.sinks import SinkDelivery
from evenflow.spark.driver.submission import Submission
from evenflow.spark.flow import Flow
from evenflow.spark.run_view import RunView
from evenflow.spec.sink_model import SinkSpec
from evenflow.sql.compile.hints import with_hints


class KilledError(BaseException):
    """Ends everything, as SIGKILL does."""


def target(sink: Sink) -> SinkTarget:
    return sink_targets({"out": sink}, ["dear"], ["dear"])[0]


def spec(**fields: object) -> SinkSpec:
    return SinkSpec.model_validate(fields)


def delta_rows(folder: Path) -> Counter[str]:
    return Counter(str(row) for row in DeltaTable(folder).to_pyarrow_table().to_pylist())


def test_delta_skips_a_delivery_that_was_written_before_a_crash(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local, rng = Local(tmp_path / "run", STREAMS, SUBMISSIONS[:1]), np.random.default_rng(3)
    place = target(Sink(spec(format="delta", path=str(tmp_path / "{query}"))))
    run = RunView(spark, local.committer)

    def kill(_: str) -> None:
        raise KilledError

    for crash in (False, True, False, True, True, False):
        local.batch({"trades": trades(rng, 40)})
        with monkeypatch.context() as patch:
            if crash:
                patch.setattr(sinks, "fault_point", kill)
            try:
                SinkDelivery(run, lambda _: (place,)).deliver(place)
            except KilledError:
                assert crash
    SinkDelivery(run, lambda _: (place,)).deliver(place)
    expected = Counter(str(row) for row in run.results("dear").to_arrow().to_pylist())
    assert expected.total() > 100
    assert delta_rows(tmp_path / "dear") == expected


def test_a_new_checkpoint_at_the_same_place_delivers_anew(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = target(Sink(spec(format="delta", path=str(tmp_path / "out"))))
    for number in (1, 2):
        local = Local(tmp_path / f"run{number}", STREAMS, SUBMISSIONS[:1])
        local.batch({"trades": trades(np.random.default_rng(number), 40)})
        run = RunView(spark, local.committer)
        before = delta_rows(tmp_path / "out").total() if number == 2 else 0
        SinkDelivery(run, lambda _: (place,)).deliver(place)
        added = delta_rows(tmp_path / "out").total() - before
        assert added == run.results("dear").to_arrow().num_rows > 0


def test_foreach_batch_gets_each_range_with_its_writer(spark: SparkSession, tmp_path: Path) -> None:
    calls: list[tuple[int, int, str, int]] = []

    def keep(frame: DataFrame, delivery: Delivery) -> None:
        calls.append((delivery.first, delivery.until, delivery.writer, frame.count()))

    local, rng = Local(tmp_path, STREAMS, SUBMISSIONS[:1]), np.random.default_rng(5)
    place = target(Sink(spec(format="console"), keep))
    delivery = SinkDelivery(RunView(spark, local.committer), lambda _: (place,))
    for _ in range(2):
        local.batch({"trades": trades(rng, 30)})
        delivery.deliver(place)
    assert [(first, until) for first, until, _, _ in calls] == [(0, 1), (1, 2)]
    assert len({writer for _, _, writer, _ in calls}) == 1
    assert sum(rows for *_, rows in calls) == local.results("dear").total() > 0


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"format": "iceberg"}, "table is required for the format iceberg"),
        ({"format": "delta"}, "path is required for the format delta"),
        ({"format": "jdbc", "path": "x"}, "path is not valid for the format jdbc; use `table`"),
        ({"path": "x", "table": "y"}, "table cannot be combined with `path`"),
        ({"path": "x", "queries": ["deer"]}, "unknown query 'deer'; queries: dear"),
        ({"format": "kafka", "table": "y"}, "table is not valid for the format kafka"),
        ({"path": "x", "foreach_batch": print}, "takes no path and no table"),
    ],
)
def test_wrong_sinks_are_refused_before_anything_starts(
    spark: SparkSession, tmp_path: Path, fields: dict[str, object], problem: str
) -> None:
    flow = Flow(spark, workers=1, checkpoint=str(tmp_path))
    frame = spark.readStream.format("rate").load()
    flow.source("ticks", frame, time="timestamp", watermark="1 second")
    flow.query("dear", "SELECT timestamp, value FROM ticks")
    with pytest.raises(InputError, match=problem.replace("`", ".")):
        flow.sink("out", **fields)  # type: ignore[arg-type]
        flow.start()


def test_the_last_results_of_a_cancelled_query_are_updates_too(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = with_hints("SELECT symbol, count(*) AS n FROM trades GROUP BY symbol", "update", "1 hour")
    live = Submission("query", "live", sql, ("symbol",))
    local = Local(tmp_path, STREAMS, [SUBMISSIONS[0], live])
    local.batch({"trades": trades(np.random.default_rng(5), 30)})
    local.committer.commands.submit(CancelQuery("live"))
    local.batch()
    assert "live" not in local.committer.checkpoint.registry().queries
    keys: dict[str, object] = {}
    monkeypatch.setattr(
        sinks,
        "write_delivery",
        lambda _, target, __: keys.update({target.query: target.upsert_key}),
    )
    sink = Sink(spec(format="jdbc", table="{query}"))
    delivery = SinkDelivery(
        RunView(spark, local.committer), lambda names: sink_targets({"out": sink}, names, [])
    )
    for each in delivery.targets:
        delivery.deliver(each)
    assert keys == {"live": ("symbol",), "dear": None}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"path": "x"}, "the format parquet cannot update the results of 'live'; use jdbc"),
        ({"format": "delta", "path": "x"}, "the format delta cannot update"),
        ({"format": "kafka"}, "needs a key for Kafka"),
        ({"format": "jdbc", "table": "t", "select": ["k AS i", "n"]}, "`select` lacks k"),
    ],
)
def test_sinks_that_cannot_update_refuse_update_mode(
    spark: SparkSession, tmp_path: Path, fields: dict[str, object], problem: str
) -> None:
    flow = Flow(spark, workers=1, checkpoint=str(tmp_path))
    frame = spark.readStream.format("rate").load()
    flow.source("ticks", frame, time="timestamp", watermark="1 second")
    sql = "SELECT value % 3 AS k, count(*) AS n FROM ticks GROUP BY value % 3"
    flow.query("live", sql, mode="update", ttl="1 hour")
    assert flow.queries["live"].upsert_key == ("k",)
    with pytest.raises(InputError, match=problem):
        flow.sink("out", **fields)  # type: ignore[arg-type]
        flow.start()
    with pytest.raises(InputError, match="cannot be published"):
        flow.query("shown", sql, mode="update", ttl="1 hour", publish=True)
