"""What can be changed in a run: commands that the next commit applies."""

import time
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.model.results_page import ResultPosition, ResultsPage
from evenflow.model.time import MAX_EVENT_TIME_US, MIN_EVENT_TIME_US
from evenflow.names import join_names
from evenflow.planning.controller import Balancing
from evenflow.spark import query_api
from evenflow.spark.driver.committer import Committer
from evenflow.spark.driver.pending_state import (
    AnswerProposal,
    CancelQuery,
    DrainWorker,
    PinQuery,
    ResetWatermark,
    ResumeQuery,
)
from evenflow.spark.driver.replacement import ReplaceQuery
from evenflow.spark.driver.submission import KeyArgument, Submission, key_spec
from evenflow.spark.driver.write_backfill import BackfillRows, Backfills
from evenflow.spark.protocol.registry import Hosted
from evenflow.spark.run_view import RunView

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class RunCommands(RunView, query_api.QueryMethods):
    """The part of a run that takes commands; any thread of the driver process may call it."""

    def __init__(self, spark: "SparkSession", committer: Committer) -> None:
        super().__init__(spark, committer)
        self._commands = committer.commands

    def results_page(
        self, name: str, since: ResultPosition | None = None, limit: int = 100
    ) -> ResultsPage:
        """Return up to `limit` results from a position on; without one, the newest."""
        try:
            return super().results_page(name, since, limit)
        except InputError:
            coming = self._commands.next_registry().queries.get(name)
            if coming is None:
                raise
            if name in self.queries:
                return super().results_page(name, since, limit)
            here = ResultPosition(self.committed)  # submitted, and hosted from the next commit on
            return ResultsPage(coming.schema.empty_table(), here, here, self.committed)

    def unsubscribe(self, name: str, names: Iterable[str]) -> None:
        """Remove subscriptions of a template; unknown names are ignored."""
        query_api.find_template(self, name)
        rows = pa.table({"subscription": pa.array(list(names), pa.string())})
        self._commands.subscribe(name, rows, subscribe=False)

    def replace(self, name: str, sql: str, *, key: KeyArgument | None = None) -> Hosted:
        """Give a query or template another definition; no result is lost or given twice.

        If both definitions keep the same state, the new one goes on with it from the next batch:
        other columns or conditions of the result, for example. Otherwise it runs beside the old
        one, as `NAME__next`, until it has seen all rows that can still count, and then takes its
        place between two batches. `key` is as before by default, like all that is declared.
        """
        old = self._commands.next_registry().query(name)
        key_columns = old.key if key is None else key_spec(key)
        submission = Submission(
            old.form, name, sql, key_columns, old.publish, old.pin, tenant=old.tenant
        )
        return self._host(ReplaceQuery(submission), name)

    def _submit(self, submission: Submission, backfill: BackfillRows | None = None) -> Hosted:
        self._commands.check_queries(submission, self._committer.limiter.tenants)
        if backfill is not None:
            registry = self._commands.preview(submission, self._commands.compile(submission))
            backfills = Backfills(self._checkpoint.store)
            backfills.declare(registry.queries[submission.name], backfill, registry)
            submission = backfills.store(submission, registry)
        return self._host(submission, submission.name)

    @abstractmethod
    def _host(self, command: Submission | ReplaceQuery, name: str) -> Hosted:
        """Compile a query, have the sources deliver its columns, submit it."""

    def cancel(self, name: str) -> None:
        """Stop hosting a query; its results so far stay readable, its state is dropped."""
        self._commands.submit(CancelQuery(name))

    def resume(self, name: str) -> None:
        """Run a quarantined query again from its state before it failed.

        It does not get the rows of the failed batch and of the time in quarantine: they are not
        kept, and `missing_since` names the batch. To get them, cancel it and submit it again with
        a backfill.
        """
        self._commands.submit(ResumeQuery(name))

    def reset_watermark(self, source: str, to: datetime | None = None) -> None:
        """Set the watermark of a source back, after rows with a wrong time have raised it.

        Default is now, minus the delay of the source. Rows after it count again; a window that was
        complete too early gives another result for them.
        """
        if to is None:
            spec = self.streams.get(source)
            to_us = int(time.time() * 1e6) - (spec.delay_us if spec else 0)
        else:
            aware = to if to.tzinfo else to.replace(tzinfo=UTC)
            to_us = int(aware.timestamp() * 1e6)
        if not MIN_EVENT_TIME_US <= to_us < MAX_EVENT_TIME_US:
            raise InputError(f"a watermark is between the years 1900 and 2200, got {to}")
        self._commands.submit(ResetWatermark(source, to_us))

    def pin(self, name: str, worker: int | None = None) -> None:
        """Keep a whole query on a worker, by default the one it runs on."""
        plan = self._commands.next_registry_and_plan()[1]
        if name not in plan.placement:
            raise InputError(
                f"{name!r} is not a whole query, so it cannot be pinned; "
                f"whole queries are {join_names(plan.placement)}"
            )
        pin = plan.placement[name] if worker is None else worker
        if pin not in plan.active:
            raise InputError(f"{name!r} cannot be pinned to worker {pin}; active are {plan.active}")
        self._commands.submit(PinQuery(name, pin))

    def unpin(self, name: str) -> None:
        """Let a pinned query be moved again."""
        self._commands.submit(PinQuery(name, None))

    def drain(self, worker: int) -> None:
        """Empty a worker: after two commits it has no query, no key and no state."""
        self._commands.submit(DrainWorker(worker, drain=True))

    def activate(self, worker: int) -> None:
        """Use a drained worker again."""
        self._commands.submit(DrainWorker(worker, drain=False))

    def approve(self, number: int) -> None:
        """Follow the plan that waits as a proposal, from the next commit or window on."""
        self._commands.submit(AnswerProposal(number, approve=True))

    def reject(self, number: int) -> None:
        """Leave everything where it is; the like is proposed again when the load has changed."""
        self._commands.submit(AnswerProposal(number, approve=False))

    def rollback(self) -> None:
        """Go back to the plan before the last moves, as far as it still fits what is hosted."""
        self._commands.request_rollback()

    def apply(self, plan: Plan) -> None:
        """Follow a plan; what it leaves out stays as it is, drained workers included."""
        drained = self._commands.next_registry_and_plan()[1].drained
        self._commands.request_plan(replace(plan, drained=drained))

    @property
    def balancing(self) -> Balancing:
        """The balancing settings; assign others to use them from the next commit on."""
        return self._balancer.config

    @balancing.setter
    def balancing(self, config: Balancing) -> None:
        self._balancer.config = config
