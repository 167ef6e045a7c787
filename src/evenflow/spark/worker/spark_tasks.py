"""What Spark runs in its Python processes: thin callables around router and worker."""

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import pyarrow as pa
from pyspark import TaskContext

from evenflow.spark.protocol.ledger import Ledger
from evenflow.spark.protocol.measure_options import MeasureOptions
from evenflow.spark.protocol.results_index import batch_of_file
from evenflow.spark.worker.inbox import Envelope
from evenflow.spark.worker.prefetch import prefetch
from evenflow.spark.worker.router import route_source
from evenflow.spark.worker.worker_batch import TaskRuntime, WorkerProcess
from evenflow.storage.bundle import PartRef, read_part, unpack
from evenflow.storage.file_store import FileStore

REPORT_COLUMNS = "report string, keys binary"
COLLECT_EVERY_TASKS = 500  # tasks of a process


@dataclass(frozen=True, slots=True)
class CheckpointId:
    """A checkpoint: where it is, and which of those that may have been there."""

    uri: str
    identity: str


class RouterTask:
    """mapInArrow over a source's rows."""

    def __init__(self, home: CheckpointId, stream: str) -> None:
        self.checkpoint_id, self.stream = home, stream

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Route one partition."""
        freeze_heap()
        return route_source(
            cached_ledger(self.checkpoint_id), self.stream, prefetch(batches), batch_id()
        )


class WorkerTask:
    """mapInArrow over the envelopes of one worker: partition d is worker d."""

    def __init__(
        self, home: CheckpointId, runtime: Callable[[], TaskRuntime], measuring: MeasureOptions
    ) -> None:
        self.checkpoint_id, self.runtime, self.measure_options = home, runtime, measuring

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run one worker's batch and return its report."""
        freeze_heap()
        slot, attempt = task_context().partitionId(), task_context().attemptNumber()
        process = cached_process(self.checkpoint_id, self.runtime)
        envelopes = _read_envelopes(batches, slot)
        report = process.run_batch(slot, batch_id(), envelopes, attempt, self.measure_options)
        columns = [pa.array([part]) for part in report.encode()]
        yield pa.RecordBatch.from_arrays(columns, names=["report", "keys"])


PART_REF_COLUMNS = "file string, offset long, length long"


class ReadPartsTask:
    """mapInArrow over places of results; `batch_column` names a column for the batch they are of."""

    def __init__(self, root: str, batch: str | None = None) -> None:
        self.uri, self.batch_column = root, batch

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the rows that stand there."""
        store = FileStore(self.uri)
        for places in batches:
            for place in places.to_pylist():
                ref = PartRef(place["file"], place["offset"], place["length"])
                rows = unpack(read_part(store, ref))
                if self.batch_column is not None:
                    number = pa.repeat(pa.scalar(batch_of_file(ref.file), pa.int64()), len(rows))
                    rows = rows.append_column(self.batch_column, number)
                yield from rows.to_batches()


_ledgers: dict[CheckpointId, Ledger] = {}
_processes: dict[CheckpointId, WorkerProcess] = {}


def cached_ledger(home: CheckpointId) -> Ledger:
    """Return this process's view of a ledger, with the plans it has read."""
    if home not in _ledgers:
        for known in (_ledgers, _processes):
            for old in [other for other in known if other.uri == home.uri]:
                del known[old]
        _ledgers[home] = Ledger(FileStore(home.uri))
    return _ledgers[home]


def cached_process(home: CheckpointId, runtime: Callable[[], TaskRuntime]) -> WorkerProcess:
    """Return what this Python process keeps for a checkpoint."""
    ledger = cached_ledger(home)
    if home not in _processes:
        _processes[home] = WorkerProcess(ledger, runtime())
    return _processes[home]


_task_numbers = count(1)


def freeze_heap() -> None:
    """Let the collector skip what is there, as a task begins.

    Spark runs it in our time after every task, so what is there has just survived it; it would
    look through all that thousands of queries hold again and again, also in the midst of a query
    whose load is measured. Now and then it does, for what has become garbage since.
    """
    if next(_task_numbers) % COLLECT_EVERY_TASKS == 0:
        gc.unfreeze()
        gc.collect()
    gc.freeze()


def _read_envelopes(batches: Iterator[pa.RecordBatch], slot: int) -> Iterator[Envelope]:
    for batch in batches:
        for at, kind, name, blob in zip(*(column.to_pylist() for column in batch), strict=True):
            if at != slot:
                raise RuntimeError(f"a blob for worker {at} came to worker {slot}")
            yield Envelope(kind, name, blob)


def task_context() -> TaskContext:
    """Return Spark's view of the running task."""
    found = TaskContext.get()
    if found is None:
        raise RuntimeError("this runs only inside a Spark task")
    return found


def batch_id() -> int:
    """Return the micro-batch that the running task belongs to."""
    number = task_context().getLocalProperty("streaming.sql.batchId")
    if number is None:
        raise RuntimeError("this runs only inside a streaming query")
    return int(number)
