"""Spark's progress of each batch: rows read from the sources, and duration."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from evenflow.spark.driver.spark_folder import REMOTE_PREFIX
from evenflow.storage.file_store import FileStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def streaming_query_name(store: FileStore) -> str:
    """Return the name that Spark shows for the query of a checkpoint."""
    return f"evenflow {store.uri}"


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One batch as Spark reports it."""

    batch: int
    rows: int
    seconds: float


class ProgressListener(StreamingQueryListener):
    """Collects Spark's progress of one checkpoint in `batches`, by batch number.

    Driver process; Spark calls it in its listener thread.
    """

    def __init__(self, spark: "SparkSession", checkpoint: str) -> None:
        self.batches: dict[int, BatchProgress] = {}
        store = FileStore(checkpoint)
        self._streams, self._name = spark.streams, streaming_query_name(store)
        # The folder whose files wake Spark; for a remote checkpoint a temporary one.
        local = store.local_root
        folder = f"{REMOTE_PREFIX}[^/]*" if local is None else re.escape(str(local))
        self._pulse = re.compile(f"{folder}/pulse")

    def __enter__(self) -> "ProgressListener":
        self._streams.addListener(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._streams.removeListener(self)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Ignore it."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Ignore it."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Ignore it."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Store rows and duration; the pulse folder that wakes Spark is not a source of rows."""
        progress = event.progress
        if progress.name != self._name:
            return  # another query of this session
        rows = sum(
            int(source.numInputRows)
            for source in progress.sources
            if not self._pulse.search(source.description)
        )
        seconds = float(progress.durationMs.get("triggerExecution", 0)) / 1000
        self.batches[int(progress.batchId)] = BatchProgress(int(progress.batchId), rows, seconds)
