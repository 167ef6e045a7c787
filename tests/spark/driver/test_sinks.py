"""Sinks get each batch once, unless the driver dies between a delivery and the note of it."""

import io
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.support.local_runtime import Local
from tests.support.spark_harness import trades
from tests.support.submissions import STREAMS, SUBMISSIONS

from evenflow.spark.driver import sinks
from evenflow.spark.driver.sinks import SinkDelivery, SinkTarget
from evenflow.spark.run_view import RunView
from evenflow.spec.models import SinkSpec

SPEC = SinkSpec(format="console", path=None, queries="*", select=(), options={"numRows": 10_000})
TARGET = SinkTarget("shown", "dear", SPEC, None)


class BusyRun(RunView):
    """A run that commits a batch whenever a sink starts to read."""

    def __init__(self, spark: SparkSession, local: Local) -> None:
        super().__init__(spark, local.committer)
        self.local = local
        self.rng = np.random.default_rng(2)

    def commit(self) -> None:
        self.local.batch({"trades": trades(self.rng, 30)})

    def results(
        self, name: str, *, first: int = 0, until: int | None = None, batch: str | None = None
    ) -> DataFrame:
        self.commit()
        return super().results(name, first=first, until=until, batch=batch)


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
    delivery = SinkDelivery(run, (TARGET,), console)
    for _ in range(3):
        before = expected(local)
        delivery.deliver(TARGET)
        assert len(delivered(console)) == before
    SinkDelivery(RunView(spark, local.committer), (TARGET,), console).deliver(TARGET)
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
            SinkDelivery(run, (TARGET,), first).deliver(TARGET)
    again = SinkDelivery(RunView(spark, local.committer), (TARGET,), second)
    again.deliver(TARGET)
    assert delivered(second) == delivered(first), "the batch committed since comes by itself"
    again.deliver(TARGET)
    assert len(delivered(second)) == expected(local)
