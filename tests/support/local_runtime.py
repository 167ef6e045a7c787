"""The runtime without Spark: the same router, workers and driver, called one after the other.

Python processes come and go as Spark's do: a worker's batch runs in any of several, attempts are
thrown away and repeated, all processes may be replaced between batches.
"""

import random
from collections import Counter
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from evenflow.model import Plan
from evenflow.model.retention import Retention
from evenflow.planning.controller import Balancing
from evenflow.spark.driver import combine_choice
from evenflow.spark.driver.balancer import Balancer
from evenflow.spark.driver.checkpoint import CheckpointLock
from evenflow.spark.driver.committer import Committer
from evenflow.spark.driver.limiter import Limiter
from evenflow.spark.driver.submission import Submission, subscription_rows
from evenflow.spark.protocol.envelope import Envelope
from evenflow.spark.protocol.ledger import Ledger
from evenflow.spark.protocol.registry import Registry, StreamSpec, TableSpec
from evenflow.spark.protocol.report import Report
from evenflow.spark.protocol.results_index import ResultsIndex, name_batches
from evenflow.spark.worker.combiner import Combiner
from evenflow.spark.worker.router import route_source
from evenflow.spark.worker.sql_runtime import SqlRuntime
from evenflow.spark.worker.worker_process import WorkerProcess
from evenflow.storage.file_store import FileStore

_RUNTIME: list[SqlRuntime] = []


def runtime() -> SqlRuntime:
    """One DuckDB for all tests: opening one takes longer than a batch."""
    if not _RUNTIME:
        _RUNTIME.append(SqlRuntime())
    return _RUNTIME[0]


def combine_always(patch: pytest.MonkeyPatch) -> None:
    """Let combining pay however few rows there are."""
    for name in ("MIN_ROWS", "MIN_ROWS_PER_GROUP", "MIN_ROWS_PER_PARTIAL"):
        patch.setattr(combine_choice, name, 1)


