"""The functions that Spark runs in its Python processes: thin callables around router and worker.

The driver creates and ships the callables; `__call__` runs in a Spark task.
"""

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

import pyarrow as pa
from pyspark import TaskContext

from evenflow.spark.protocol.envelope import Envelope
from evenflow.spark.protocol.ledger import Ledger
from evenflow.spark.protocol.measure_options import MeasureOptions
from evenflow.spark.protocol.results_index import (
    BATCH_FIELD,
    ReadUnit,
    ResultsIndex,
    name_batches,
)
from evenflow.spark.protocol.source_options import SourceOptions
from evenflow.spark.protocol.step_limits import StepLimits
from evenflow.spark.worker.combiner import Combiner
from evenflow.spark.worker.parquet_files import ParquetFiles
from evenflow.spark.worker.prefetch import prefetch
from evenflow.spark.worker.process_memory import limit_process_memory
from evenflow.spark.worker.router import route_source
from evenflow.spark.worker.set_aside import latest_time_us
from evenflow.spark.worker.worker_process import WorkerProcess
from evenflow.spark.worker.worker_state import TaskRuntime
from evenflow.storage import records
from evenflow.storage.file_store import FileStore
from evenflow.storage.options import StorageOptions

READ_UNIT_COLUMNS = "unit binary"
COLLECT_EVERY_TASKS = 500
CLOCK_PROPERTY = "evenflow.batchClockUs"  # for tasks of a remote checkpoint


@dataclass(frozen=True, slots=True)
class CheckpointId:
    """A checkpoint as its driver sees it, and how to open it.

    identity  changes if another checkpoint is created at the same place
    epoch     changes if another driver takes it over
    """

    uri: str
    identity: str
    epoch: int
    power_safe: bool
    options: StorageOptions

    def open_store(self) -> FileStore:
        """Open its files in this process."""
        return FileStore(self.uri, power_safe=self.power_safe, options=self.options)


@dataclass(frozen=True, slots=True)
class RouterTask:
    """For mapInArrow over a source's rows, or the names of its files: returns envelopes."""

    checkpoint_id: CheckpointId
    runtime: Callable[[], TaskRuntime]
    stream: str
    options: SourceOptions
    reads_files: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Route one partition; an attempt after a failed one does not combine rows."""
        freeze_heap()
        ledger, batch = cached_ledger(self.checkpoint_id), batch_id()
        combiner, entry = None, ledger.entry(batch)
        if entry.combined and task_context().attemptNumber() == 0:
            runtime = cached_process(self.checkpoint_id, self.runtime).runtime
            combiner = Combiner(runtime, ledger, entry, self.stream)
        try:
            yield from route_source(
                ledger,
                self.stream,
                prefetch(self._read_files(batches, ledger, batch) if self.reads_files else batches),
                batch,
                combiner,
                self.options.max_ahead_us,
                _batch_clock_us(),
            )
        finally:
            if combiner is not None:
                combiner.close()

    def _read_files(
        self, names: Iterator[pa.RecordBatch], ledger: Ledger, batch: int
    ) -> Iterator[pa.RecordBatch]:
        registry = ledger.registry(ledger.entry(batch).registry_version)
        if not registry.readers(self.stream):
            return iter(())
        spec, columns = registry.streams[self.stream], registry.needed_columns(self.stream)
        ahead_us = self.options.max_ahead_us
        latest_us = latest_time_us(ledger.store, batch, ahead_us, _batch_clock_us())
        return ParquetFiles(self.stream, spec.schema, columns, spec.time, latest_us).read(names)


@dataclass(frozen=True, slots=True)
class WorkerTask:
    """For mapInArrow over envelopes: partition d is worker d and returns one report.

    `start_id` names this start of Spark's query; empty if Spark speculates (see `crash_blame`).
    `first_batch` is the batch it begins with: a start before may have tried it.
    """

    checkpoint_id: CheckpointId
    runtime: Callable[[], TaskRuntime]
    measure_options: MeasureOptions
    start_id: str
    first_batch: int
    step_limits: StepLimits = field(default_factory=StepLimits)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run one worker's batch and return its report."""
        freeze_heap()
        context = task_context()
        worker, attempt = context.partitionId(), context.attemptNumber()
        process = cached_process(self.checkpoint_id, self.runtime)
        report = process.run_batch(
            worker,
            batch_id(),
            _read_envelopes(batches, worker),
            attempt,
            self.start_id,
            self.measure_options,
            self.step_limits,
            is_first=attempt == 0 and batch_id() > self.first_batch,
        )
        columns = [pa.array([part]) for part in report.encode()]
        yield pa.RecordBatch.from_arrays(columns, names=["report", "keys"])


