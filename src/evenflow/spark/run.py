"""`Run`: the handle to a running flow, to submit, cancel, move and stop."""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from evenflow.display import printable
from evenflow.durations import duration_us
from evenflow.errors import FencedError
from evenflow.model.codes import OnBadFile
from evenflow.model.progress import BatchProgress
from evenflow.spark import notebook, query_api
from evenflow.spark.await_results import await_results
from evenflow.spark.driver.bad_files import BadFileList, bad_file_in, to_source_error, without_files
from evenflow.spark.driver.batch_callback import BatchCallback
from evenflow.spark.driver.column_pruning import SourceColumns, covers_columns, needed_columns
from evenflow.spark.driver.committer import Committer
from evenflow.spark.driver.parquet_sources import reads_parquet_files, source_for_spark
from evenflow.spark.driver.progress import ProgressListener, reported_seconds
from evenflow.spark.driver.replacement import ReplaceQuery, next_name
from evenflow.spark.driver.sinks import FindTargets, SinkDelivery
from evenflow.spark.driver.streaming_query import (
    await_query,
    batch_callback,
    report_frame,
    start_streaming_query,
    storage_error_in,
)
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.measure_options import MeasureOptions
from evenflow.spark.protocol.registry import Hosted, Registry
from evenflow.spark.protocol.run_note import RunNote, write_run_note
from evenflow.spark.protocol.source_options import SourceOptions
from evenflow.spark.protocol.step_limits import StepLimits
from evenflow.spark.run_commands import RunCommands
from evenflow.spark.stop_at_exit import stop_at_exit
from evenflow.spark.worker.spark_tasks import CheckpointId, WorkerTask
from evenflow.spark.worker.worker_state import TaskRuntime
from evenflow.storage.fault_points import fault_point

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)


