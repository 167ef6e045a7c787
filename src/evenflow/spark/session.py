"""Open a Spark session with the settings that the runtime needs."""

import os
import signal
import sys
import threading
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
    # Over TCP, a task with little output waits 40 ms for a delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    # Readers of our Parquet expect microseconds, not Spark's old INT96.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # The summary of a long run needs the progress of every batch.
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # Spark keeps the plans of this many jobs for its own pages, which are off: a run makes a job a
    # batch, and by default 1,000 of each stay in the memory of the JVM.
    "spark.sql.ui.retainedExecutions": "20",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
    "spark.ui.retainedDeadExecutors": "10",
    "spark.sql.streaming.ui.retainedQueries": "5",
}
_LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Python processes are forks of one that has loaded all modules: it saves seconds for each.
    "spark.python.daemon.module": "evenflow.spark.worker.daemon",
}


def open_session(
    master: str,
    settings: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> "SparkSession":
    """Start Spark, or return the running session; a local master listens on loopback only.

    Output of the JVM and of the Python processes goes to `log`, if given.
    """
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master)
    for name, value in {**settings_for(master), **(settings or {})}.items():
        builder = builder.config(name, value)
    try:
        with _redirect_output(log), _jvm_ignores_sigterm(), keep_sigint_handler():
            return builder.getOrCreate()
    except Exception as error:  # py4j raises whatever the JVM throws
        where = f"; more in {log}" if log else ""
        raise SetupError(
            f"Spark does not start with master {master!r}: {str(error).splitlines()[0]}; "
            f"it needs Java 17 or newer (JAVA_HOME) and, unless local, a running master{where}"
        ) from None


def settings_for(master: str) -> dict[str, str]:
    """Return the settings that a session is opened with.

    >>> settings_for("local[2]")["spark.python.daemon.module"]
    'evenflow.spark.worker.daemon'
    >>> "spark.python.daemon.module" in settings_for("spark://host:7077")
    False
    """
    return {**_SESSION_SETTINGS, **(_LOCAL_SETTINGS if master.startswith("local") else {})}


_starting_jvm = False


def _ignore_sigterm_in_jvm() -> None:
    if _starting_jvm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


os.register_at_fork(after_in_child=_ignore_sigterm_in_jvm)


@contextmanager
def _jvm_ignores_sigterm() -> Iterator[None]:
    """Make a JVM started in this context ignore SIGTERM.

    A signal to the whole process group then ends the driver, which stops Spark in order. PySpark
    does the same for SIGINT. A JVM without its driver ends when its standard input is closed.
    """
    global _starting_jvm  # noqa: PLW0603 - a hook of a fork has no arguments
    _starting_jvm = True
    try:
        yield
    finally:
        _starting_jvm = False


@contextmanager
def keep_sigint_handler() -> Iterator[None]:
    """Keep the caller's handler of Ctrl-C.

    PySpark sets its own, which cancels the running jobs: the current batch would not be finished.
    """
    handler = signal.getsignal(signal.SIGINT)
    own = handler not in (None, signal.default_int_handler)
    try:
        yield
    finally:
        if own and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _redirect_output(log: Path | None) -> Iterator[None]:
    """Redirect stdout and stderr of child processes started in this context to a file."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    originals = os.dup(1), os.dup(2)
    log.touch(mode=0o600)  # the JVM quotes values of rows in errors
    with log.open("ab") as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        for number, copy in zip((1, 2), originals, strict=True):
            os.dup2(copy, number)
            os.close(copy)
