"""The sides of a row of `benchmarks.runtime`: a native Spark query and a flow, measured alike.

Each side runs in its own process, so that neither warms or fills the JVM of the other.
"""

import os
import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from benchmarks.process_stats import cpu_seconds, peak_mb
from evenflow import Flow, Run

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
WORKERS = 8
Check = Callable[[Run], None]


def session(memory: str = "4g", master: str = "local[2,4]") -> SparkSession:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": memory,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.python.unix.domain.socket.enabled": "true",
    }
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def stream_files(spark: SparkSession, path: Path, files: int = 1) -> DataFrame:
    """Read a folder of Parquet files as a stream, `files` per batch."""
    schema = spark.read.parquet(str(path)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(path))


class ProgressLog(StreamingQueryListener):
    """Keeps the progress of every batch, and CPU time and shuffled bytes until its end."""

    def __init__(self, spark: SparkSession) -> None:
        self.batches: list[tuple[Any, float]] = []
        self.shuffled: list[int] = []
        self._stages = spark.sparkContext._jsc.sc().statusStore()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Ignored."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Keep the progress of a batch with rows."""
        if event.progress.numInputRows > 0:
            self.batches.append((event.progress, cpu_seconds()))
            self.shuffled.append(shuffled_bytes(self._stages))

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Ignored."""

    def summary(self, skip: int, inputs: int) -> dict[str, Any]:
        """Return medians of the full batches after the first `skip`.

        A source that is read `inputs` times counts once.
        """
        most = max(p.numInputRows for p, _ in self.batches[skip:])
        full = [p for p, _ in self.batches[skip:] if p.numInputRows >= 0.99 * most]
        milliseconds = statistics.median(p.durationMs["triggerExecution"] for p in full)
        later = [cpu for _, cpu in self.batches[skip:]]
        spent = (later[-1] - later[0]) / max(1, len(later) - 1)
        shuffled = self.shuffled[skip:]
        shuffled_kb = (shuffled[-1] - shuffled[0]) / max(1, len(shuffled) - 1) / 1024
        return {
            "rows_per_batch": most // inputs,
            "batch_ms": milliseconds,
            "rows_per_second": round(most / inputs / milliseconds * 1000),
            "cpu_ms_per_batch": round(1000 * spent),
            "shuffled_kb_per_batch": round(shuffled_kb),
            "batches": len(full),
        }


@dataclass
class Side:
    """One side of a row: `native`, `kept` or `evenflow`; calls for other sides do nothing.

    `native` discards its results, `kept` writes them as Parquet, as Evenflow always does.
    """

    spark: SparkSession
    folder: Path
    name: str
    scale: float
    results: dict[str, Any] = field(default_factory=dict)

    def stream(self, name: str, files: int = 1) -> DataFrame:
        """Read a folder of files as a stream, `files` per batch."""
        return stream_files(self.spark, self.folder / name, files)

    def native(
        self,
        frame: Callable[[], DataFrame],
        *,
        skip: int,
        mode: str = "append",
        inputs: int = 1,
    ) -> None:
        """Run a plain Spark streaming query."""
        if self.name not in ("native", "kept"):
            return
        log = self._listen()
        query = (
            frame()
            .writeStream.format("noop" if self.name == "native" else "parquet")
            .option("path", str(self.folder / "kept"))
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .outputMode(mode)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        self._summarise(log, skip, inputs)

    def evenflow(
        self,
        declare: Callable[[Flow], Any],
        sources: Mapping[str, str],
        *,
        skip: int,
        files: int = 1,
        check: Check | None = None,
        name: str = "evenflow",
    ) -> None:
        """Run a flow over sources (name -> time column), to its end."""
        if self.name != name:
            return
        log = self._listen()
        checkpoint = str(self.folder / "checkpoint")
        flow = Flow(self.spark, workers=WORKERS, checkpoint=checkpoint)
        for source, time in sources.items():
            flow.source(source, self.stream(source, files), time=time, watermark="0 seconds")
        declare(flow)
        run = flow.start(available_now=True)
        run.await_termination()
        if run.quarantined:
            raise RuntimeError(f"a query failed: {run.quarantined}")
        self._summarise(log, skip, 1)
        self._reports(run, skip)
        if check is not None:
            check(run)

    def _listen(self) -> ProgressLog:
        log = ProgressLog(self.spark)
        self.spark.streams.addListener(log)
        return log

    def _summarise(self, log: ProgressLog, skip: int, inputs: int) -> None:
        _flush_listeners(self.spark)
        self.results = log.summary(skip, inputs) | peak_mb()

    def _reports(self, run: Run, skip: int) -> None:
        batches = run.batches[skip:]
        reports = [report for batch in batches for report in batch.reports]
        queries = [stats for report in reports for stats in report.query_stats.values()]
        shipped = sum(sum(report.shipped_bytes.values()) for report in reports) / len(batches)
        worked = sum(report.cpu_seconds for report in reports) / len(batches)
        state = max(
            sum(s.state_bytes for r in batch.reports for s in r.query_stats.values())
            for batch in batches
        )
        self.results |= {
            "shipped_kb_per_batch": round(shipped / 1024),
            "worker_cpu_ms_per_batch": round(1000 * worked, 1),
            "rows_out": sum(stats.rows_out for stats in queries),
            "state_mb": round(state / 1e6, 1),
        }


def _flush_listeners(spark: SparkSession) -> None:
    """Wait until Spark's listeners have received all events."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()


def shuffled_bytes(store: Any) -> int:
    """Return the shuffle bytes that all executors have written."""
    executors = store.executorList(False)
    return sum(executors.apply(at).totalShuffleWrite() for at in range(executors.size()))
