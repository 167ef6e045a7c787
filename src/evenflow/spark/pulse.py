"""The pulse: a source without rows that makes Spark run a batch when something else is due.

Spark runs a batch when a source has moved on. This one is a single number in a file. Spark's file
source would do as well, but it keeps the name of every file it has ever seen, for ever.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from evenflow.spark.router import ENVELOPE
from evenflow.store import Store

FORMAT = "evenflow_pulse"
FILE = "pulse"


def beat(store: Store) -> None:
    """Move the pulse on; one driver does, under its lock."""
    store.write_record(FILE, beats(store) + 1)


def beats(store: Store) -> int:
    """Return how often it has beaten."""
    return int(store.read_record(FILE)) if store.exists(FILE) else 0


class Pulse(DataSource):
    """What Spark makes of `readStream.format("evenflow_pulse")`; the option `root` says where."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns of the rows that never come: those of the router."""
        return ENVELOPE

    def streamReader(self, schema: StructType) -> "PulseReader":  # noqa: N802 - Spark's own custom
        """Return the reader, for a process that Spark starts beside its driver."""
        return PulseReader(self.options["root"])


class PulseReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Tells Spark how far the pulse is."""

    def __init__(self, root: str) -> None:
        self._store = Store(root)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Begin before the first beat."""
        return {"beat": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return the last beat."""
        return {"beat": max(start["beat"], beats(self._store))}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix no end: there are no rows to leave out, and a flow beats until it comes to rest."""

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:
        """Return no partition: there is nothing to read."""
        return []

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Read nothing."""
        return iter(())
