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
from evenflow.spark import declaring
from evenflow.spark.asks import Cancel, Pin
from evenflow.spark.balancer import Balancer
from evenflow.spark.crash import crash_point
from evenflow.spark.driver import Driver
from evenflow.spark.measuring import Measuring
from evenflow.spark.projecting import Projection, covers, projection
from evenflow.spark.registry import Hosted, Registry, listed
from evenflow.spark.starting import reports, start_query
from evenflow.spark.submission import Submission
from evenflow.spark.tasks import Home, Work
from evenflow.spark.view import View
from evenflow.spark.worker import Runtime

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class Run(View, declaring.Declares):
    """What `Flow.start` returns."""

    def __init__(
        self,
        spark: "SparkSession",
        driver: Driver,
        balancer: Balancer,
        sources: Mapping[str, "DataFrame"],
        runtime: Callable[[], Runtime],
        measuring: Measuring,
    ) -> None:
        super().__init__(spark, driver, balancer)
        self._sources, self._runtime, self._measuring = sources, runtime, measuring
        self._query: StreamingQuery | None = None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._stopped = threading.Event()
        self._trigger: str | None = None
        self._projection: Projection = {}
        # Held while Spark's query is started, stopped or replaced.
        self._replacing = threading.RLock()

    # Beginning and ending

    def begin(self, trigger: str | None) -> None:
        """Start Spark's query: every `trigger`, or once over all that is there."""
        self._trigger = trigger
        self._query = self._start()
        if trigger is None:
            self._thread = threading.Thread(target=self._drain, name="evenflow-drain", daemon=True)
            self._thread.start()

    def _drain(self) -> None:
        """Go on until nothing is due: Spark fixes the ends of all sources at its start."""
        begun = -1
        try:
            while (query := self._query) is not None:
                query.awaitTermination()
                with self._replacing:
                    if self._query is not query:
                        continue
                    head = self._driver.head().batch
                    if self._stopped.is_set() or head == begun or not self._driver.restless():
                        return
                    begun, self._query = head, self._start()
        except BaseException as error:  # handed to await_termination
            self._error = error
        finally:
            self._close()

    def _close(self) -> None:
        """Let go of the checkpoint, with all that happened on record."""
        try:
            self._balancer.close(self._driver.head().batch)
        finally:
            self._driver.close()

    def _start(self, *coming: Registry) -> "StreamingQuery":
        """Start Spark's query over the columns that are needed now, or will be."""
        head = self._driver.ledger.registry(self._driver.head().registry)
        registries = [head, self._driver.upcoming()[0], *coming]
        self._projection = projection(registries, sorted(self._sources))
        home = Home(self._driver.store.uri, self._driver.identity)
        work = Work(home, self._runtime, self._measuring)
        frame = reports(self._spark, self._driver, self._sources, self._projection, work)
        return start_query(self._spark, self._driver, frame, self._trigger)

    def _widen(self, registry: Registry, name: str) -> None:
        """See that the sources bring what a query needs, before a batch may ask for it.

        Spark's query is replaced at a border, if need be: the batch under way is given up, and
        replayed with more columns.
        """
        reads = registry.queries[name].reads
        wanted = {stream: reads[stream] for stream in reads if stream in self._sources}
        if covers(self._projection, wanted) or self._query is None or not self.is_active:
            return
        self._query.stop()
        crash_point("run.widened")
        self._query = self._start(registry)

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
            with self._replacing:  # it may have been replaced by a wider one
                if self._query is query:
                    break
        return True

    def finish(self, timeout: float = 60.0) -> None:
        """End at the next batch border, or when `timeout` seconds have passed."""
        self._stopped.set()
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
        with self._replacing:
            self._stopped.set()
            if self._query is not None:
                self._query.stop()
        if self._thread is not None:
            self._thread.join()
        self._close()

    @property
    def is_active(self) -> bool:
        """Whether batches are still run."""
        if self._thread is not None:
            return self._thread.is_alive()
        return self._query is not None and self._query.isActive

    # What takes effect at a batch border

    submit = declaring.query
    submit_template = declaring.template
    submit_operator = declaring.operator
    subscribe = declaring.subscribe

    def _declared(self) -> Mapping[str, Hosted]:
        return self._driver.hosted().queries

    def _submit(self, submission: Submission) -> Hosted:
        with self._replacing:
            self._widen(self._driver.with_ask(submission), submission.name)
            return self._driver.ask(submission).queries[submission.name]

    def _subscribe(self, name: str, rows: pa.Table) -> None:
        self._driver.subscribe(name, rows, begin=True)

    def unsubscribe(self, name: str, names: Iterable[str]) -> None:
        """End subscriptions at a batch border; unknown names are ignored."""
        declaring.template_of(self, name)
        rows = pa.table({"subscription": pa.array(list(names), pa.string())})
        self._driver.subscribe(name, rows, begin=False)

    def cancel(self, name: str) -> None:
        """End a query at a batch border; its results so far stay readable under its name."""
        self._driver.ask(Cancel(name))

    def pin(self, name: str, worker: int | None = None) -> None:
        """Keep a whole query on a worker, the present one if none is given, from a border on."""
        plan = self._driver.upcoming()[1]
        if name not in plan.placement:
            raise InputError(
                f"{name!r} is not a whole query, so it cannot be pinned; "
                f"whole ones are {listed(plan.placement)}"
            )
        pin = plan.placement[name] if worker is None else worker
        if pin not in plan.active:
            raise InputError(f"{name!r} cannot be pinned to worker {pin}; active are {plan.active}")
        self._driver.ask(Pin(name, pin))

    def unpin(self, name: str) -> None:
        """Let a pinned query be moved again, from a border on."""
        self._driver.ask(Pin(name, None))

    def drain(self, worker: int) -> None:
        """Empty a worker: from the next border but one it has no query, no key and no state."""
        self._driver.ask_drain(worker, drain=True)

    def activate(self, worker: int) -> None:
        """Use a drained worker again."""
        self._driver.ask_drain(worker, drain=False)

    def rollback(self) -> None:
        """Go back to the plan before the last moves, as far as it still fits what is hosted."""
        self._driver.ask_back()

    def apply(self, plan: Plan) -> None:
        """Follow a plan: state moves at batch borders; what it leaves out stays, drained or not."""
        drained = self._driver.upcoming()[1].drained
        self._driver.ask_plan(replace(plan, drained=drained))

    @property
    def balancing(self) -> Balancing:
        """How it is balanced; set it to balance otherwise from the next border on."""
        return self._balancer.config

    @balancing.setter
    def balancing(self, config: Balancing) -> None:
        self._balancer.config = config
