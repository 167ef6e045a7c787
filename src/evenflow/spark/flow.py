"""`evenflow.Flow`: declare streams and queries, start them on Spark."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from evenflow.durations import duration_us
from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.planning.controller import Balancing
from evenflow.spark import query_api
from evenflow.spark.arrow import arrow_rows, arrow_schema
from evenflow.spark.driver.balancer import Balancer
from evenflow.spark.driver.committer import Committer
from evenflow.spark.driver.completed_batch import Controller
from evenflow.spark.driver.submission import Submission, check_name_free
from evenflow.spark.protocol.measure_options import MeasureOptions
from evenflow.spark.protocol.registry import Hosted, Registry, StreamSpec, TableSpec, join_names
from evenflow.spark.run import Run
from evenflow.spark.worker.sql_runtime import SqlRuntime, engine_version
from evenflow.spark.worker.worker_batch import TaskRuntime
from evenflow.storage.bundle import Bundle, pack
from evenflow.storage.file_store import FileStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Flow(query_api.QueryMethods):
    """Streams, reference tables and queries that share `workers` workers on one Spark.

    ```python
    flow = Flow(spark, workers=4, checkpoint="/data/flow")
    flow.source("trades", trades, time="ts", watermark="10 seconds")
    flow.query("dear", "SELECT * FROM trades WHERE price > 100")
    run = flow.start(available_now=True)
    run.await_termination()
    run.results("dear").show()
    ```
    """

    runtime: Callable[[], TaskRuntime] = SqlRuntime

    def __init__(
        self, spark: "SparkSession", *, workers: int, checkpoint: str, active: int | None = None
    ) -> None:
        """Take `workers` slots, of which the first `active` are used at first (all by default)."""
        if not 1 <= workers <= 4096:
            raise InputError(f"workers must be between 1 and 4096, got {workers}")
        if active is not None and not 1 <= active <= workers:
            raise InputError(f"active must be between 1 and {workers} workers, got {active}")
        self._spark = spark
        self._store = FileStore(str(checkpoint))
        self._sources: dict[str, DataFrame] = {}
        self._registry = Registry()
        self._plan = Plan(workers, drained=frozenset(range(active or workers, workers)))
        self._submissions: list[Submission] = []
        self._subscriptions: list[tuple[str, pa.Table]] = []

    @property
    def queries(self) -> Mapping[str, Hosted]:
        """The queries declared so far."""
        return self._registry.queries

    def source(self, name: str, frame: "DataFrame", *, time: str, watermark: str) -> None:
        """Name a streaming DataFrame; rows may come `watermark` late by their `time` column."""
        if not frame.isStreaming:
            raise InputError(f"source {name!r} is a static DataFrame; use table() for it")
        check_name_free(name, "source", self._registry)
        schema = arrow_schema(frame, f"source {name!r}")
        if time not in schema.names or not pa.types.is_timestamp(schema.field(time).type):
            raise InputError(
                f"source {name!r} needs a TIMESTAMP column as its time, got {time!r}; "
                f"its columns are {join_names(schema.names)}"
            )
        spec = StreamSpec(schema, time, duration_us(watermark, "watermark"))
        self._sources[name] = frame
        self._registry = replace(self._registry, streams={**self._registry.streams, name: spec})

    def table(self, name: str, frame: "DataFrame") -> None:
        """Name a static DataFrame that queries may join; its rows are those of now."""
        if frame.isStreaming:
            raise InputError(f"table {name!r} is a streaming DataFrame; use source() for it")
        check_name_free(name, "table", self._registry)
        rows = arrow_rows(frame, arrow_schema(frame, f"table {name!r}"))
        packed = pack(rows)
        bundle = Bundle(f"tables/{name}-{hashlib.sha256(packed).hexdigest()[:16]}")
        spec = TableSpec(rows.schema, bundle.add(packed))
        bundle.write(self._store)
        self._registry = replace(self._registry, tables={**self._registry.tables, name: spec})

    query = query_api.query
    template = query_api.template
    operator = query_api.operator
    subscribe = query_api.subscribe

    def _declared_queries(self) -> Mapping[str, Hosted]:
        return self.queries

    def _subscribe(self, name: str, rows: pa.Table) -> None:
        self._subscriptions.append((name, rows))

    def _submit(self, submission: Submission) -> Hosted:
        self._registry, self._plan = submission(self._registry, self._plan)
        self._submissions.append(submission)
        return self._registry.queries[submission.name]

    def start(
        self,
        trigger: str = "1 second",
        *,
        available_now: bool = False,
        balancing: Balancing | None = None,
        controller: Controller | None = None,
        measure: bool = True,
        emulated_cost: float = 0.0,
    ) -> Run:
        """Run everything, from where the checkpoint stands if there is one.

        With `available_now` it processes what is there, then ends. `balancing` says how keys and
        queries are kept even; without it they stay where they are put. A `controller` of your own
        sees every batch at its border and may return a plan to follow. `measure` is whether keyed
        queries are measured key by key. `emulated_cost` is for experiments only: seconds that
        every row takes each query besides its real work (see `MeasureOptions`).
        """
        duration_us(trigger, "trigger")
        measuring = MeasureOptions(measure, emulated_cost)
        if not self._sources:
            raise InputError("a flow needs at least one source; call source() first")
        balancer = Balancer(balancing or Balancing.off(), controller)
        driver = Committer(
            self._store, self._plan.workers, balancer, balancer.place_arrivals, balancer.record
        )
        try:
            self._open_checkpoint(driver)
            balancer.open(self._store, driver.head().batch)
            run = Run(self._spark, driver, balancer, self._sources, self.runtime, measuring)
            run.begin(None if available_now else trigger)
        except BaseException:
            driver.close()
            raise
        return run

    def _open_checkpoint(self, driver: Committer) -> None:
        if driver.open(self._registry, self._plan, engine_version()):
            driver.write_first_subscriptions(self._subscriptions)
            return
        self._resume(driver)
        for name, rows in self._subscriptions:
            driver.subscribe(name, rows, begin=True)

    def _resume(self, driver: Committer) -> None:
        """Match what is declared with what the checkpoint hosts; ask for what is new."""
        hosted, _ = driver.next_registry_and_plan()
        for name, spec in hosted.streams.items():
            if not spec.derived and self._registry.streams.get(name) != spec:
                raise InputError(
                    f"the checkpoint reads source {name!r} with other columns, time or watermark, "
                    "or it is not declared; declare it as before or start with a new checkpoint"
                )
        added = self._sources.keys() - hosted.streams.keys()
        if added:
            raise InputError(
                f"source {join_names(added)} is not in the checkpoint, and Spark cannot add a source "
                "to a running stream; start with a new checkpoint"
            )
        for submission in self._submissions:
            before = hosted.queries.get(submission.name)
            if before is None:
                driver.submit(submission)
            elif not submission.is_same_definition(before):
                raise InputError(
                    f"query {submission.name!r} runs in the checkpoint with other words: "
                    f"{before.text!r}; cancel it first, or use another name"
                )
