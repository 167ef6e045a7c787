"""What Spark calls for each batch of a streaming query, in Python."""

# Imports nothing of ours: Spark keeps the callback until the process ends, and with it whatever it
# refers to. DuckDB would then complain at exit about objects that are left.

import socket
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pyspark import SparkContext

# Spark searches the text of an error for this, to see that a stop interrupted the batch. Its search
# recurses once per character, so a page of stack trace after it overflows the stack of the JVM.
_INTERRUPTED = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling the batch: "
    "java.lang.InterruptedException"
)
_SIGNS_OF_A_STOP = ("InterruptedException", "ClosedByInterruptException", "JOB_CANCELLED")


class BatchFailedError(Exception):
    """A batch failed or was interrupted; the message is what Spark is told."""


class BatchCallback:
    """Calls a function for each batch until it is closed; errors of the JVM become short ones."""

    def __init__(self, run_batch: Callable[[Any, int], None]) -> None:
        self._run_batch: Callable[[Any, int], None] | None = run_batch
        self._connection: Any = None

    def close(self) -> None:
        """Forget the function, once Spark's query has ended; a later call fails.

        Each query of Spark calls in a thread of its own here, which would stay for ever, with its
        connection to the JVM: a run that starts its query often would collect them.
        """
        self._run_batch = None
        with suppress(AttributeError, OSError):  # none, or closed already
            self._connection.socket.shutdown(socket.SHUT_RDWR)
        self._connection = None

    def __call__(self, frame: Any, batch: int) -> None:
        """Run one batch."""
        # PySpark keeps the error with its frames, so it is raised where they hold nothing of ours.
        failure = self._failure_of(frame, batch)
        if failure is not None:
            raise BatchFailedError(failure)

    def _failure_of(self, frame: Any, batch: int) -> str | None:
        if self._run_batch is None:
            return f"batch {batch} came after the run had ended"
        self._connection = _connection_of_thread()
        try:
            self._run_batch(frame, batch)
        except Exception as error:
            return error_text(error)
        return None


def _connection_of_thread() -> Any:
    """Return py4j's connection that the JVM calls this thread on."""
    gateway: Any = SparkContext._gateway
    with suppress(AttributeError):
        return gateway._gateway_client.get_thread_connection()
    return None


def error_text(error: Exception) -> str:
    """Return the text to pass on; of an error of the JVM without the word that Spark searches."""
    java = getattr(error, "java_exception", None)
    if java is None:
        return "".join(traceback.format_exception(error))
    message = str(java.toString())
    return _INTERRUPTED if any(sign in message for sign in _SIGNS_OF_A_STOP) else str(error)
