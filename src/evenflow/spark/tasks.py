"""What Spark runs in its Python processes: thin callables around router and worker."""

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import pyarrow as pa
from pyspark import TaskContext

from evenflow.spark.ahead import ahead
from evenflow.spark.bundle import Ref, read_part, unpack
from evenflow.spark.inbox import Envelope
from evenflow.spark.ledger import Ledger
from evenflow.spark.measuring import Measuring
from evenflow.spark.results import batch_of
from evenflow.spark.router import route_source
from evenflow.spark.worker import Process, Runtime
from evenflow.storage.file_store import FileStore

REPORT = "report string, keys binary"
LOOK_THROUGH = 500  # tasks of a process


@dataclass(frozen=True, slots=True)
class Home:
    """A checkpoint: where it is, and which of those that may have been there."""

    root: str
    identity: str


class RouteSource:
    """mapInArrow over a source's rows."""

    def __init__(self, home: Home, stream: str) -> None:
        self.home, self.stream = home, stream

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Route one partition."""
        settle()
        return route_source(ledger_of(self.home), self.stream, ahead(batches), batch_id())


class Work:
    """mapInArrow over the envelopes of one worker: partition d is worker d."""

    def __init__(self, home: Home, runtime: Callable[[], Runtime], measuring: Measuring) -> None:
        self.home, self.runtime, self.measuring = home, runtime, measuring

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run one worker's batch and return its report."""
        settle()
        slot, attempt = context().partitionId(), context().attemptNumber()
        process = process_of(self.home, self.runtime)
        envelopes = _envelopes(batches, slot)
        report = process.run(slot, batch_id(), envelopes, attempt, self.measuring)
        columns = [pa.array([part]) for part in report.pack()]
        yield pa.RecordBatch.from_arrays(columns, names=["report", "keys"])


PLACES = "file string, offset long, length long"


class ReadParts:
    """mapInArrow over places of results; `batch` names a column for the batch they are of."""

    def __init__(self, root: str, batch: str | None = None) -> None:
        self.root, self.batch = root, batch

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the rows that stand there."""
        store = FileStore(self.root)
        for places in batches:
            for place in places.to_pylist():
                ref = Ref(place["file"], place["offset"], place["length"])
                rows = unpack(read_part(store, ref))
                if self.batch is not None:
                    number = pa.repeat(pa.scalar(batch_of(ref.file), pa.int64()), len(rows))
                    rows = rows.append_column(self.batch, number)
                yield from rows.to_batches()


_ledgers: dict[Home, Ledger] = {}
_processes: dict[Home, Process] = {}


def ledger_of(home: Home) -> Ledger:
    """Return this process's view of a ledger, with the plans it has read."""
    if home not in _ledgers:
        for known in (_ledgers, _processes):
            for old in [other for other in known if other.root == home.root]:
                del known[old]
        _ledgers[home] = Ledger(FileStore(home.root))
    return _ledgers[home]


def process_of(home: Home, runtime: Callable[[], Runtime]) -> Process:
    """Return what this Python process keeps for a checkpoint."""
    ledger = ledger_of(home)
    if home not in _processes:
        _processes[home] = Process(ledger, runtime())
    return _processes[home]


_tasks = count(1)


def settle() -> None:
    """Let the collector skip what is there, as a task begins.

    Spark runs it in our time after every task, so what is there has just survived it; it would
    look through all that thousands of queries hold again and again, also in the midst of a query
    whose load is measured. Now and then it does, for what has become garbage since.
    """
    if next(_tasks) % LOOK_THROUGH == 0:
        gc.unfreeze()
        gc.collect()
    gc.freeze()


def _envelopes(batches: Iterator[pa.RecordBatch], slot: int) -> Iterator[Envelope]:
    for batch in batches:
        for at, kind, name, blob in zip(*(column.to_pylist() for column in batch), strict=True):
            if at != slot:
                raise RuntimeError(f"a blob for worker {at} came to worker {slot}")
            yield Envelope(kind, name, blob)


def context() -> TaskContext:
    """Return Spark's view of the running task."""
    found = TaskContext.get()
    if found is None:
        raise RuntimeError("this runs only inside a Spark task")
    return found


def batch_id() -> int:
    """Return the micro-batch that the running task belongs to."""
    number = context().getLocalProperty("streaming.sql.batchId")
    if number is None:
        raise RuntimeError("this runs only inside a streaming query")
    return int(number)