class Run(RunCommands):
    """A running flow, as `Flow.start` returns it.

    Driver process. Any thread may call it: changes are commands that the next commit applies.
    """

    def __init__(
        self,
        spark: "SparkSession",
        committer: Committer,
        sources: Mapping[str, "DataFrame"],
        source_options: Mapping[str, SourceOptions],
        runtime: Callable[[], TaskRuntime],
        measure_options: MeasureOptions,
        find_targets: FindTargets = lambda _: (),
    ) -> None:
        super().__init__(spark, committer)
        self.sinks = SinkDelivery(self, find_targets)
        self._sources, self._source_options = sources, source_options
        self._runtime, self._measure_options = runtime, measure_options
        self._query: StreamingQuery | None = None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._stop_requested = threading.Event()
        self._trigger: str | None = None
        self._note = RunNote()
        self._callback: BatchCallback | None = None
        self._source_columns: SourceColumns = {}
        self._sources_read_here = {
            name for name, frame in sources.items() if reads_parquet_files(spark, frame)
        }
        self._bad_files = BadFileList(self._checkpoint.store)
        self._progress: ProgressListener | None = None
        self._owns_progress = False
        # Held while Spark's query is started, stopped or replaced.
        self._query_lock = threading.RLock()

    # Start and stop

    def begin(self, trigger: str | None) -> None:
        """Start Spark's query: every `trigger`, or once over all rows there are."""
        self._trigger = trigger
        self._note = replace(self._note, first_batch=self.committed)
        write_run_note(self.checkpoint, self._note)
        stop_at_exit(self)
        self._query = self._start_query()
        self._committer.maintenance.start()
        self.sinks.start()
        self._thread = threading.Thread(
            target=self._supervise, name="evenflow-supervise", daemon=True
        )
        self._thread.start()

    def announce(self, url: str | None) -> None:
        """Note in the checkpoint where the run is served, so that commands find it; None: nowhere.

        Once the run has ended the checkpoint may be another run's: then nothing is noted.
        """
        if self._checkpoint.is_open:
            self._note = replace(self._note, url=url)
            write_run_note(self.checkpoint, self._note)

    def _supervise(self) -> None:
        """Wait until the run ends; start Spark's query again where that is how it goes on."""
        last_head = -1
        try:
            while (query := self._query) is not None:
                error = await_query(query)
                with self._query_lock:
                    if self._query is not query:  # it was replaced to read more columns
                        continue
                    if error is not None:
                        if not self._leave_source_to_spark(error):
                            self._leave_out_bad_file(error)
                        self._query = self._start_query()
                        continue
                    head = self.committed
                    stopped = self._stop_requested.is_set() or head == last_head
                    if self._trigger or stopped or not self._committer.has_pending_work():
                        return
                    # Spark fixes the ends of sources at its start: restart until nothing is due.
                    last_head, self._query = head, self._start_query()
        except BaseException as error:  # raised by await_termination
            self._error = error
        finally:
            if not self._committer.is_fenced:
                self.sinks.finish()
            self._release_checkpoint()

    def _leave_source_to_spark(self, error: Exception) -> bool:
        """Let Spark read a source from now on, if the router could not; tell whether that is so."""
        found = source_for_spark(error)
        if found is None or found[0] not in self._sources_read_here:
            return False
        self._sources_read_here.discard(found[0])
        _log.info("Spark reads source %r: %s", *found)
        return True

    def _leave_out_bad_file(self, error: Exception) -> None:
        """Note the file that stopped Spark's query, to go on without it; else raise the error."""
        bad = bad_file_in(error, self.committed)
        if bad is None:
            raise storage_error_in(error) or error
        known = {(file.path, file.batch) for file in self._bad_files.all()}
        skips = any(o.on_bad_file == OnBadFile.SKIP for o in self._source_options.values())
        if not skips or (bad.path, bad.batch) in known or self._stop_requested.is_set():
            raise to_source_error(bad) from None
        self._bad_files.add(bad)
        _log.warning("the file %s is left out: %s", printable(bad.path), printable(bad.reason))

    def _release_checkpoint(self) -> None:
        """Finish maintenance and history, and unlock the checkpoint."""
        if self._progress is not None and self._owns_progress and self._checkpoint.is_open:
            self._progress.__exit__()
        if self._callback is not None:
            self._callback.close()
        try:
            self._committer.maintenance.close()
            if self._checkpoint.is_open and not self._is_fenced():
                self._note = replace(self._note, ended_at=time.time())
                write_run_note(self.checkpoint, self._note)
                self._balancer.close(self.committed)
        finally:
            self._checkpoint.close()
        self._committer.alerts.close()

    def _is_fenced(self) -> bool:
        """Tell whether the checkpoint is another driver's, whose notes must stay."""
        try:
            self.check_fence()
        except FencedError:
            return True
        return False

    def _start_query(self, *upcoming: Registry) -> "StreamingQuery":
        """Start Spark's query over the columns that are needed now or by `upcoming` registries."""
        registries = [self._checkpoint.registry(), self._commands.next_registry(), *upcoming]
        self._source_columns = needed_columns(registries, sorted(self._sources))
        store, head = self._checkpoint.store, self._checkpoint.head()
        checkpoint_id = CheckpointId(
            store.uri, self._checkpoint.identity, head.epoch, store.power_safe, store.options
        )
        speculates = self._spark.sparkContext.getConf().get("spark.speculation", "false") == "true"
        start_id = "" if speculates else uuid.uuid4().hex[:12]
        trigger_us = None if self._trigger is None else duration_us(self._trigger, "trigger")
        task = WorkerTask(
            checkpoint_id,
            self._runtime,
            self._measure_options,
            start_id,
            head.batch,
            StepLimits.of_trigger(trigger_us),
        )
        skipped = [file for file in self._bad_files.all() if file.batch >= self.committed]
        sources = {
            name: without_files(frame, skipped)
            if self._source_options[name].on_bad_file == OnBadFile.SKIP
            else frame
            for name, frame in self._sources.items()
        }
        frame = report_frame(
            self._spark,
            self._checkpoint,
            sources,
            self._source_columns,
            self._source_options,
            frozenset(self._sources_read_here),
            task,
        )
        if self._callback is not None:
            self._callback.close()
        left_out = [file.path for file in skipped]
        self._callback = batch_callback(self._spark, self._committer, left_out)
        return start_streaming_query(
            self._spark, self._checkpoint, self._callback, frame, self._trigger
        )

    def _ensure_columns(self, registry: Registry, name: str) -> None:
        """Make sources deliver the columns of a new query before a batch needs them.

        If columns are missing, Spark's query is restarted: the running batch is abandoned and
        replayed with more columns.
        """
        columns_read = registry.queries[name].columns_read
        needed = {
            stream: columns_read[stream] for stream in columns_read if stream in self._sources
        }
        if covers_columns(self._source_columns, needed) or not self.is_active:
            return
        if self._query is not None:
            self._query.stop()
            fault_point("run.widened")
            self._query = self._start_query(registry)

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the run ends; raise what ended it. False if `timeout` seconds pass first."""
        if self._thread is None:
            return True
        self._thread.join(timeout)
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive()

    def finish(self, timeout: float = 60.0) -> None:
        """Stop after the running batch, or when `timeout` seconds have passed."""
        self._stop_requested.set()
        committed, until = self.committed, time.monotonic() + timeout
        while (
            self._query is not None
            and self._query.isActive
            and self._query.status["isTriggerActive"]
            and self.committed == committed
            and time.monotonic() < until
        ):
            time.sleep(0.05)
        self.stop()

    def request_stop(self) -> None:
        """Let the run stop after the running batch; return at once."""
        threading.Thread(target=self.finish, name="evenflow-stop", daemon=True).start()

    def stop(self) -> None:
        """Stop at once: the running batch is abandoned and replayed by the next start.

        Committed results are delivered to sinks before it returns.
        """
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
        return self._thread is not None and self._thread.is_alive()

    @property
    def trigger_seconds(self) -> float | None:
        """The time between two batches if they are quicker; None: until all rows are read."""
        return None if self._trigger is None else duration_us(self._trigger, "trigger") / 1e6

    @property
    def progress(self) -> Mapping[int, BatchProgress]:
        """What Spark reported of the last batches; collected from the first call on."""
        if self._progress is None:
            if not self.is_active:
                return {}
            self._progress = ProgressListener(self._spark, self.checkpoint_uri)
            self._progress.__enter__()
            self._owns_progress = True
        return dict(self._progress.batches)

    @property
    def batch_seconds(self) -> Mapping[int, float]:
        """How long each of the last batches took, from its trigger to its commit."""
        return {} if self._query is None else reported_seconds(self._query)

    def use_progress(self, listener: ProgressListener) -> None:
        """Read progress from a listener that the caller added to Spark before the start."""
        self._progress = listener

    await_results = await_results
    explain, to_pandas, plot = notebook.explain, notebook.to_pandas, notebook.plot
    __repr__, _repr_html_ = notebook.show_line, notebook.show_html

    # Changes, applied by the next commit

    submit = query_api.query
    submit_template = query_api.template
    submit_operator = query_api.operator
    subscribe = query_api.subscribe

    def _declared_queries(self) -> Mapping[str, Hosted]:
        return self._commands.next_registry().queries

    def _host(self, command: Submission | ReplaceQuery, name: str) -> Hosted:
        checked = self._commands.compile(command)  # no batch waits for it
        with self._query_lock:
            if isinstance(command, Submission):
                self._commands.check_queries(command, self._committer.limiter.tenants)
            registry = self._commands.preview(command, checked)
            hosted = registry.queries.get(next_name(name), registry.queries[name])
            self._ensure_columns(registry, hosted.name)
            return self._commands.submit(command, checked).queries[hosted.name]

    def _subscribe(self, name: str, rows: pa.Table) -> None:
        self._commands.try_subscriptions(name, rows)  # no batch waits for it
        with self._commands.lock:
            tenants = self._committer.limiter.tenants
            self._commands.check_subscriptions(name, len(rows), tenants)
            self._commands.subscribe(name, rows, subscribe=True)
