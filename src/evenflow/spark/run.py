"""A running flow: the handle to submit, cancel, move and stop; `view` is what can be read of it."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.planning.controller import Balancing
from evenflow.spark import query_api
from evenflow.spark.driver.balancer import Balancer
from evenflow.spark.driver.column_pruning import SourceColumns, covers_columns, needed_columns
from evenflow.spark.driver.commands import CancelQuery, PinQuery
from evenflow.spark.driver.committer import Committer
from evenflow.spark.driver.streaming_query import report_frame, start_streaming_query
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.measure_options import MeasureOptions
from evenflow.spark.protocol.registry import Hosted, Registry, join_names
from evenflow.spark.run_view import RunView
from evenflow.spark.worker.spark_tasks import CheckpointId, WorkerTask
from evenflow.spark.worker.worker_batch import TaskRuntime
from evenflow.storage.fault_points import fault_point

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class Run(RunView, query_api.QueryMethods):
    """What `Flow.start` returns."""

    def __init__(
        self,
        spark: "SparkSession",
        driver: Committer,
        balancer: Balancer,
        sources: Mapping[str, "DataFrame"],
        runtime: Callable[[], TaskRuntime],
        measuring: MeasureOptions,
    ) -> None:
        super().__init__(spark, driver, balancer)
        self._sources, self._runtime, self._measure_options = sources, runtime, measuring
        self._query: StreamingQuery | None = None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._stop_requested = threading.Event()
        self._trigger: str | None = None
        self._projection: SourceColumns = {}
        # Held while Spark's query is started, stopped or replaced.
        self._query_lock = threading.RLock()

    # Beginning and ending

    def begin(self, trigger: str | None) -> None:
        """Start Spark's query: every `trigger`, or once over all that is there."""
        self._trigger = trigger
        self._query = self._start_query()
        if trigger is None:
            self._thread = threading.Thread(
                target=self._run_until_idle, name="evenflow-drain", daemon=True
            )
            self._thread.start()

    def _run_until_idle(self) -> None:
        """Go on until nothing is due: Spark fixes the ends of all sources at its start."""
        begun = -1
        try:
            while (query := self._query) is not None:
                query.awaitTermination()
                with self._query_lock:
                    if self._query is not query:
                        continue
                    head = self._driver.head().batch
                    if (
                        self._stop_requested.is_set()
                        or head == begun
                        or not self._driver.has_pending_work()
                    ):
                        return
                    begun, self._query = head, self._start_query()
        except BaseException as error:  # handed to await_termination
            self._error = error
        finally:
            self._release_checkpoint()

    def _release_checkpoint(self) -> None:
        """Let go of the checkpoint, with all that happened on record."""
        try:
            self._balancer.close(self._driver.head().batch)
        finally:
            self._driver.close()

    def _start_query(self, *coming: Registry) -> "StreamingQuery":
        """Start Spark's query over the columns that are needed now, or will be."""
        head = self._driver.ledger.registry(self._driver.head().registry_version)
        registries = [head, self._driver.next_registry_and_plan()[0], *coming]
        self._projection = needed_columns(registries, sorted(self._sources))
        home = CheckpointId(self._driver.store.uri, self._driver.identity)
        work = WorkerTask(home, self._runtime, self._measure_options)
        frame = report_frame(self._spark, self._driver, self._sources, self._projection, work)
        return start_streaming_query(self._spark, self._driver, frame, self._trigger)

    def _ensure_columns(self, registry: Registry, name: str) -> None:
        """See that the sources bring what a query needs, before a batch may ask for it.

        Spark's query is replaced at a border, if need be: the batch under way is given up, and
        replayed with more columns.
        """
        reads = registry.queries[name].columns_read
        wanted = {stream: reads[stream] for stream in reads if stream in self._sources}
        if covers_columns(self._projection, wanted) or self._query is None or not self.is_active:
            return
        self._query.stop()
        fault_point("run.widened")
        self._query = self._start_query(registry)

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the run ends; raise what ended it. False if `timeout` seconds pass first."""
        if self._thread is not None:
            self._thread.join(timeout)
            if self._error is not None:
                raise self._error
            return not self._thread.is_alive()
        until = None if timeout is None else time.monotonic() + timeout
        while (query := self._query) is not None:
            left = None if until is None else max(1, int(until - time.monotonic()))
            if query.awaitTermination(left) is False:
                return False
            with self._query_lock:  # it may have been replaced by a wider one
                if self._query is query:
                    break
        return True

    def finish(self, timeout: float = 60.0) -> None:
        """End at the next batch border, or when `timeout` seconds have passed."""
        self._stop_requested.set()
        begun, until = self.committed, time.monotonic() + timeout
        while (
            self._query is not None
            and self._query.isActive
            and self._query.status["isTriggerActive"]
            and self.committed == begun
            and time.monotonic() < until
        ):
            time.sleep(0.05)
        self.stop()

    def stop(self) -> None:
        """End after the batch under way is given up; the next start replays it."""
        with self._query_lock:
            self._stop_requested.set()
            if self._query is not None:
                self._query.stop()
        if self._thread is not None:
            self._thread.join()
        self._release_checkpoint()

    @property
    def is_active(self) -> bool:
        """Whether batches are still run."""
        if self._thread is not None:
            return self._thread.is_alive()
        return self._query is not None and self._query.isActive

    # What takes effect at a batch border

    submit = query_api.query
    submit_template = query_api.template
    submit_operator = query_api.operator
    subscribe = query_api.subscribe

    def _declared_queries(self) -> Mapping[str, Hosted]:
        return self._driver.next_registry().queries

    def _submit(self, submission: Submission) -> Hosted:
        with self._query_lock:
            self._ensure_columns(self._driver.preview(submission), submission.name)
            return self._driver.submit(submission).queries[submission.name]

    def _subscribe(self, name: str, rows: pa.Table) -> None:
        self._driver.subscribe(name, rows, begin=True)

    def unsubscribe(self, name: str, names: Iterable[str]) -> None:
        """End subscriptions at a batch border; unknown names are ignored."""
        query_api.find_template(self, name)
        rows = pa.table({"subscription": pa.array(list(names), pa.string())})
        self._driver.subscribe(name, rows, begin=False)

    def cancel(self, name: str) -> None:
        """End a query at a batch border; its results so far stay readable under its name."""
        self._driver.submit(CancelQuery(name))

    def pin(self, name: str, worker: int | None = None) -> None:
        """Keep a whole query on a worker, the present one if none is given, from a border on."""
        plan = self._driver.next_registry_and_plan()[1]
        if name not in plan.placement:
            raise InputError(
                f"{name!r} is not a whole query, so it cannot be pinned; "
                f"whole ones are {join_names(plan.placement)}"
            )
        pin = plan.placement[name] if worker is None else worker
        if pin not in plan.active:
            raise InputError(f"{name!r} cannot be pinned to worker {pin}; active are {plan.active}")
        self._driver.submit(PinQuery(name, pin))

    def unpin(self, name: str) -> None:
        """Let a pinned query be moved again, from a border on."""
        self._driver.submit(PinQuery(name, None))

    def drain(self, worker: int) -> None:
        """Empty a worker: from the next border but one it has no query, no key and no state."""
        self._driver.request_drain(worker, drain=True)

    def activate(self, worker: int) -> None:
        """Use a drained worker again."""
        self._driver.request_drain(worker, drain=False)

    def rollback(self) -> None:
        """Go back to the plan before the last moves, as far as it still fits what is hosted."""
        self._driver.request_rollback()

    def apply(self, plan: Plan) -> None:
        """Follow a plan: state moves at batch borders; what it leaves out stays, drained or not."""
        drained = self._driver.next_registry_and_plan()[1].drained
        self._driver.request_plan(replace(plan, drained=drained))

    @property
    def balancing(self) -> Balancing:
        """How it is balanced; set it to balance otherwise from the next border on."""
        return self._balancer.config

    @balancing.setter
    def balancing(self, config: Balancing) -> None:
        self._balancer.config = config
