"""`evenflow.Flow`: declare streams and queries, start them on Spark."""

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from evenflow.durations import duration_us
from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.model.alert import AlertRules
from evenflow.model.facts import facts_html, facts_line
from evenflow.model.limits import MemoryLimits
from evenflow.model.retention import Retention
from evenflow.model.tenants import TenantLimits, Tenants, tenant_limits
from evenflow.names import join_names
from evenflow.planning.controller import Balancing
from evenflow.spark import query_api
from evenflow.spark.arrow import arrow_rows, arrow_schema
from evenflow.spark.check_session import (
    check_settings,
    processes_per_machine,
    refuse_connect,
    stop_progress_bar,
    use_interpreter,
)
from evenflow.spark.driver.bad_files import choose_on_bad_file
from evenflow.spark.driver.balancer import Balancer
from evenflow.spark.driver.commands import CommandLog
from evenflow.spark.driver.committer import Committer
from evenflow.spark.driver.compare_flow import check_hosted
from evenflow.spark.driver.completed_batch import Controller
from evenflow.spark.driver.limiter import Limiter
from evenflow.spark.driver.pending_state import AssignTenant
from evenflow.spark.driver.sink_target import (
    ForeachBatch,
    Sink,
    check_sinks,
    declare_sink,
    sink_targets,
    upsert_keys,
)
from evenflow.spark.driver.submission import Submission, check_name_free
from evenflow.spark.driver.tenant_checks import check_declared
from evenflow.spark.driver.widen_source import widened_sources
from evenflow.spark.driver.write_backfill import BackfillRows, Backfills
from evenflow.spark.protocol.measure_options import MeasureOptions
from evenflow.spark.protocol.registry import Hosted, Registry, StreamSpec, TableSpec
from evenflow.spark.protocol.source_options import DEFAULT_MAX_AHEAD, SourceOptions
from evenflow.spark.run import Run
from evenflow.spark.worker.sql_runtime import SqlRuntime
from evenflow.spark.worker.worker_state import TaskRuntime
from evenflow.sql import declare_function
from evenflow.sql.user_functions import UserCallable
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
        self.runtime = partial(SqlRuntime, limits, processes_per_machine(spark))
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
        self._sinks: dict[str, Sink] = {}
        self._backfills = Backfills(self._store)
        self._tenants: dict[str, TenantLimits] = {}

    def _facts(self) -> dict[str, object]:
        registry = self._registry
        return {
            "workers": self._plan.workers,
            "sources": join_names(self._sources),
            "tables": join_names(registry.tables),
            "queries": join_names(registry.queries),
            "sinks": join_names(self._sinks),
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
        self._source_options[name] = SourceOptions(
            ahead_us, choose_on_bad_file(name, frame, on_bad_file)
        )
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

    def function(self, name: str, function: UserCallable | str, *, returns: str) -> None:
        """Let queries call a Python function, or one at an import path, by this name.

        It gets Arrow arrays and returns one of the Spark type `returns`, with a value for each row.
        """
        functions = self._registry.functions
        declared = {name: declare_function(name, function, returns, functions)}
        self._registry = replace(self._registry, functions={**functions, **declared})

    def sink(
        self,
        name: str,
        *,
        format: str = "parquet",  # noqa: A002 - Spark's own word
        path: str | None = None,
        table: str | None = None,
        queries: str | Collection[str] = "*",
        options: Mapping[str, Any] | None = None,
        select: Collection[str] = (),
        foreach_batch: ForeachBatch | None = None,
    ) -> None:
        """Deliver results while a run lasts: of all queries, also those submitted later, or some.

        `path` or `table` may contain `{query}`. `select` has Spark SQL expressions over the
        results. Instead of a format, `foreach_batch(frame, delivery)` gets a DataFrame of results
        and the batches they come from, at least once. Which formats hold each row exactly once:
        docs/guide/run-from-a-file.md.
        """
        if name in self._sinks:
            raise InputError(f"sink {name!r} exists; use another name")
        self._sinks[name] = declare_sink(
            name, foreach_batch, format, path, table, queries, options or {}, select
        )

    def tenant(self, name: str, **limits: Any) -> None:
        """Limit what the queries of a tenant may use together; see `TenantLimits`.

        For example `flow.tenant("acme", queries=100, cpu_share=0.25, state_bytes="1 GB")`. The name
        `default` is for all tenants that are not declared.
        """
        self._tenants[name] = tenant_limits(name, limits)

    query = query_api.query
    template = query_api.template
    operator = query_api.operator
    subscribe = query_api.subscribe

    def _declared_queries(self) -> Mapping[str, Hosted]:
        return self.queries

    def _subscribe(self, name: str, rows: pa.Table) -> None:
        self._subscriptions.append((name, rows))

    def _submit(self, submission: Submission, backfill: BackfillRows | None = None) -> Hosted:
        registry, plan = submission.apply(self._registry, self._plan)
        self._backfills.declare(registry.queries[submission.name], backfill, registry)
        self._registry, self._plan = registry, plan
        self._submissions.append(submission)
        return registry.queries[submission.name]

    def start(
        self,
        trigger: str = "1 second",
        *,
        available_now: bool = False,
        balancing: Balancing | None = None,
        controller: Controller | None = None,
        alerts: AlertRules = AlertRules(),  # noqa: B008 - frozen
        measure: bool = True,
        emulated_cost: float = 0.0,
        without: Collection[str] = (),
        safe: bool = False,
    ) -> Run:
        """Start the run, or continue where the checkpoint stands.

        With `available_now` it processes the rows there are, then ends. `balancing` says how keys
        and queries are kept even; without it they stay where they are placed. A `controller` of
        your own sees every completed batch and may return a plan to follow. `alerts` are the rules
        by which the run tells somebody. `measure` turns the measuring of single keys on or off.
        `emulated_cost` is for experiments only: seconds that every row costs each query on top of
        its real work (see `MeasureOptions`).

        `without` names queries that do not run, `safe` leaves out those hosted since the last good
        batch: they are quarantined with their state, so they can be resumed. This is how to start
        if a batch fails every time.
        """
        trigger_seconds = duration_us(trigger, "trigger") / 1e6
        check_settings(self._spark)
        use_interpreter(self._spark)
        stop_progress_bar(self._spark)
        options = MeasureOptions(measure, emulated_cost)
        check_sinks(self._sinks, upsert_keys(self.queries))
        if not self._sources:
            raise InputError("a flow needs at least one source; call source() first")
        balancer = Balancer(balancing or Balancing.off(), controller)
        tenants = Tenants(self._tenants)
        check_declared(self._registry, self._subscriptions, tenants)
        limiter = Limiter(
            tenants,
            cores=self._spark.sparkContext.defaultParallelism,
            trigger_seconds=None if available_now else trigger_seconds or None,
        )
        committer = Committer(
            self._store, self._plan.workers, balancer, self._keep_results, alerts, limiter
        )
        try:
            self._open_checkpoint(committer, without, safe)
            balancer.open(committer.checkpoint.ledger)
            run = Run(
                self._spark,
                committer,
                self._sources,
                self._source_options,
                self.runtime,
                options,
                lambda names: sink_targets(
                    self._sinks,
                    names,
                    self.queries,
                    upsert_keys(committer.commands.next_registry().queries),
                ),
            )
            run.begin(None if available_now else trigger)
        except BaseException:
            committer.checkpoint.close()
            raise
        return run

    def _open_checkpoint(self, committer: Committer, without: Collection[str], safe: bool) -> None:
        first = self._backfills.store_for_new(committer.checkpoint.ledger, self._registry)
        is_new = committer.open(first, self._plan, self._subscriptions, self._check_hosted)
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
        for command in widened_sources(hosted, self._registry):
            commands.submit(command)
        for submission in self._submissions:
            before = hosted.queries.get(submission.name)
            if before is None and submission.name not in unsubmitted:
                commands.submit(self._backfills.store(submission, self._registry))
            elif before is not None and before.tenant != submission.tenant:
                commands.submit(AssignTenant(submission.name, submission.tenant))

    def _check_hosted(self, hosted: Registry) -> None:
        """Compare what is declared with what a checkpoint hosts."""
        check_hosted(hosted, self._registry, self._sources.keys(), self._submissions)
