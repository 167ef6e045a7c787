"""A Spark session with what the runtime needs: retries, our interpreter, nothing open to others."""

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from evenflow.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.app.name": "evenflow",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # Progress of every batch is kept for the summary of a long run.
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def open_session(
    master: str, settings: Mapping[str, str] | None = None, modules: str | None = None
) -> "SparkSession":
    """Start Spark; `modules` is a folder in which workers look for Python modules too.

    A local master listens on the loopback address alone.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    fixed = dict(_SETTINGS)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        fixed |= _LOOPBACK
    if modules is not None:
        found = os.pathsep.join(p for p in (modules, os.environ.get("PYTHONPATH")) if p)
        os.environ["PYTHONPATH"] = found
        fixed["spark.executorEnv.PYTHONPATH"] = found
    builder = SparkSession.builder.master(master)
    for name, value in {**fixed, **(settings or {})}.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except (PySparkException, OSError) as error:
        raise SetupError(
            f"Spark does not start with master {master!r}: {str(error).splitlines()[0]}; "
            "it needs Java 17 or newer (JAVA_HOME) and, unless local, a master that runs"
        ) from None
