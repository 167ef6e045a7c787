"""Spark's query of a run: sources, routed, one partition a worker, one report a worker."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

from evenflow.spark.driver.column_pruning import SourceColumns, prune_columns
from evenflow.spark.driver.committer import Committer
from evenflow.spark.driver.progress import streaming_query_name
from evenflow.spark.protocol.report import Report
from evenflow.spark.worker.router import EMPTY_ENVELOPE_COLUMNS, ENVELOPE_COLUMNS
from evenflow.spark.worker.spark_tasks import REPORT_COLUMNS, RouterTask, WorkerTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_QUERY_SETTINGS = {
    # Spark adds up the bytes of a batch anew for every row, which doubles the time of a row's way
    # to Python, unless the limit is this one. Rows are bounded instead; the router gathers them.
    "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    # The plan is fixed by hand: one partition is one worker.
    "spark.sql.adaptive.enabled": "false",
    # A driver killed while Spark writes its first offsets leaves a file that Spark would then
    # refuse to start beside. That its offsets and our ledger are of one run, `opening` checks.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
}
# On a local disk, where a rename is atomic anyway, Spark's default starts a program (readlink,
# chmod) for each file it puts in place: 40 ms for each of three files of a batch.
_LOCAL_SETTINGS = {
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager"
}


def start_streaming_query(
    spark: "SparkSession", driver: Committer, frame: "DataFrame", trigger: str | None
) -> "StreamingQuery":
    """Start it over a frame of `report_frame`: every `trigger`, or once over all there is."""

    def commit(frame: "DataFrame", batch: int) -> None:
        driver.commit(batch, lambda: [Report.decode(*row) for row in frame.collect()])

    local = driver.store.local_root is not None
    with _temporary_settings(spark, _QUERY_SETTINGS | (_LOCAL_SETTINGS if local else {})):
        writer = (
            frame.writeStream.foreachBatch(commit)
            .option("checkpointLocation", f"{driver.store.spark_uri}/spark")
            .queryName(streaming_query_name(driver.store))
            .outputMode("append")
        )
        if trigger is None:
            query = writer.trigger(availableNow=True).start()
        else:
            query = writer.trigger(processingTime=trigger).start()
        # Sources take the settings that hold when Spark makes them, a moment later.
        while query.isActive and str(query.status["message"]).startswith("Initializing"):
            time.sleep(0.01)
        return query


def report_frame(
    spark: "SparkSession",
    driver: Committer,
    sources: Mapping[str, "DataFrame"],
    columns: SourceColumns,
    work: WorkerTask,
) -> "DataFrame":
    """Plan a batch over some columns of the sources, down to one report a worker."""
    streams = driver.ledger.registry(driver.head().registry_version).streams
    # A file here makes Spark run a batch; there is nothing to read in it.
    pulse = spark.readStream.text(f"{driver.store.spark_uri}/pulse")
    envelopes = pulse.selectExpr(*EMPTY_ENVELOPE_COLUMNS).where("false")
    for name in sorted(sources):
        source = prune_columns(sources[name], columns[name], streams[name].time)
        envelopes = envelopes.union(
            source.mapInArrow(RouterTask(work.checkpoint_id, name), ENVELOPE_COLUMNS)
        )
    dealt = envelopes.repartitionById(driver.workers, F.col("slot"))
    return dealt.mapInArrow(work, REPORT_COLUMNS)


@contextmanager
def _temporary_settings(spark: "SparkSession", wanted: Mapping[str, str]) -> Iterator[None]:
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
