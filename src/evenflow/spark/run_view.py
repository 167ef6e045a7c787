"""What can be read of a run: queries, plans, statistics, decisions, results."""

import warnings
from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from evenflow.errors import InputError
from evenflow.model import Decision, HotKey, Outcome, Plan, Proposal, Snapshot, hot_keys
from evenflow.model.alert import Alert
from evenflow.model.results_page import ResultPosition, ResultsPage
from evenflow.model.scaling_advice import ScalingAdvice
from evenflow.model.tenants import TenantUse
from evenflow.names import join_names
from evenflow.planning.controller import advise
from evenflow.spark.driver.bad_files import BadFile, BadFileList
from evenflow.spark.driver.committer import Committer
from evenflow.spark.driver.completed_batch import CompletedBatch
from evenflow.spark.driver.sink_target import UpsertKeys
from evenflow.spark.driver.tenant_use import tenant_uses
from evenflow.spark.protocol.registry import Hosted, StreamSpec
from evenflow.spark.protocol.stored_results import StoredResults
from evenflow.spark.result_frame import ResultFrame
from evenflow.spark.worker.spark_tasks import READ_UNIT_COLUMNS, ReadResultsTask
from evenflow.storage import records
from evenflow.storage.file_store import FileStore
from evenflow.storage.history import has_history, read_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_LOADS_READ = 400_000


