"""What can be seen of a run: queries, plans, statistics, decisions, results."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from evenflow.errors import InputError
from evenflow.model import Decision, HotKey, Outcome, Plan, Snapshot, hot_keys
from evenflow.spark.driver.balancer import Balancer
from evenflow.spark.driver.committer import Committer
from evenflow.spark.driver.completed_batch import CompletedBatch
from evenflow.spark.protocol.registry import Hosted, Registry, StreamSpec, join_names
from evenflow.spark.worker.spark_tasks import PART_REF_COLUMNS, ReadPartsTask
from evenflow.storage.file_store import FileStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class RunView:
    """Reads what the driver has committed and what the balancer remembers; changes nothing."""

    def __init__(self, spark: "SparkSession", driver: Committer, balancer: Balancer) -> None:
        self._spark, self._driver, self._balancer = spark, driver, balancer

    @property
    def queries(self) -> Mapping[str, Hosted]:
        """The queries hosted in the next batch."""
        return self._registry.queries

    @property
    def streams(self) -> Mapping[str, StreamSpec]:
        """The sources, and the streams that queries publish."""
        return self._registry.streams

    @property
    def plan(self) -> Plan:
        """The plan of the next batch."""
        return self._driver.ledger.plan(self._driver.head().plan_number)

    @property
    def batches(self) -> tuple[CompletedBatch, ...]:
        """Statistics of the last batches of this run."""
        return tuple(self._driver.completed_batches)

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """What was observed in the last batches; older ones are in the checkpoint's history."""
        return tuple(self._balancer.snapshots)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """What was decided at the last borders, and why."""
        return tuple(self._balancer.decisions)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """What the decisions that moved something have brought."""
        return tuple(self._balancer.outcomes)

    def hot_keys(self, name: str, count: int = 20) -> list[HotKey]:
        """Return the heaviest keys of a keyed query, each with its share and its worker."""
        return hot_keys(self.snapshots, name, count)

    @property
    def has_pending_work(self) -> bool:
        """Whether there is something to do even if no more rows arrive."""
        return self._driver.has_pending_work()

    @property
    def refused(self) -> tuple[str, ...]:
        """Why plans were not followed: they no longer fitted what is hosted."""
        return tuple(self._driver.refused)

    @property
    def quarantined(self) -> Mapping[str, str]:
        """Queries that failed and why; cancel or resubmit them."""
        failed = self._driver.head().quarantined
        return {q.name: failed[q.uid] for q in self.queries.values() if q.uid in failed}

    @property
    def late(self) -> Mapping[str, int]:
        """Rows of each query that came behind its watermark and were dropped."""
        late = self._driver.head().late
        return {q.name: late[q.uid] for q in self.queries.values() if q.uid in late}

    @property
    def watermarks(self) -> Mapping[str, int]:
        """Watermark of each stream in microseconds."""
        return self._driver.head().watermarks

    @property
    def committed(self) -> int:
        """How many batches of the checkpoint are committed: the number of the next one."""
        return self._driver.head().batch

    @property
    def checkpoint(self) -> FileStore:
        """The files of this flow."""
        return self._driver.store

    @property
    def _registry(self) -> Registry:
        return self._driver.ledger.registry(self._driver.head().registry_version)

    def results(self, name: str, *, first: int = 0, batch: str | None = None) -> "DataFrame":
        """Return everything committed of a query so far, each batch once.

        `first` leaves earlier batches out; `batch` names a further column with their numbers.
        """
        query, past = self.queries.get(name), self._driver.ledger.cancelled_names()
        if query is None and name not in past:
            known = join_names({*past, *self.queries})
            raise InputError(f"there is no query {name!r}; there are {known}")
        query = query or self._driver.ledger.cancelled_query(name)
        return self._read_parts("results", query.uid, query.schema, first, batch)

    def poison(self, stream: str) -> "DataFrame":
        """Return the rows of a stream that were set aside for a missing or absurd event time."""
        if stream not in self.streams:
            raise InputError(f"there is no stream {stream!r}; there are {join_names(self.streams)}")
        return self._read_parts("poison", stream, self.streams[stream].schema)

    def _read_parts(
        self, kind: str, name: str, schema: pa.Schema, first: int = 0, batch: str | None = None
    ) -> "DataFrame":
        places: list[Any] = self._driver.result_parts(kind, name, first)
        found = self._spark.createDataFrame(places, PART_REF_COLUMNS)
        shape = schema if batch is None else schema.append(pa.field(batch, pa.int64()))
        reading = ReadPartsTask(self._driver.store.uri, batch)
        return found.mapInArrow(reading, from_arrow_schema(shape))
