"""A Python process of Spark: runs the batches of any workers and caches their states."""

import time
from collections.abc import Iterable

from evenflow.spark.protocol.envelope import Envelope
from evenflow.spark.protocol.ledger import Entry, Ledger
from evenflow.spark.protocol.measure_options import MeasureOptions
from evenflow.spark.protocol.report import Report
from evenflow.spark.protocol.step_limits import StepLimits
from evenflow.spark.worker.batch_context import BatchContext
from evenflow.spark.worker.crash_blame import AttemptLog
from evenflow.spark.worker.worker_batch import WorkerBatch
from evenflow.spark.worker.worker_state import TaskRuntime, WorkerState


class WorkerProcess:
    """What worker tasks keep in their Python process between batches, for one checkpoint.

    Spark may run a worker's next batch in another process; the ledger decides whether the cached
    state is still the committed one. Others share most segments with the committed ones: the most
    recently used of them are kept, up to the runtime's budget.
    """

    def __init__(self, ledger: Ledger, runtime: TaskRuntime) -> None:
        self.ledger, self.runtime = ledger, runtime
        self.states: dict[int, WorkerState] = {}
        self._warm_uids: set[str] = set()

    def run_batch(
        self,
        worker: int,
        batch: int,
        envelopes: Iterable[Envelope],
        attempt: int = 0,
        start_id: str = "start",
        measure_options: MeasureOptions = MeasureOptions(),  # noqa: B008 - frozen
        step_limits: StepLimits = StepLimits(),  # noqa: B008 - frozen
        *,
        is_first: bool = False,
    ) -> Report:
        """Run one worker's batch; `is_first`: nobody has tried it before."""
        began, entry = time.thread_time(), self.ledger.entry(batch)
        self._evict_outdated_states(entry)
        context = BatchContext(
            ledger=self.ledger,
            runtime=self.runtime,
            worker=worker,
            entry=entry,
            measure_options=measure_options,
            step_limits=step_limits,
            warm_uids=frozenset(self._warm_uids),
        )
        attempt_log = AttemptLog(
            self.ledger.store, worker, batch, attempt, start_id, is_first=is_first
        )
        try:
            report = WorkerBatch(context, self.states, attempt_log).run(list(envelopes))
        finally:
            self.runtime.stop_watchdog()
        report.cpu_seconds = time.thread_time() - began + context.process_cpu_seconds
        hosted = context.registry.by_uid.keys()
        self._warm_uids = (self._warm_uids | report.query_stats.keys()) & hosted
        emulate_cost(report, measure_options.emulated_seconds_per_row)
        return report

    def _evict_outdated_states(self, entry: Entry) -> None:
        """Drop the states of workers that moved to another process long ago."""
        outdated = [  # in the order of their last use
            worker
            for worker, state in self.states.items()
            if state.batch < entry.batch and state.index != entry.state_refs.get(worker)
        ]
        kept_bytes = 0
        for worker in reversed(outdated):
            kept_bytes += self.states[worker].size_bytes
            if kept_bytes > self.runtime.outdated_state_bytes:
                self.states.pop(worker).close()


def emulate_cost(report: Report, seconds_per_row: float) -> None:
    """Sleep as if rows cost more, once for all queries: short sleeps are not exact."""
    if not seconds_per_row:
        return
    rows = sum(stats.work_rows for stats in report.query_stats.values())
    for stats in report.query_stats.values():
        stats.cpu_seconds += seconds_per_row * stats.work_rows
    report.cpu_seconds += seconds_per_row * rows
    time.sleep(seconds_per_row * rows)
