"""Figures of a run, summed batch by batch for the live view and the summary."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from evenflow.model import Decision, Snapshot, round_robin_bytes, total_shipped_bytes
from evenflow.model.codes import Reason

if TYPE_CHECKING:
    from evenflow.model.arrays import Floats
    from evenflow.model.progress import BatchProgress
    from evenflow.spark.driver.completed_batch import CompletedBatch

Value = TypeVar("Value")

WARM_UP_BATCHES = 5  # batches in which processes start and planners compile
KEPT_BATCHES = 1000  # whose own figures are kept: those of all batches would grow without end
KEPT_CHANGES = 50


@dataclass
class RunStats:
    """Sums of one run, and figures of its last batches. Main thread of `evenflow run`.

    cpu_seconds, batch_seconds, rows    by batch, of the last ones; CPU time of all workers
    plan_changes   the last decisions that changed the plan, by batch
    sums           of all batches; shipped bytes with the estimate for round robin
    loads          largest and mean load of the active workers, each summed over the batches before
                   the first plan change took effect, and after; attributed to queries by rows, so
                   less noisy
    """

    workers: int
    cpu_seconds: dict[int, "Floats"] = field(default_factory=dict)
    batch_seconds: dict[int, float] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    plan_changes: dict[int, Decision] = field(default_factory=dict)
    result_rows: Counter[str] = field(default_factory=Counter)
    poison_rows: Counter[str] = field(default_factory=Counter)
    verdicts: dict[str, str] = field(default_factory=dict)
    last_decision: Decision | None = None
    drained: frozenset[int] = frozenset()
    sums: "Counter[str]" = field(default_factory=Counter)
    loads: dict[str, "Floats"] = field(
        default_factory=lambda: {"before": np.zeros(2), "after": np.zeros(2)}
    )
    _changed_from: int | None = None  # the batch in which the first plan change took effect
    _last: Counter[str] = field(default_factory=lambda: Counter(rows=-1, cpu=-1, load=-1, plan=-1))

    def active_workers(self) -> tuple[int, ...]:
        """Return the workers that are not drained."""
        return tuple(worker for worker in range(self.workers) if worker not in self.drained)

    def add_batches(
        self, progress: "Mapping[int, BatchProgress]", batches: "Iterable[CompletedBatch]"
    ) -> None:
        """Add the batches that are new."""
        for number, batch_progress in sorted(dict(progress).items()):
            if self._is_new("rows", number):
                self._add(rows=batch_progress.rows)
                _keep(self.rows, number, batch_progress.rows, KEPT_BATCHES)
                _keep(self.batch_seconds, number, batch_progress.seconds, KEPT_BATCHES)
        for batch in batches:
            if self._is_new("cpu", batch.number):
                self._add_reports(batch)

    def _add(self, **more: Any) -> None:
        self.sums.update(more)

    def _is_new(self, kind: str, number: int) -> bool:
        """Tell whether something of a batch has not been added; batches come in order."""
        is_new = number > self._last[kind]
        self._last[kind] = max(number, self._last[kind])
        return is_new

    def _add_reports(self, batch: "CompletedBatch") -> None:
        cpu = np.zeros(self.workers)
        for report in batch.reports:
            cpu[report.worker] = sum(stats.cpu_seconds for stats in report.query_stats.values())
            for uid, (_, rows) in report.results.items():
                self.result_rows[uid.rpartition("@")[0]] += rows  # a uid is NAME@NUMBER
            for stream, count in report.set_aside.items():
                self.poison_rows[stream] += count.invalid + count.ahead
        _keep(self.cpu_seconds, batch.number, cpu, KEPT_BATCHES)
        self._add(batches=1, cpu=float(cpu.sum()), busiest=float(cpu.max()))

    def add_decisions(self, snapshots: Iterable[Snapshot], decisions: Iterable[Decision]) -> None:
        """Add snapshots and decisions of batches of this run; the history may have older ones."""
        for decision in decisions:
            if decision.batch in self.cpu_seconds and self._is_new("plan", decision.batch):
                self.last_decision = decision
                batch = f"as of batch {decision.batch}"
                self.verdicts |= {v.code: f"{batch}, {v.message}" for v in decision.verdicts}
                if decision.plan is not None:
                    _keep(self.plan_changes, decision.batch, decision, KEPT_CHANGES)
                    self._add(plans=1, moves=len(decision.moves))
                    if self._changed_from is None:  # the state moves in the batch between
                        self._changed_from = decision.batch + 2
        for snapshot in snapshots:
            if snapshot.batch in self.cpu_seconds and self._is_new("load", snapshot.batch):
                self._add_load(snapshot)

    def _add_load(self, snapshot: Snapshot) -> None:
        loads = snapshot.worker_loads()[list(snapshot.plan.active)]
        is_after = self._changed_from is not None and snapshot.batch >= self._changed_from
        self.loads["after" if is_after else "before"] += (loads.max(), loads.mean())
        self.drained = snapshot.plan.drained
        self._add(
            shipped=total_shipped_bytes(snapshot),
            round_robin=round_robin_bytes(snapshot),
            transferred=sum(transfer.bytes for transfer in snapshot.transfers),
        )

    def changes_after(self, count: int) -> list[Decision]:
        """Return the plan changes after the first `count`, as far as they are kept."""
        new = self.sums["plans"] - count
        return list(self.plan_changes.values())[-new:] if new > 0 else []

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

    def imbalance(self, *parts: str) -> float | None:
        """Return largest over mean load, summed over the batches of `before`, `after` or both."""
        top, mean = np.sum([self.loads[part] for part in parts], axis=0)
        return round(float(top / mean), 4) if mean > 0 else None

    def to_json(self) -> dict[str, Any]:
        """Return all figures.

        Times and rows per second cover batches with rows, at most the last 1,000, and without those
        of the warm-up.
        """
        busy = self._batches_with_rows()
        if len(self.rows) < KEPT_BATCHES:
            busy = busy[WARM_UP_BATCHES if len(busy) > 2 * WARM_UP_BATCHES else 1 :]
        times = np.array([self.batch_seconds[number] for number in busy])
        changed, sums = self._changed_from is not None, self.sums
        return {
            "batches": sums["batches"],
            "rows": sums["rows"],
            "rows_per_second": round(self.rows_per_second(len(busy))),
            "batch_seconds": _quantiles(times),
            "imbalance": self.imbalance("before", "after"),
            "imbalance_before": self.imbalance("before"),
            "imbalance_after": self.imbalance("after") if changed else None,
            "cpu_seconds": round(sums["cpu"], 3),
            "busiest_worker_cpu_seconds": round(sums["busiest"], 3),
            "plans": sums["plans"],
            "moves": sums["moves"],
            "handed_bytes": sums["transferred"],
            "shipped_bytes": round(sums["shipped"]),
            "round_robin_bytes": round(sums["round_robin"]),
            "poison": dict(sorted(self.poison_rows.items())),
            "verdicts": {} if self._is_idle() else dict(self.verdicts),
            "last_reason": None if self.last_decision is None else self.last_decision.reason,
        }

    def _is_idle(self) -> bool:
        """Return whether balance does not matter: what cannot be reached is then no news."""
        idle = (Reason.NOT_WORTH_IT, Reason.NO_LOAD)
        return self.last_decision is not None and self.last_decision.reason in idle


def _keep(values: dict[int, Value], number: int, value: Value, most: int) -> None:
    values[number] = value
    while len(values) > most:
        del values[next(iter(values))]


def _quantiles(times: "Floats") -> dict[str, float] | None:
    if not len(times):
        return None
    return {f"p{q}": round(float(np.percentile(times, q)), 3) for q in (50, 95)}