class Local:
    """A flow in this process."""

    def __init__(
        self,
        place: Path | str | FileStore,
        streams: Mapping[str, StreamSpec],
        submissions: list[Submission],
        *,
        workers: int = 3,
        tables: Mapping[str, TableSpec] | None = None,
        subscribed: Mapping[str, list[dict[str, Any]]] | None = None,
        chance: random.Random | None = None,
        max_ahead_us: int | None = None,
        keep: Retention | None = None,
        limiter: Limiter | None = None,
    ) -> None:
        self.clock_us, self.max_ahead_us = 1_700_000_000_000_000, max_ahead_us
        self.keep = keep
        self.store = place if isinstance(place, FileStore) else FileStore(str(place))
        self.workers = workers
        self.chance = chance
        registry, plan = Registry(0, dict(streams), dict(tables or {})), Plan(workers)
        for submission in submissions:
            registry, plan = submission.apply(registry, plan)
        self.committer = Committer(
            self.store, workers, Balancer(Balancing.off()), keep, limiter=limiter
        )
        subscriptions = [
            (name, subscription_rows(registry.queries[name], rows))
            for name, rows in (subscribed or {}).items()
        ]
        assert self.committer.open(registry, plan, subscriptions)
        self._combine(False)
        self.processes: list[WorkerProcess] = []
        self.first_batch = 0  # an earlier start may have tried it
        self.forget()

    def combine_rows(self) -> None:
        """Let the router combine rows from the next batch on, where that pays."""
        self._combine(True)

    def _combine(self, combine: bool) -> None:
        balancer = self.committer.balancer
        balancer.config = replace(balancer.config, combine=combine)

    def attend(self, balancer: Balancer) -> None:
        """Let another balancer observe and decide from the next batch on."""
        self.committer.balancer = balancer
        self.committer.commands.place_arrivals = balancer.place_arrivals

    def forget(self) -> None:
        """Start new Python processes."""
        for query in runtime()._programs.copy():
            runtime()._programs.pop(query)
        for query in runtime()._isolated.copy():
            runtime()._isolated.pop(query).close()
        epoch = self.committer.checkpoint.head().epoch
        self.processes = [WorkerProcess(Ledger(self.store, epoch), runtime()) for _ in range(2)]

    def reopen(self) -> None:
        """Be killed and started again."""
        self.committer.checkpoint.close()
        registry, plan = self.committer.commands.next_registry_and_plan()
        balancer, limiter = Balancer(Balancing.off()), self.committer.limiter
        self.committer = Committer(self.store, self.workers, balancer, self.keep, limiter=limiter)
        assert not self.committer.open(registry, plan)
        self.first_batch = self.committer.checkpoint.head().batch
        self.forget()

    def another(self) -> "Local":
        """Start a second driver, with processes of its own, as the first one does not know."""
        second = copy(self)
        second.first_batch = self.committer.checkpoint.head().batch
        registry, plan = self.committer.commands.next_registry_and_plan()
        second.committer = Committer(self.store, self.workers, Balancer(Balancing.off()))
        assert not second.committer.open(registry, plan)
        second.forget()
        return second

    def batch(self, rows: Mapping[str, pa.Table] | None = None) -> list[Report]:
        """Run a batch over new rows of the sources."""
        number = self.committer.checkpoint.head().batch
        # Spark notes where a batch ends before it runs it.
        offsets = self.committer.checkpoint.spark_folder.root / "spark/offsets"
        offsets.mkdir(parents=True, exist_ok=True)
        clock = f'v1\n{{"batchTimestampMs":{self.clock_us // 1000}}}'
        (offsets / str(number)).write_text(clock)
        reports: list[Report] = []

        def collect() -> list[Report]:
            reports.extend(self.work(number, rows or {}))
            return reports

        self.committer.commit(number, collect)
        if self.committer.maintenance._thread is None:
            self.committer.maintenance.work(self.committer.checkpoint.head())
        if self.chance is not None and self.chance.random() < 0.2:
            self.forget()
        return reports

    def work(self, number: int, rows: Mapping[str, pa.Table], attempt: int = 0) -> list[Report]:
        envelopes: dict[int, list[Envelope]] = {}
        ledger = self.committer.checkpoint.ledger
        entry = ledger.entry(number)
        for stream, table in sorted(rows.items()):
            combiner = None
            if entry.combined and attempt == 0:
                combiner = Combiner(runtime(), ledger, entry, stream)
            chunks = table.to_batches()
            for batch in route_source(ledger, stream, chunks, number, combiner, self.max_ahead_us):
                for row in batch.to_pylist():
                    envelope = Envelope(row["kind"], row["name"], row["blob"])
                    envelopes.setdefault(row["worker"], []).append(envelope)
        reports = []
        for worker in range(self.workers):
            mine = envelopes.get(worker, [])
            if self.chance is not None and self.chance.random() < 0.3:
                self.process().run_batch(worker, number, mine)  # an attempt that does not count
            is_first = attempt == 0 and self.chance is None and number > self.first_batch
            report = self.process().run_batch(worker, number, mine, attempt, is_first=is_first)
            reports.append(Report.decode(*report.encode()))
        return reports

    def process(self) -> WorkerProcess:
        chosen = self.processes[0] if self.chance is None else self.chance.choice(self.processes)
        chosen.ledger.epoch = self.committer.checkpoint.head().epoch
        return chosen

    def rest(self) -> int:
        """Run batches without rows until nothing is due."""
        count = 0
        while self.committer.has_pending_work():
            self.batch()
            count += 1
            assert count < 50, "the flow does not come to rest"
        return count

    def subscribe(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Have subscriptions of a template begin with the next batch."""
        query = self.committer.commands.next_registry().queries[name]
        self.committer.commands.subscribe(name, subscription_rows(query, rows), subscribe=True)

    def results(self, name: str) -> Counter[Any]:
        query = self.committer.checkpoint.registry().queries[name]
        return Counter(
            tuple(row.values())
            for table in self.tables("results", query.uid)
            for row in table.cast(query.schema).to_pylist()
        )

    def tables(self, kind: str, name: str, **span: int) -> list[pa.Table]:
        """Read the results of a query by its uid, or poison rows, as Spark's tasks do."""
        index = ResultsIndex(Ledger(self.store))
        units = index.units(kind, name, span.get("first"), span.get("until"))
        found = [index.read(kind, name, unit) for unit in units]
        return [name_batches(rows, None) for rows in found]


def unlock_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let several drivers open a local checkpoint: the lock sees only those on one machine."""
    monkeypatch.setattr(CheckpointLock, "__init__", lambda *_: None)
    monkeypatch.setattr(CheckpointLock, "release", lambda *_: None)
    monkeypatch.setattr(FileStore, "delete_temporary", lambda _: None)  # only with the lock
