"""What Spark calls for each batch of a streaming query, in Python."""

# Imports nothing of ours: Spark keeps the callback until the process ends, and with it whatever it
# refers to. DuckDB would then complain at exit about objects that are left.

import traceback
from collections.abc import Callable
from typing import Any

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

    def close(self) -> None:
        """Forget the function; a later call fails."""
        self._run_batch = None

    def __call__(self, frame: Any, batch: int) -> None:
        """Run one batch."""
        # PySpark keeps the error with its frames, so it is raised where they hold nothing of ours.
        failure = self._failure_of(frame, batch)
        if failure is not None:
            raise BatchFailedError(failure)

    def _failure_of(self, frame: Any, batch: int) -> str | None:
        if self._run_batch is None:
            return f"batch {batch} came after the run had ended"
        try:
            self._run_batch(frame, batch)
        except Exception as error:
            return error_text(error)
        return None


def error_text(error: Exception) -> str:
    """Return the text to pass on; of an error of the JVM without the word that Spark searches."""
    java = getattr(error, "java_exception", None)
    if java is None:
        return "".join(traceback.format_exception(error))
    message = str(java.toString())
    return _INTERRUPTED if any(sign in message for sign in _SIGNS_OF_A_STOP) else str(error)
