"""A running flow: the handle to submit, cancel, move, read and stop."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom
from pyspark.sql.pandas.types import from_arrow_schema

from evenflow.errors import InputError
from evenflow.model import Decision, Outcome, Plan, Snapshot
from evenflow.planning.joint import Balancing
from evenflow.spark import declaring
from evenflow.spark.asks import Cancel, Pin
from evenflow.spark.balancer import Balancer, HotKey
from evenflow.spark.batch import Batch
from evenflow.spark.driver import Driver
from evenflow.spark.measuring import Measuring
from evenflow.spark.progress import query_name
from evenflow.spark.projecting import Projection, covers, projected, projection
from evenflow.spark.registry import Hosted, Registry, StreamSpec, listed
from evenflow.spark.report import Report
from evenflow.spark.router import ENVELOPE, NO_ENVELOPES
from evenflow.spark.submission import Submission
from evenflow.spark.tasks import PLACES, REPORT, Home, ReadParts, RouteSource, Work
from evenflow.spark.worker import Runtime
from evenflow.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_SETTINGS = {
    # Spark adds up the bytes of a batch anew for every row, which doubles the time of a row's way
    # to Python, unless the limit is this one. Rows are bounded instead; the router gathers them.
    "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    # The plan is fixed by hand: one partition is one worker.
    "spark.sql.adaptive.enabled": "false",
}
# On a local disk, where a rename is atomic anyway, Spark's default starts a program (readlink,
# chmod) for each file it puts in place: 40 ms for each of three files of a batch.
_LOCAL_SETTINGS = {
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager"
}


class Run(declaring.Declares):
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
        self._spark, self._driver, self._balancer = spark, driver, balancer
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
            self._driver.close()

    def _start(self, *coming: Registry) -> "StreamingQuery":
        """Start Spark's query over the columns that are needed now, or will be."""
        head = self._driver.ledger.registry(self._driver.head().registry)
        registries = [head, self._driver.upcoming()[0], *coming]
        self._projection = projection(registries, sorted(self._sources))
        local = self._driver.store.local is not None
        with _settings(self._spark, _SETTINGS | (_LOCAL_SETTINGS if local else {})):
            writer = (
                self._frame(head)
                .writeStream.foreachBatch(self._commit)
                .option("checkpointLocation", f"{self._driver.store.spark_path}/spark")
                .queryName(query_name(self._driver.store))
                .outputMode("append")
            )
            if self._trigger is None:
                writer = writer.trigger(availableNow=True)
            else:
                writer = writer.trigger(processingTime=self._trigger)
            query = writer.start()
            # Sources take the settings that hold when Spark makes them, a moment later.
            while query.isActive and str(query.status["message"]).startswith("Initializing"):
                time.sleep(0.01)
            return query

    def _widen(self, registry: Registry) -> None:
        """See that the sources bring what a registry needs, before a batch may ask for it.

        Spark's query is replaced at a border, if need be: the batch under way is given up, and
        replayed with more columns.
        """
        wanted = projection([registry], list(self._sources))
        if covers(self._projection, wanted) or self._query is None or not self.is_active:
            return
        self._query.stop()
        self._query = self._start(registry)

    def _frame(self, head: Registry) -> "DataFrame":
        """Plan it: sources and exchange, routed, one partition a worker, one report a worker."""
        root = self._driver.store.uri
        home = Home(root, self._driver.identity)
        # A file here makes Spark run a batch; there is nothing to read in it.
        pulse = self._spark.readStream.text(f"{self._driver.store.spark_path}/pulse")
        envelopes = pulse.selectExpr(*NO_ENVELOPES).where("false")
        for name in sorted(self._sources):
            time = head.streams[name].time
            source = projected(self._sources[name], self._projection[name], time)
            routed = source.mapInArrow(RouteSource(home, name), ENVELOPE)
            envelopes = envelopes.union(routed)
        dealt = envelopes.repartitionById(self._driver.workers, F.col("slot"))
        return dealt.mapInArrow(Work(home, self._runtime, self._measuring), REPORT)

    def _commit(self, frame: "DataFrame", batch: int) -> None:
        self._driver.commit(
            batch, lambda: [Report.from_json(row["report"]) for row in frame.collect()]
        )

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
        self._driver.close()

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
            self._widen(self._driver.with_ask(submission))
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

    # What can be seen

    @property
    def queries(self) -> Mapping[str, Hosted]:
        """The queries hosted in the next batch."""
        head = self._driver.head()
        return self._driver.ledger.registry(head.registry).queries

    @property
    def streams(self) -> Mapping[str, StreamSpec]:
        """The sources, and the streams that queries publish."""
        return self._driver.ledger.registry(self._driver.head().registry).streams

    @property
    def plan(self) -> Plan:
        """The plan of the next batch."""
        return self._driver.ledger.plan(self._driver.head().plan)

    @property
    def batches(self) -> tuple[Batch, ...]:
        """Statistics of the last batches of this run."""
        return tuple(self._driver.history)

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """What was observed in the last batches; older ones are in the checkpoint's history."""
        return tuple(self._balancer.snapshots)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """What was decided at the last borders, and why."""
        return tuple(self._balancer.decisions)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """What the decisions that moved something have brought."""
        return tuple(self._balancer.outcomes)

    def hot_keys(self, name: str, count: int = 20) -> list[HotKey]:
        """Return the heaviest keys of a keyed query, each with its share and its worker."""
        return self._balancer.hot_keys(name, count)

    @property
    def balancing(self) -> Balancing:
        """How it is balanced; set it to balance otherwise from the next border on."""
        return self._balancer.config

    @balancing.setter
    def balancing(self, config: Balancing) -> None:
        self._balancer.config = config

    @property
    def restless(self) -> bool:
        """Whether there is something to do even if no more rows arrive."""
        return self._driver.restless()

    @property
    def refused(self) -> tuple[str, ...]:
        """Why plans were not followed: they no longer fitted what is hosted."""
        return tuple(self._driver.refused)

    @property
    def quarantined(self) -> Mapping[str, str]:
        """Queries that failed and why; cancel or resubmit them."""
        named = {query.uid: name for name, query in self.queries.items()}
        failed = self._driver.head().quarantined
        return {named[uid]: reason for uid, reason in failed.items() if uid in named}

    @property
    def late(self) -> Mapping[str, int]:
        """Rows of each query that came behind its watermark and were dropped."""
        named = {query.uid: name for name, query in self.queries.items()}
        return {named[uid]: rows for uid, rows in self._driver.head().late.items() if uid in named}

    @property
    def watermarks(self) -> Mapping[str, int]:
        """Watermark of each stream in microseconds."""
        return self._driver.head().watermarks

    @property
    def committed(self) -> int:
        """How many batches of the checkpoint are committed: the number of the next one."""
        return self._driver.head().batch

    @property
    def checkpoint(self) -> Store:
        """The files of this flow."""
        return self._driver.store

    def results(self, name: str, *, first: int = 0, batch: str | None = None) -> "DataFrame":
        """Return everything committed of a query so far, each batch once.

        `first` leaves earlier batches out; `batch` names a further column with their numbers.
        """
        query, past = self.queries.get(name), self._driver.ledger.past_names()
        if query is None and name not in past:
            known = listed({*past, *self.queries})
            raise InputError(f"there is no query {name!r}; there are {known}")
        query = query or self._driver.ledger.past(name)
        return self._parts("results", query.uid, query.schema, first, batch)

    def poison(self, stream: str) -> "DataFrame":
        """Return the rows of a stream that were set aside for a missing or absurd event time."""
        head = self._driver.head()
        streams = self._driver.ledger.registry(head.registry).streams
        if stream not in streams:
            raise InputError(f"there is no stream {stream!r}; there are {listed(streams)}")
        return self._parts("poison", stream, streams[stream].schema)

    def _parts(
        self, kind: str, name: str, schema: pa.Schema, first: int = 0, batch: str | None = None
    ) -> "DataFrame":
        places: list[Any] = self._driver.committed(kind, name, first)
        found = self._spark.createDataFrame(places, PLACES)
        shape = schema if batch is None else schema.append(pa.field(batch, pa.int64()))
        reading = ReadParts(self._driver.store.uri, batch)
        return found.mapInArrow(reading, from_arrow_schema(shape))


@contextmanager
def _settings(spark: "SparkSession", wanted: Mapping[str, str]) -> Iterator[None]:
    """Set what our query needs; Spark copies the settings when a query starts."""
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
