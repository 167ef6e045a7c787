"""A Spark session with what the runtime needs: retries, our interpreter, nothing open to others."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from evenflow.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SESSION_SETTINGS = {
    "spark.app.name": "evenflow",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # Over TCP, a task with little to say waits 40 ms for an acknowledgement that is sent late.
    "spark.python.unix.domain.socket.enabled": "true",
    # Readers of our Parquet expect microseconds, not Spark's old INT96.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Progress of every batch is kept for the summary of a long run.
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
_LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Python processes are forks of one that has loaded what they need: seconds less for each.
    "spark.python.daemon.module": "evenflow.spark.worker.daemon",
}


def open_session(
    master: str,
    settings: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> "SparkSession":
    """Start Spark, or take the session that runs; a local master listens on loopback alone.

    What the JVM and the Python processes print goes to `log`, if there is one.
    """
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master)
    for name, value in {**settings_for(master), **(settings or {})}.items():
        builder = builder.config(name, value)
    try:
        with _redirect_output(log):
            return builder.getOrCreate()
    except Exception as error:  # py4j passes on whatever the JVM throws
        where = f"; more in {log}" if log else ""
        raise SetupError(
            f"Spark does not start with master {master!r}: {str(error).splitlines()[0]}; "
            f"it needs Java 17 or newer (JAVA_HOME) and, unless local, a master that runs{where}"
        ) from None


def settings_for(master: str) -> dict[str, str]:
    """Return the settings with which a session is opened.

    >>> settings_for("local[2]")["spark.python.daemon.module"]
    'evenflow.spark.worker.daemon'
    >>> "spark.python.daemon.module" in settings_for("spark://host:7077")
    False
    """
    return {**_SESSION_SETTINGS, **(_LOCAL_SETTINGS if master.startswith("local") else {})}


@contextmanager
def _redirect_output(log: Path | None) -> Iterator[None]:
    """Give children that are started meanwhile a file instead of our stdout and stderr."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with log.open("ab") as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)