class RunView:
    """The readable part of a run: committed state and what the balancer remembers."""

    def __init__(self, spark: "SparkSession", committer: Committer) -> None:
        self._spark, self._committer = spark, committer
        self._checkpoint, self._balancer = committer.checkpoint, committer.balancer
        self._stored_results = StoredResults(committer.checkpoint.store)

    @property
    def queries(self) -> Mapping[str, Hosted]:
        """The queries hosted in the next batch."""
        return self._checkpoint.registry().queries

    @property
    def streams(self) -> Mapping[str, StreamSpec]:
        """The sources, and the streams that queries publish."""
        return self._checkpoint.registry().streams

    @property
    def plan(self) -> Plan:
        """The plan of the next batch."""
        return self._checkpoint.ledger.plan(self._checkpoint.head().plan_number)

    @property
    def batches(self) -> tuple[CompletedBatch, ...]:
        """The last completed batches of this run."""
        return tuple(self._committer.completed_batches)

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """Observations of the last batches; older ones are in the checkpoint's history."""
        return tuple(self._balancer.snapshots)

    def past_snapshots(self) -> list[Snapshot]:
        """Return observations of batches before `snapshots`, from the checkpoint's history.

        With many queries fewer of them: what is read has at most 400,000 loads of queries.
        """
        first = self.snapshots[0].batch if self.snapshots else 0
        last = self.committed - first + MAX_LOADS_READ // max(len(self.queries), 1)
        if not first or not has_history(self._checkpoint.store):
            return []
        recorded = read_history(self._checkpoint.store, last).snapshots
        return [snapshot for snapshot in recorded if snapshot.batch < first]

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The decisions after the last batches, with their reasons."""
        return tuple(self._balancer.decisions)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The measured outcomes of decisions that moved something."""
        return tuple(self._balancer.outcomes)

    def proposals(self) -> list[Proposal]:
        """Return the plan that waits for approval, then those that were adopted or expired.

        The newest is first. Of an earlier start only the one that waits is known.
        """
        ref, ended = self._checkpoint.head().proposal, list(self._balancer.ended_proposals)
        standing = [] if ref is None else [self._checkpoint.ledger.proposal(ref)]
        return standing + ended[::-1]

    def alerts(self) -> tuple[Alert, ...]:
        """Return the alerts that fire, then those that were resolved since the start."""
        return self._committer.alerts.alerts

    def scaling_advice(self) -> ScalingAdvice | None:
        """Return how many workers the load needs, and why; None before a few batches."""
        return advise(self.snapshots, self.decisions, self._balancer.config)

    def hot_keys(self, name: str, count: int = 20) -> list[HotKey]:
        """Return the heaviest keys of a keyed query, each with its share and its worker."""
        return hot_keys(self.snapshots, name, count)

    @property
    def has_pending_work(self) -> bool:
        """Whether there is something to do even if no more rows arrive."""
        return self._committer.has_pending_work()

    @property
    def refused(self) -> tuple[str, ...]:
        """Why plans and commands were not followed: they no longer fitted what is hosted."""
        return tuple(self._committer.commands.refused)

    @property
    def quarantined(self) -> Mapping[str, str]:
        """Queries that failed, with the reason; resume or cancel them."""
        failed = self._checkpoint.head().quarantined
        return {q.name: failed[q.uid] for q in self.queries.values() if q.uid in failed}

    @property
    def missing_since(self) -> Mapping[str, int]:
        """The first batch whose rows a quarantined query does not get when it resumes."""
        head = self._checkpoint.head()
        kept = {q.name: head.kept_states.get(q.uid) for q in self.queries.values()
                if q.uid in head.quarantined}  # fmt: skip
        return {n: s.batch for n, s in kept.items() if s is not None and s.batch is not None}

    @property
    def tenants(self) -> tuple[TenantUse, ...]:
        """What the queries of each tenant use, beside its limits."""
        limiter, batches, snapshots = self._committer.limiter, self.batches, self.snapshots
        last = batches[-1] if batches else None
        return tenant_uses(
            limiter.tenants,
            self._checkpoint.registry(),
            self._checkpoint.head(),
            last,
            snapshots[-1] if snapshots else None,
            0.0 if last is None else limiter.capacity_seconds(last),
        )

    @property
    def late(self) -> Mapping[str, int]:
        """Rows of each query that were behind its watermark and dropped."""
        late = self._checkpoint.head().late
        return {q.name: late[q.uid] for q in self.queries.values() if q.uid in late}

    @property
    def set_aside(self) -> Mapping[str, int]:
        """Rows of each source set aside so far for their event time; see `poison`."""
        return self._checkpoint.head().poison

    @property
    def ahead(self) -> Mapping[str, int]:
        """Rows of each source set aside so far because they were ahead of the clock."""
        return self._checkpoint.head().ahead

    @property
    def bad_files(self) -> tuple[BadFile, ...]:
        """Files of sources that could not be read and were left out (`on_bad_file: skip`)."""
        return tuple(BadFileList(self._checkpoint.store).all())

    @property
    def watermarks(self) -> Mapping[str, int]:
        """Watermark of each stream in microseconds."""
        return self._checkpoint.head().watermarks

    @property
    def committed(self) -> int:
        """How many batches of the checkpoint are committed: the number of the next one."""
        return self._checkpoint.head().batch

    @property
    def epoch(self) -> int:
        """How many drivers opened the checkpoint before this one."""
        return self._checkpoint.ledger.epoch

    def check_fence(self) -> None:
        """Raise a FencedError if another driver has taken the checkpoint over."""
        self._checkpoint.ledger.check_fence()

    @property
    def checkpoint(self) -> FileStore:
        """The files of this flow."""
        return self._checkpoint.store

    @property
    def checkpoint_uri(self) -> str:
        """Where these files are."""
        return self._checkpoint.store.uri

    @property
    def first_kept(self) -> int:
        """The first batch whose results are kept: 0, unless `keep_results` removed earlier ones."""
        return self._checkpoint.results_index.first_kept()

    def results(
        self,
        name: str,
        *,
        since: int | None = None,
        until: int | None = None,
        limit: int | None = None,
        batch: str | None = None,
    ) -> ResultFrame:
        """Return the committed results of a query, each batch once.

        `since` leaves earlier batches out, `until` that batch and later ones; `limit` returns only
        the newest rows. `batch` names an extra column with the batch number. Batches that were
        removed (`keep_results`) raise an error if `since` asks for them, and a warning if it is not
        given. The result is a DataFrame; its `to_pandas()` and `to_arrow()` need no Spark job.
        """
        stored = self._stored_results
        query = stored.versions(name)[-1]
        end = self.committed if until is None else until
        first = self._first_kept_or_warn() if since is None else since

        def read() -> pa.Table:
            return stored.table(name, first, end, limit, batch)

        if limit is None:
            frames = [
                self._frame("results", uid, query.schema, first, end, batch)
                for uid in (*query.continues, query.uid)
            ]
            frame = reduce(DataFrame.union, frames)
        else:
            rows = read()
            frame = self._spark.createDataFrame(rows, from_arrow_schema(rows.schema))
        return ResultFrame(frame, read)

    def _first_kept_or_warn(self) -> int:
        first_kept = self.first_kept
        if first_kept:
            warnings.warn(
                f"results of batches before {first_kept} were removed (keep_results); "
                "these are the others",
                stacklevel=3,
            )
        return first_kept

    def results_page(
        self, name: str, since: ResultPosition | None = None, limit: int = 100
    ) -> ResultsPage:
        """Return up to `limit` results from a position on; without one, the newest."""
        return self._stored_results.page(name, since, limit)

    @property
    def result_names(self) -> tuple[str, ...]:
        """The queries that have results: hosted ones and cancelled ones."""
        return tuple(self._stored_results.names())

    def result_frames(self, name: str, since: int, until: int, batch: str) -> dict[str, DataFrame]:
        """Return the results of some batches, by the `uid` of each query that had this name."""
        units = self._checkpoint.results_index.units
        return {
            uid: self._frame("results", uid, query.schema, since, until, batch)
            for query in self._stored_results.versions(name)
            for uid in (*query.continues, query.uid)
            if next(units("results", uid, since, until), None) is not None
        }

    def upsert_keys(self, name: str) -> UpsertKeys:
        """Return the columns that identify a result, by the `uid` of each query of this name."""
        return {
            uid: query.upsert_key
            for query in self._stored_results.versions(name)
            for uid in (*query.continues, query.uid)
        }

    @property
    def checkpoint_identity(self) -> str:
        """What tells checkpoints apart that were created at the same place."""
        return self._checkpoint.identity

    def poison(self, stream: str) -> DataFrame:
        """Return rows of a stream that were set aside for their event time.

        It is missing, invalid or too far ahead. What is stored is bounded: `set_aside` has the
        number of all of them.
        """
        if stream not in self.streams:
            known = join_names(self.streams)
            raise InputError(f"there is no stream {stream!r}; there are {known}")
        first = self._first_kept_or_warn()
        return self._frame("poison", stream, self.streams[stream].schema, first)

    def _frame(
        self,
        kind: str,
        name: str,
        schema: pa.Schema,
        first: int,
        until: int | None = None,
        batch: str | None = None,
    ) -> "DataFrame":
        index = self._checkpoint.results_index
        units = index.read_units(kind, name, first, until)
        rows = [(bytearray(records.encode(unit)),) for unit in units]
        frame = self._spark.createDataFrame(rows, READ_UNIT_COLUMNS)
        task = ReadResultsTask(index.store.uri, index.store.options, kind, name, schema, batch)
        schema = schema if batch is None else schema.append(pa.field(batch, pa.int64()))
        return frame.mapInArrow(task, from_arrow_schema(schema))
