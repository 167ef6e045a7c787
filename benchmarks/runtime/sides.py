"""Both sides of a row of `benchmarks.runtime`: a native Spark query and a flow, measured alike.

Each side runs in a process of its own, so that neither warms or fills the other's JVM.
"""

import os
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
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


def write(folder: Path, batches: Iterable[pa.Table]) -> None:
    """Write one file a batch; Spark reads them in the order of their times."""
    folder.mkdir(parents=True)
    for at, rows in enumerate(batches):
        path = folder / f"{at:05d}.parquet"
        pq.write_table(rows, path)
        os.utime(path, (1e9 + at * 10, 1e9 + at * 10))


class Watch(StreamingQueryListener):
    """Keeps every batch's progress, and the CPU time that all processes have used by then."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, float]] = []

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing to note."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Note a batch."""
        if event.progress.numInputRows > 0:
            self.seen.append((event.progress, cpu_seconds()))

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Nothing to note."""

    def summary(self, skip: int, inputs: int) -> dict[str, Any]:
        """Give the median of the full batches after the first few.

        A source that is read `inputs` times counts once.
        """
        most = max(p.numInputRows for p, _ in self.seen[skip:])
        full = [p for p, _ in self.seen[skip:] if p.numInputRows >= 0.99 * most]
        milliseconds = statistics.median(p.durationMs["triggerExecution"] for p in full)
        later = [cpu for _, cpu in self.seen[skip:]]
        spent = (later[-1] - later[0]) / max(1, len(later) - 1)
        return {
            "rows_per_batch": most // inputs,
            "batch_ms": milliseconds,
            "rows_per_second": round(most / inputs / milliseconds * 1000),
            "cpu_ms_per_batch": round(1000 * spent),
            "batches": len(full),
        }


@dataclass
class Side:
    """One side of a row: `native`, `kept` or `evenflow`; what belongs to the others is not run.

    `native` throws its results away, `kept` writes them as Parquet: Evenflow always keeps its own.
    """

    spark: SparkSession
    folder: Path
    name: str
    scale: float
    found: dict[str, Any] = field(default_factory=dict)

    def reading(self, name: str, files: int = 1) -> DataFrame:
        """Read a folder of files as a stream, some files a batch."""
        path = str(self.folder / name)
        schema = self.spark.read.parquet(path).schema
        reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", files)
        return reader.parquet(path)

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
        watch = self._watch()
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
        self._note(watch, skip, inputs)

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
        watch = self._watch()
        checkpoint = str(self.folder / "checkpoint")
        flow = Flow(self.spark, workers=WORKERS, checkpoint=checkpoint)
        for source, time in sources.items():
            flow.source(source, self.reading(source, files), time=time, watermark="0 seconds")
        declare(flow)
        run = flow.start(available_now=True)
        run.await_termination()
        if run.quarantined:
            raise RuntimeError(f"a query failed: {run.quarantined}")
        self._note(watch, skip, 1)
        self._reports(run, skip)
        if check is not None:
            check(run)

    def _watch(self) -> Watch:
        watch = Watch()
        self.spark.streams.addListener(watch)
        return watch

    def _note(self, watch: Watch, skip: int, inputs: int) -> None:
        _drained(self.spark)
        stages = self.spark.sparkContext._jsc.sc().statusStore()
        self.found = watch.summary(skip, inputs)
        written = shuffled_bytes(stages) / len(watch.seen)
        self.found |= {"shuffled_kb_per_batch": round(written / 1024), **peak_mb()}

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
        self.found |= {
            "shipped_kb_per_batch": round(shipped / 1024),
            "worker_cpu_ms_per_batch": round(1000 * worked, 1),
            "rows_out": sum(stats.rows_out for stats in queries),
            "state_mb": round(state / 1e6, 1),
        }


def _drained(spark: SparkSession) -> None:
    """Wait until Spark's listeners have heard everything."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()


def shuffled_bytes(store: Any) -> int:
    """Add up what all executors have written for shuffles."""
    executors = store.executorList(False)
    return sum(executors.apply(at).totalShuffleWrite() for at in range(executors.size()))