@dataclass(frozen=True, slots=True)
class ReadResultsTask:
    """For mapInArrow over READ_UNIT_COLUMNS: returns the rows of a query, or poison rows.

    `schema` has their columns; rows from before a column was added have NULL there. `batch_column`
    names a column to add, with the batch that wrote the rows.
    """

    uri: str
    options: StorageOptions
    kind: str
    name: str
    schema: pa.Schema
    batch_column: str | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the units of one partition."""
        index = ResultsIndex(Ledger(FileStore(self.uri, options=self.options)))
        for batch in batches:
            for encoded in batch.column(0).to_pylist():
                unit = records.decode(encoded, ReadUnit)
                rows = index.read(self.kind, self.name, unit)
                missing = [f for f in self.schema if f.name not in rows.column_names]
                for added in missing:
                    rows = rows.append_column(added, pa.nulls(len(rows), added.type))
                if self.kind == "poison":
                    rows = rows.select([*self.schema.names, BATCH_FIELD])
                yield from name_batches(rows, self.batch_column).to_batches()


_ledgers: dict[CheckpointId, Ledger] = {}
_processes: dict[CheckpointId, WorkerProcess] = {}


def cached_ledger(checkpoint: CheckpointId) -> Ledger:
    """Return this process's ledger of a checkpoint, with the plans it has read."""
    if checkpoint not in _ledgers:
        for cache in (_ledgers, _processes):
            for replaced in [other for other in cache if other.uri == checkpoint.uri]:
                del cache[replaced]
        _ledgers[checkpoint] = Ledger(checkpoint.open_store(), checkpoint.epoch)
    return _ledgers[checkpoint]


def cached_process(checkpoint: CheckpointId, runtime: Callable[[], TaskRuntime]) -> WorkerProcess:
    """Return the worker states that this Python process caches for a checkpoint."""
    ledger = cached_ledger(checkpoint)
    if checkpoint not in _processes:
        limit_process_memory()
        _processes[checkpoint] = WorkerProcess(ledger, runtime())
    return _processes[checkpoint]


_task_numbers = count(1)


def freeze_heap() -> None:
    """Exclude all present objects from garbage collection, at the start of a task.

    Spark collects after every task, so these objects have just survived. Otherwise the collector
    would visit the state of thousands of queries again and again, also while the load of a query
    is measured. Every COLLECT_EVERY_TASKS tasks it does, to free what became garbage meanwhile.
    """
    if next(_task_numbers) % COLLECT_EVERY_TASKS == 0:
        gc.unfreeze()
        gc.collect()
    gc.freeze()


def _read_envelopes(batches: Iterator[pa.RecordBatch], worker: int) -> Iterator[Envelope]:
    for batch in batches:
        for target, kind, name, blob in zip(*(c.to_pylist() for c in batch), strict=True):
            if target != worker:
                raise RuntimeError(f"worker {worker} received an envelope for worker {target}")
            yield Envelope(kind, name, blob)


def task_context() -> TaskContext:
    """Return Spark's context of the running task."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("this runs only inside a Spark task")
    return context


def _batch_clock_us() -> int | None:
    """Return when Spark planned the batch, if the driver says so; else a file does."""
    clock_us = task_context().getLocalProperty(CLOCK_PROPERTY)
    return None if clock_us is None else int(clock_us)


def batch_id() -> int:
    """Return the micro-batch that the running task belongs to."""
    number = task_context().getLocalProperty("streaming.sql.batchId")
    if number is None:
        raise RuntimeError("this runs only inside a streaming query")
    return int(number)
