"""The guard of a query: everything that a query computes runs inside it.

Its failure ends that query only: it is reported, and the driver quarantines it with its state kept.
A storage error is never a query's fault: it fails the attempt.
"""

from collections.abc import Callable
from typing import TypeVar

from evenflow.errors import StorageError
from evenflow.spark.worker.batch_context import BatchContext
from evenflow.spark.worker.crash_blame import AttemptLog

MAX_REASON_LENGTH = 500

Value = TypeVar("Value")


class QueryGuard:
    """Guards the queries of one worker's batch; lives for one attempt."""

    def __init__(self, context: BatchContext, attempt_log: AttemptLog) -> None:
        self._context, self._attempt_log = context, attempt_log
        for uid in attempt_log.blamed_uids:
            error = RuntimeError("the query ended the worker's process: out of time or memory")
            self.fail(uid, error)

    def run(self, uid: str, action: Callable[[], Value], more_bytes: int = 0) -> Value | None:
        """Run something of a query, unless it has failed or is not hosted; None if it fails.

        It gets more time for `more_bytes` of state that it takes in.
        """
        if not self._context.is_hosted(uid) or uid in self._context.report.failed:
            return None
        self._attempt_log.record_step(uid)
        result = None
        try:
            seconds = self._context.step_seconds(uid, more_bytes)
            with self._context.runtime.time_limit(self._attempt_log.record_overrun, seconds):
                result = action()
        except StorageError:
            self._attempt_log.record_step("")
            raise
        except BaseException as error:
            self.fail(uid, error)
        self._attempt_log.record_step("")
        return result

    def fail(self, uid: str, error: BaseException) -> None:
        """Report that a query failed, and drop what it has done in this batch."""
        self._context.report.failed[uid] = describe_failure(error)
        self._context.drop_query(uid)


def describe_failure(error: BaseException) -> str:
    """Say in a bounded line why a query failed, whatever its error does when it is read.

    >>> describe_failure(ValueError("x" * 10_000))[-40:]
    'xxxxxxxxxxxxxxxxxxxxxxxxx... (9500 more)'
    >>> describe_failure(ValueError("a\\x1b[31m\\nb\\ud800"))
    'ValueError: a\\\\x1b[31m\\\\nb\\\\ud800'
    """
    kind = type(error).__name__
    try:
        text = str(error)
    except BaseException as second:
        text = f"its message cannot be read: {type(second).__name__}"
    cut = text[:MAX_REASON_LENGTH]
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
    more = f"... ({len(text) - len(cut)} more)" if len(text) > len(cut) else ""
    return f"{kind[:100]}: {shown}{more}"
