"""The guard of a query: everything that a query computes runs inside it.

Its failure ends that query only: it is reported, and the driver quarantines it with its state kept.
A storage error is never a query's fault: it fails the attempt.
"""

from collections.abc import Callable

from evenflow.errors import StorageError
from evenflow.spark.worker.batch_context import BatchContext
from evenflow.spark.worker.crash_blame import AttemptLog


class QueryGuard:
    """Guards the queries of one worker's batch; lives for one attempt."""

    def __init__(self, context: BatchContext, attempt_log: AttemptLog) -> None:
        self._context, self._attempt_log = context, attempt_log
        for uid in attempt_log.blamed_uids:
            error = RuntimeError("the query ended the worker's process: out of time or memory")
            self.fail(uid, error)

    def run(self, uid: str, action: Callable[[], None]) -> None:
        """Run something of a query, unless it has failed or is not hosted."""
        if not self._context.is_hosted(uid) or uid in self._context.report.failed:
            return
        self._attempt_log.record_step(uid)
        try:
            with self._context.runtime.time_limit(self._attempt_log.record_overrun):
                action()
        except StorageError:
            self._attempt_log.record_step("")
            raise
        except Exception as error:  # untrusted code may raise anything
            self.fail(uid, error)
        self._attempt_log.record_step("")

    def fail(self, uid: str, error: Exception) -> None:
        """Report that a query failed, and drop what it has done in this batch."""
        self._context.report.failed[uid] = f"{type(error).__name__}: {error}"
        self._context.drop_query(uid)
