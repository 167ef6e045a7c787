"""Errors of a batch as Spark sees them: short, and a stop is recognised as one."""

import threading
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from evenflow.errors import StorageError
from evenflow.spark.driver.batch_callback import BatchCallback, BatchFailedError, error_text
from evenflow.spark.driver.streaming_query import storage_error_in


class JavaError(Exception):
    """An error of the JVM, as py4j raises it."""

    def __init__(self, message: str) -> None:
        trace = "\tat a.b.C.d(E.java:1)\n" * 5_000
        super().__init__(f"An error occurred while calling o1.\n: {message}\n{trace}")
        self.java_exception = self
        self._message = message

    def toString(self) -> str:  # noqa: N802 - Java's name
        return self._message


CANCELLED = "org.apache.spark.SparkException: [SPARK_JOB_CANCELLED] Job 3 cancelled"


def is_stop(spark: SparkSession, text: str) -> bool:
    """Ask Spark itself whether an error with this text is that of a stop."""
    jvm: Any = spark._jvm
    execution = jvm.org.apache.spark.sql.execution.streaming.runtime.StreamExecution
    error = jvm.py4j.Py4JException(text)
    return bool(execution.isInterruptionException(error, spark.sparkContext._jsc.sc()))


def test_spark_recognises_a_stop_and_does_not_overflow(spark: SparkSession) -> None:
    assert is_stop(spark, f"Traceback ...\n{error_text(JavaError(CANCELLED))}")
    assert not is_stop(spark, error_text(JavaError("org.apache.spark.SparkException: aborted")))
    raw = f"py4j.protocol.Py4JJavaError: An error occurred while calling o1.\n{'x' * 100_000}"
    with pytest.raises(Py4JJavaError, match="StackOverflowError"):
        is_stop(spark, raw)  # the reason for all this; if it no longer fails, drop the callback


def test_no_frame_of_ours_is_kept_by_an_error() -> None:
    def fail(_: Any, batch: int) -> None:
        raise JavaError(CANCELLED) if batch else StorageError("f is gone")

    callback = BatchCallback(fail)
    with pytest.raises(BatchFailedError, match="InterruptedException") as stopped:
        callback(None, 1)
    assert len(str(stopped.value)) < 200
    assert (stopped.value.__context__, stopped.value.__cause__) == (None, None)
    with pytest.raises(BatchFailedError, match="in fail") as failed:
        callback(None, 0)
    assert str(storage_error_in(failed.value)) == "f is gone"
    callback.close()
    with pytest.raises(BatchFailedError, match="after the run had ended"):
        callback(None, 2)


def test_the_thread_of_a_query_ends_with_it(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "a.txt").write_text("a")
    threads = []
    for number in range(2):
        callback = BatchCallback(lambda *_: threads.append(threading.current_thread()))
        writer = spark.readStream.text(str(tmp_path / "rows")).writeStream.foreachBatch(callback)
        writer = writer.option("checkpointLocation", str(tmp_path / str(number)))
        writer.trigger(availableNow=True).start().awaitTermination()
        callback.close()
    for thread in threads:
        thread.join(30)
    assert [thread.is_alive() for thread in threads] == [False, False]
    assert spark.range(3).count() == 3
