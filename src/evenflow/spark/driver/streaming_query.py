"""Spark's streaming query: sources, router, one partition and one report per worker."""

import re
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

from evenflow.errors import FencedError, StorageError
from evenflow.spark.driver.batch_callback import BatchCallback
from evenflow.spark.driver.checkpoint import Checkpoint
from evenflow.spark.driver.column_pruning import SourceColumns, prune_columns
from evenflow.spark.driver.committer import Committer
from evenflow.spark.driver.parquet_sources import file_names
from evenflow.spark.driver.progress import streaming_query_name
from evenflow.spark.driver.vanished_files import refuse_vanished_files
from evenflow.spark.protocol.envelope import EMPTY_ENVELOPE_COLUMNS, ENVELOPE_COLUMNS
from evenflow.spark.protocol.report import REPORT_COLUMNS, Report
from evenflow.spark.protocol.source_options import SourceOptions
from evenflow.spark.worker.set_aside import batch_clock_us
from evenflow.spark.worker.spark_tasks import CLOCK_PROPERTY, RouterTask, WorkerTask
from evenflow.storage.file_store import FileStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_QUERY_SETTINGS = {
    # With any other limit Spark sums the bytes of a batch again for every row, which doubles the
    # time of a row to Python. Rows are bounded instead; the router gathers them.
    "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    # On a local disk, where a rename is atomic anyway, Spark's default starts a program (readlink,
    # chmod) for each file it puts in place: 40 ms for each of three files of a batch.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager",
    # The plan is fixed: one partition is one worker.
    "spark.sql.adaptive.enabled": "false",
    # A query that is stopped while Spark writes its first offsets and then replaced would leave a
    # file next to which Spark refuses to start.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
}


def batch_callback(
    spark: "SparkSession", committer: Committer, left_out: Collection[str] = ()
) -> BatchCallback:
    """Return what Spark calls for each batch: collect the reports, commit.

    The files in `left_out` need not be there.
    """
    checkpoint = committer.checkpoint
    working_copy = FileStore(str(checkpoint.spark_folder.root))

    def commit(frame: "DataFrame", batch: int) -> None:
        def collect() -> list[Report]:
            with refuse_vanished_files(spark, checkpoint.spark_folder.root, batch, left_out):
                return [Report.decode(*row) for row in frame.collect()]

        if checkpoint.store.local_root is None:  # tasks elsewhere cannot read Spark's files
            clock_us = batch_clock_us(working_copy, batch)
            spark.sparkContext.setLocalProperty(CLOCK_PROPERTY, str(clock_us))
        committer.commit(batch, collect)

    return BatchCallback(commit)


def start_streaming_query(
    spark: "SparkSession",
    checkpoint: Checkpoint,
    callback: BatchCallback,
    frame: "DataFrame",
    trigger: str | None,
) -> "StreamingQuery":
    """Start the query over a frame of reports: every `trigger`, or once over all rows there are."""
    with _temporary_settings(spark, _QUERY_SETTINGS):
        writer = (
            frame.writeStream.foreachBatch(callback)
            .option("checkpointLocation", checkpoint.spark_folder.uri("spark"))
            .queryName(streaming_query_name(checkpoint.store))
            .outputMode("append")
        )
        if trigger is None:
            query = writer.trigger(availableNow=True).start()
        else:
            query = writer.trigger(processingTime=trigger).start()
        # Sources read the settings when Spark creates them, a moment later.
        while query.isActive and str(query.status["message"]).startswith("Initializing"):
            time.sleep(0.01)
        return query


def await_query(query: "StreamingQuery") -> Exception | None:
    """Wait until Spark's query ends; return what ended it, if it failed."""
    try:
        query.awaitTermination()
    except Exception as error:
        return error
    return None


def storage_error_in(error: BaseException) -> StorageError | None:
    """Return the storage error that stopped Spark's query: Spark passes on only its text.

    >>> storage_error_in(Exception("page of text\\nevenflow.errors.StorageError: f is gone\\nmore"))
    StorageError('f is gone')
    >>> text = "OSError: [Errno 28] No space left on device: 'ledger/7'"
    >>> str(storage_error_in(Exception(text))).partition(";")[0]
    "[Errno 28] No space left on device: 'ledger/7'"
    """
    if found := re.search(r"FencedError: (.+)", str(error)):
        return FencedError(found[1])
    if found := re.search(r"(?:StorageError|DamagedFileError): (.+)", str(error)):
        return StorageError(found[1])
    if found := re.search(r"(?:OS|Permission|FileNotFound)Error: (\[Errno \d+\] .+)", str(error)):
        return StorageError(
            f"{found[1]}; free or mend the storage and start again: the run continues after the "
            "last committed batch"
        )
    return None


def report_frame(
    spark: "SparkSession",
    checkpoint: Checkpoint,
    sources: Mapping[str, "DataFrame"],
    columns: SourceColumns,
    options: Mapping[str, SourceOptions],
    read_here: Collection[str],
    task: WorkerTask,
) -> "DataFrame":
    """Plan a batch over some columns of the sources: one report per worker comes out.

    `read_here` names sources of Parquet files that the router reads instead of Spark.
    """
    streams = checkpoint.registry().streams
    # A file in this folder makes Spark run a batch; its content is not used.
    pulse = spark.readStream.text(checkpoint.spark_folder.uri("pulse"))
    envelopes = pulse.selectExpr(*EMPTY_ENVELOPE_COLUMNS).where("false")
    for name in sorted(sources):
        if name in read_here:
            source = file_names(sources[name])
        else:
            source = prune_columns(
                sources[name], columns[name], streams[name].time, options[name].max_ahead_us
            )
        router = RouterTask(
            task.checkpoint_id, task.runtime, name, options[name], name in read_here
        )
        envelopes = envelopes.union(source.mapInArrow(router, ENVELOPE_COLUMNS))
    by_worker = envelopes.repartitionById(checkpoint.workers, F.col("worker"))
    return by_worker.mapInArrow(task, REPORT_COLUMNS)


@contextmanager
def _temporary_settings(spark: "SparkSession", wanted: Mapping[str, str]) -> Iterator[None]:
    """Apply settings for a moment: Spark copies them when a query starts."""
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
