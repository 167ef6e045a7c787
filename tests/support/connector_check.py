"""Delivers results to a real table, with crashes between; prints what is missing and doubled.

Usage: python -m tests.support.connector_check FORMAT FOLDER [URL]

A program of its own, since connectors are settings of a new Spark session.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
from scripts.services import sink_jars
from tests.support.local_runtime import Local
from tests.support.spark_harness import trades
from tests.support.submissions import STREAMS, SUBMISSIONS

from evenflow.spark.driver import sinks
from evenflow.spark.driver.sink_target import Sink, sink_targets
from evenflow.spark.driver.sinks import SinkDelivery
from evenflow.spark.run_view import RunView
from evenflow.spark.session import open_session
from evenflow.spec.sink_model import SinkSpec
from evenflow.storage.fault_points import fault_point

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CRASHES = (False, True, False, True, True, False)
SETTINGS = {
    "jdbc": {},
    "iceberg": {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
    },
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
}


class KilledError(BaseException):
    """Ends everything, as SIGKILL does."""


def kill(_: str) -> None:
    raise KilledError


def session(name: str, folder: Path) -> "SparkSession":
    settings = {
        **SETTINGS[name],
        "spark.jars": ",".join(map(str, sink_jars(name))),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    if name == "iceberg":
        settings["spark.sql.catalog.lake.warehouse"] = str(folder / "lake")
    return open_session("local[2,4]", settings)


def sink(name: str, folder: Path, url: str) -> SinkSpec:
    places: dict[str, dict[str, Any]] = {
        "jdbc": {"table": "{query}", "options": {"url": url, "driver": "org.postgresql.Driver"}},
        "iceberg": {"table": "lake.db.{query}"},
        "delta": {"path": str(folder / "{query}")},
    }
    return SinkSpec.model_validate({"format": name, **places[name]})


def written(spark: "SparkSession", name: str, folder: Path, url: str) -> "DataFrame":
    if name == "iceberg":
        return spark.table("lake.db.dear")
    if name == "delta":
        return spark.read.format("delta").load(str(folder / "dear"))
    options = {"url": url, "dbtable": "dear", "driver": "org.postgresql.Driver"}
    return spark.read.format("jdbc").options(**options).load().drop("batch")


def main(name: str, folder: Path, url: str = "") -> dict[str, object]:
    """Deliver six batches, three of them with a crash after the write."""
    spark = session(name, folder)
    local, rng = Local(folder / "run", STREAMS, SUBMISSIONS[:1]), np.random.default_rng(3)
    target = sink_targets({"out": Sink(sink(name, folder, url))}, ["dear"], ["dear"])[0]
    run, crashed = RunView(spark, local.committer), 0
    for crash in (*CRASHES, False):
        local.batch({"trades": trades(rng, 40)})
        with patch.object(sinks, "fault_point", kill if crash else fault_point):
            try:
                SinkDelivery(run, lambda _: (target,)).deliver(target)
            except KilledError:
                crashed += 1
    SinkDelivery(run, lambda _: (target,)).deliver(target)
    expected = Counter(str(row) for row in run.results("dear").collect())
    delivered = Counter(str(row) for row in written(spark, name, folder, url).collect())
    spark.stop()
    return {
        "expected": expected.total(),
        "delivered": delivered.total(),
        "missing": (expected - delivered).total(),
        "duplicates": (delivered - expected).total(),
        "crashes": crashed,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])) + "\n")
