"""Spark's progress of each batch: rows read from the sources, duration, backlog."""

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from evenflow.model.progress import BatchProgress
from evenflow.spark.driver.spark_folder import REMOTE_PREFIX
from evenflow.storage.file_store import FileStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def streaming_query_name(store: FileStore) -> str:
    """Return the name that Spark shows for the query of a checkpoint."""
    return f"evenflow {store.uri}"


def reported_seconds(query: "StreamingQuery") -> dict[int, float]:
    """Return how long the last batches of a query took, by batch number; it may have ended."""
    seconds: dict[int, float] = {}
    for progress in query.recentProgress:
        taken = float(progress.durationMs.get("triggerExecution", 0)) / 1000
        seconds.setdefault(int(progress.batchId), taken)
    return seconds


class ProgressListener(StreamingQueryListener):
    """Collects Spark's progress of one checkpoint in `batches`, by batch number.

    Driver process; Spark calls it in its listener thread. Only the last `keep` batches stay.
    """

    def __init__(self, spark: "SparkSession", checkpoint: str, keep: int = 256) -> None:
        self.batches: dict[int, BatchProgress] = {}
        self._keep = keep
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
        """Store the figures; the pulse folder that wakes Spark is not a source of rows."""
        progress = event.progress
        if progress.name != self._name:
            return  # another query of this session
        sources = [each for each in progress.sources if not self._pulse.search(each.description)]
        number, milliseconds = int(progress.batchId), progress.durationMs
        seconds = float(milliseconds.get("triggerExecution", 0)) / 1000
        batch_itself = float(milliseconds.get("addBatch", 0)) / 1000
        self.batches[number] = BatchProgress(
            batch=number,
            rows=sum(int(source.numInputRows) for source in sources),
            seconds=seconds,
            fixed_seconds=max(seconds - batch_itself, 0.0),
            backlog_rows=_backlog((each.endOffset, each.latestOffset) for each in sources),
        )
        if len(self.batches) > self._keep:
            del self.batches[min(self.batches)]


def _backlog(offsets: Iterable[tuple[str | None, str | None]]) -> int | None:
    """Return the rows between the read and the latest offsets, of the sources that say them.

    >>> _backlog([('{"orders": {"0": 5, "1": 7}}', '{"orders": {"0": 9, "1": 7}}')])
    4
    >>> _backlog([('{"logOffset": 4}', None), ("3", "3")])  # files, rate
    """
    gaps = [gap for end, latest in offsets if (gap := _offset_gap(end, latest)) is not None]
    return sum(gaps) if gaps else None


def _offset_gap(end: str | None, latest: str | None) -> int | None:
    """Return the rows between two offsets by topic and partition; None for other offsets."""
    try:
        read, there = json.loads(end or "null"), json.loads(latest or "null")
        return sum(
            max(int(offset) - int(read.get(topic, {}).get(partition, offset)), 0)
            for topic, partitions in there.items()
            for partition, offset in partitions.items()
        )
    except (AttributeError, TypeError, ValueError):
        return None
