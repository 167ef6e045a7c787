"""`evenflow.Flow`: declare streams and queries, start them on Spark."""

import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark.errors import PySparkException

from evenflow.durations import duration_us
from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.model.codes import OnBadFile
from evenflow.model.facts import facts_html, facts_line
from evenflow.model.limits import MemoryLimits
from evenflow.model.retention import Retention
from evenflow.names import join_names
from evenflow.planning.controller import Balancing
from evenflow.spark import query_api
from evenflow.spark.arrow import arrow_rows, arrow_schema
from evenflow.spark.check_session import (
    check_settings,
    refuse_connect,
    stop_progress_bar,
    use_interpreter,
)
from evenflow.spark.driver.balancer import Balancer
from evenflow.spark.driver.commands import CommandLog
from evenflow.spark.driver.committer import Committer
from evenflow.spark.driver.completed_batch import Controller
from evenflow.spark.driver.submission import Submission, check_name_free
from evenflow.spark.protocol.measure_options import MeasureOptions
from evenflow.spark.protocol.registry import Hosted, Registry, StreamSpec, TableSpec
from evenflow.spark.protocol.source_options import DEFAULT_MAX_AHEAD, SourceOptions
from evenflow.spark.run import Run
from evenflow.spark.worker.sql_runtime import SqlRuntime
from evenflow.spark.worker.worker_state import TaskRuntime
from evenflow.storage.bundle import Bundle, pack
from evenflow.storage.file_store import FileStore
from evenflow.storage.options import StorageOptions, storage_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Flow(query_api.QueryMethods):
    """Streams, reference tables and queries that share `workers` workers on one Spark session.

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
        self,
        spark: "SparkSession",
        *,
        workers: int,
        checkpoint: str,
        active: int | None = None,
        durability: Literal["process", "power"] = "process",
        storage: Mapping[str, Any] | StorageOptions | None = None,
        keep_results: str | None = None,
        limits: MemoryLimits = MemoryLimits(),  # noqa: B008 - frozen
    ) -> None:
        """Use `workers` workers; the first `active` get work at the start (default: all).

        With durability `power` a commit waits for the disk, so it also survives a power loss; with
        `process` it survives the end of any process. `storage` has the options of a remote
        checkpoint: endpoint, region, allow_http, options, cache, cache_folder. `keep_results`
        removes results that are older, for example than `"7 days"` or `"1000 batches"` (default:
        none). `limits` bounds the memory and disk space of each worker process (default: shares of
        the machine).
        """
        refuse_connect(spark)
        if durability not in ("process", "power"):
            raise InputError(f"durability must be 'process' or 'power', got {durability!r}")
        if not 1 <= workers <= 4096:
            raise InputError(f"workers must be between 1 and 4096, got {workers}")
        if active is not None and not 1 <= active <= workers:
            raise InputError(f"active must be between 1 and {workers} workers, got {active}")
        self._keep_results = None if keep_results is None else Retention.parse(keep_results)
        self.runtime = partial(SqlRuntime, limits, _processes_per_machine(spark))
        self._spark = spark
        self._store = FileStore(
            str(checkpoint), power_safe=durability == "power", options=storage_options(storage)
        )
        self._sources: dict[str, DataFrame] = {}
        self._source_options: dict[str, SourceOptions] = {}
        self._registry = Registry()
        self._plan = Plan(workers, drained=frozenset(range(active or workers, workers)))
        self._submissions: list[Submission] = []
        self._subscriptions: list[tuple[str, pa.Table]] = []

    def _facts(self) -> dict[str, object]:
        registry = self._registry
        return {
            "workers": self._plan.workers,
            "sources": join_names(self._sources),
            "tables": join_names(registry.tables),
            "queries": join_names(registry.queries),
            "checkpoint": self._store.uri,
        }

    def __repr__(self) -> str:
        return facts_line("Flow", self._facts())

    def _repr_html_(self) -> str:
        return facts_html("Flow", self._facts())

    @property
    def queries(self) -> Mapping[str, Hosted]:
        """The queries declared so far."""
        return self._registry.queries

    def source(
        self,
        name: str,
        frame: "DataFrame",
        *,
        time: str,
        watermark: str,
        max_ahead: str | None = DEFAULT_MAX_AHEAD,
        on_bad_file: Literal["stop", "skip"] = "stop",
    ) -> None:
        """Name a streaming DataFrame; its rows may be `watermark` late by their `time` column.

        Rows whose time is more than `max_ahead` after the batch's clock are set aside, as they
        would make all later rows late; None accepts any time. A file that cannot be read stops
        the run, or with `on_bad_file="skip"` is left out as a whole and listed in `run.bad_files`.
        """
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
        ahead_us = None if max_ahead is None else duration_us(max_ahead, "max_ahead")
        self._sources[name] = frame
        self._source_options[name] = SourceOptions(ahead_us, _on_bad_file(name, frame, on_bad_file))
        self._registry = replace(self._registry, streams={**self._registry.streams, name: spec})

    def table(self, name: str, frame: "DataFrame") -> None:
        """Name a static DataFrame that queries may join; its rows are read now."""
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
        self._registry, self._plan = submission.apply(self._registry, self._plan)
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
        without: Collection[str] = (),
        safe: bool = False,
    ) -> Run:
        """Start the run, or continue where the checkpoint stands.

        With `available_now` it processes the rows there are, then ends. `balancing` says how keys
        and queries are kept even; without it they stay where they are placed. A `controller` of
        your own sees every completed batch and may return a plan to follow. `measure` turns the
        measuring of single keys on or off. `emulated_cost` is for experiments only: seconds that
        every row costs each query on top of its real work (see `MeasureOptions`).

        `without` names queries that do not run, `safe` leaves out those hosted since the last good
        batch: they are quarantined with their state, so they can be resumed. This is how to start
        if a batch fails every time.
        """
        duration_us(trigger, "trigger")
        check_settings(self._spark)
        use_interpreter(self._spark)
        stop_progress_bar(self._spark)
        options = MeasureOptions(measure, emulated_cost)
        if not self._sources:
            raise InputError("a flow needs at least one source; call source() first")
        balancer = Balancer(balancing or Balancing.off(), controller)
        committer = Committer(self._store, self._plan.workers, balancer, self._keep_results)
        try:
            self._open_checkpoint(committer, without, safe=safe)
            balancer.open(self._store, committer.checkpoint.head().batch)
            run = Run(
                self._spark, committer, self._sources, self._source_options, self.runtime, options
            )
            run.begin(None if available_now else trigger)
        except BaseException:
            committer.checkpoint.close()
            raise
        return run

    def _open_checkpoint(
        self, committer: Committer, without: Collection[str], *, safe: bool
    ) -> None:
        is_new = committer.open(self._registry, self._plan, self._subscriptions, self._check_hosted)
        hosted = committer.checkpoint.registry().queries
        declared = {submission.name for submission in self._submissions} - hosted.keys()
        committer.leave_out([name for name in without if name not in declared], safe=safe)
        if is_new:
            return
        unsubmitted = declared & set(without)
        self._resume(committer.commands, unsubmitted)
        for name, rows in self._subscriptions:
            if name not in unsubmitted:
                committer.commands.subscribe(name, rows, subscribe=True)

    def _resume(self, commands: CommandLog, unsubmitted: Collection[str]) -> None:
        """Submit the declared queries that are not in the checkpoint."""
        hosted = commands.next_registry()
        self._check_hosted(hosted)
        for submission in self._submissions:
            if submission.name not in hosted.queries and submission.name not in unsubmitted:
                commands.submit(submission)

    def _check_hosted(self, hosted: Registry) -> None:
        """Compare what is declared with what a checkpoint hosts."""
        for name, spec in hosted.streams.items():
            if not spec.derived and self._registry.streams.get(name) != spec:
                raise InputError(
                    f"source {name!r} is in the checkpoint with different columns, time or "
                    "watermark, or is not declared; declare it as before or start with a new "
                    "checkpoint"
                )
        added = self._sources.keys() - hosted.streams.keys()
        if added:
            raise InputError(
                f"source {join_names(added)} is not in the checkpoint, and Spark cannot add a "
                "source to a running stream; start with a new checkpoint"
            )
        for submission in self._submissions:
            before = hosted.queries.get(submission.name)
            if before is not None and not submission.is_same_definition(before):
                raise InputError(
                    f"query {submission.name!r} exists in the checkpoint with a different "
                    f"definition: {before.text!r}; cancel it first, or use another name"
                )


def _on_bad_file(name: str, frame: "DataFrame", value: str) -> OnBadFile:
    if value not in tuple(OnBadFile):
        raise InputError(f"on_bad_file must be 'stop' or 'skip', got {value!r}")
    if value == OnBadFile.SKIP:
        try:
            frame.select("_metadata.file_path")
        except PySparkException:
            raise InputError(
                f"source {name!r} has on_bad_file='skip', but it does not read files; remove it"
            ) from None
    return OnBadFile(value)


def _processes_per_machine(spark: "SparkSession") -> int:
    """Return how many worker processes share a machine; 0 if only the machine knows."""
    context = spark.sparkContext
    if re.fullmatch(r"local(\[.*\])?", str(context.master)):
        return context.defaultParallelism
    return int(context.getConf().get("spark.executor.cores", "0"))
