"""Figures of a run, summed batch by batch for the live view and the summary."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from evenflow.model import Decision, Snapshot, round_robin_bytes, total_shipped_bytes

if TYPE_CHECKING:
    from evenflow.model.arrays import Floats
    from evenflow.spark.driver.completed_batch import CompletedBatch
    from evenflow.spark.driver.progress import BatchProgress


WARM_UP_BATCHES = 5  # batches in which processes start and planners compile


@dataclass
class RunStats:
    """Sums of one run, by batch. Lives on the main thread of `evenflow run`.

    loads          of the active workers, attributed to queries by rows, so less noisy
    cpu_seconds    of all workers, as measured
    shipped_bytes  sent to workers; `round_robin_bytes` is the estimate for round robin
    """

    workers: int
    loads: dict[int, "Floats"] = field(default_factory=dict)
    cpu_seconds: dict[int, "Floats"] = field(default_factory=dict)
    shipped_bytes: dict[int, float] = field(default_factory=dict)
    round_robin_bytes: dict[int, float] = field(default_factory=dict)
    transferred_bytes: dict[int, int] = field(default_factory=dict)
    batch_seconds: dict[int, float] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    result_rows: dict[str, int] = field(default_factory=dict)
    poison_rows: dict[str, int] = field(default_factory=dict)
    plan_changes: dict[int, Decision] = field(default_factory=dict)
    verdicts: dict[str, str] = field(default_factory=dict)
    last_decision: Decision | None = None

    def add_batches(
        self, progress: "Mapping[int, BatchProgress]", batches: "Iterable[CompletedBatch]"
    ) -> None:
        """Add the batches that are new."""
        for number, batch_progress in list(progress.items()):
            self.rows[number] = batch_progress.rows
            self.batch_seconds[number] = batch_progress.seconds
        for batch in batches:
            if batch.number not in self.cpu_seconds:
                self._add_reports(batch)

    def _add_reports(self, batch: "CompletedBatch") -> None:
        cpu = np.zeros(self.workers)
        for report in batch.reports:
            cpu[report.worker] = sum(stats.cpu_seconds for stats in report.query_stats.values())
            for uid, (_, rows) in report.results.items():
                name = uid.rpartition("@")[0]  # a uid is NAME@NUMBER
                self.result_rows[name] = self.result_rows.get(name, 0) + rows
            for stream, count in report.set_aside.items():
                rows = count.invalid + count.ahead
                self.poison_rows[stream] = self.poison_rows.get(stream, 0) + rows
        self.cpu_seconds[batch.number] = cpu

    def add_decisions(self, snapshots: Iterable[Snapshot], decisions: Iterable[Decision]) -> None:
        """Add snapshots and decisions of batches of this run; the history may have older ones."""
        for snapshot in snapshots:
            if snapshot.batch in self.cpu_seconds and snapshot.batch not in self.loads:
                self.loads[snapshot.batch] = snapshot.worker_loads()[list(snapshot.plan.active)]
                self.shipped_bytes[snapshot.batch] = total_shipped_bytes(snapshot)
                self.round_robin_bytes[snapshot.batch] = round_robin_bytes(snapshot)
                transferred = sum(transfer.bytes for transfer in snapshot.transfers)
                self.transferred_bytes[snapshot.batch] = transferred
        for decision in decisions:
            if decision.batch in self.cpu_seconds:
                self.last_decision = decision
                batch = f"as of batch {decision.batch}"
                self.verdicts |= {v.code: f"{batch}, {v.message}" for v in decision.verdicts}
                if decision.plan is not None:
                    self.plan_changes[decision.batch] = decision

    def window_loads(self, count: int = 5) -> "Floats":
        """Return the mean CPU seconds of every worker over the last batches with rows."""
        last = [cpu for _, cpu in sorted(self.cpu_seconds.items()) if cpu.any()][-count:]
        return np.mean(last, axis=0) if last else np.zeros(self.workers)

    def rows_per_second(self, count: int = 5) -> float:
        """Return the throughput of the last batches with rows."""
        last = self._batches_with_rows()[-count:]
        seconds = sum(self.batch_seconds[number] for number in last)
        return sum(self.rows[number] for number in last) / seconds if seconds else 0.0

    def _batches_with_rows(self) -> list[int]:
        return [number for number in sorted(self.rows) if self.rows[number]]

    def imbalance(self, first: int = 0, until: int | None = None) -> float | None:
        """Return largest over mean load, summed over batches `first` to `until`."""
        selected = [
            loads
            for number, loads in self.loads.items()
            if number >= first and (until is None or number < until)
        ]
        top = sum(float(loads.max()) for loads in selected)
        mean = sum(float(loads.mean()) for loads in selected)
        return round(top / mean, 4) if mean > 0 else None

    def to_json(self) -> dict[str, Any]:
        """Return all figures; times cover batches with rows, without those of the warm-up."""
        busy = self._batches_with_rows()
        busy = busy[WARM_UP_BATCHES if len(busy) > 2 * WARM_UP_BATCHES else 1 :]
        times = np.array([self.batch_seconds[number] for number in busy])
        # A plan decided after batch b takes effect in b + 2, when the state has moved.
        changed = min(self.plan_changes) + 2 if self.plan_changes else None
        total = sum(float(cpu.sum()) for cpu in self.cpu_seconds.values())
        busiest = sum(float(cpu.max()) for cpu in self.cpu_seconds.values())
        return {
            "batches": len(self.cpu_seconds),
            "rows": sum(self.rows.values()),
            "rows_per_second": round(self.rows_per_second(len(busy))),
            "batch_seconds": _quantiles(times),
            "imbalance": self.imbalance(),
            "imbalance_before": self.imbalance(0, changed),
            "imbalance_after": None if changed is None else self.imbalance(changed),
            "cpu_seconds": round(total, 3),
            "busiest_worker_cpu_seconds": round(busiest, 3),
            "plans": len(self.plan_changes),
            "moves": sum(len(decision.moves) for decision in self.plan_changes.values()),
            "handed_bytes": sum(self.transferred_bytes.values()),
            "shipped_bytes": round(sum(self.shipped_bytes.values())),
            "round_robin_bytes": round(sum(self.round_robin_bytes.values())),
            "poison": dict(sorted(self.poison_rows.items())),
            "verdicts": dict(self.verdicts),
        }


def _quantiles(times: "Floats") -> dict[str, float] | None:
    if not len(times):
        return None
    return {f"p{q}": round(float(np.percentile(times, q)), 3) for q in (50, 95)}
