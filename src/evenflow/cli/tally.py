"""The figures of a run, added up batch by batch: what the live view and the summary show."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from evenflow.model import imbalance

if TYPE_CHECKING:
    from evenflow.model.arrays import Floats
    from evenflow.spark.batch import Batch
    from evenflow.spark.progress import Progress


@dataclass
class Tally:
    """Adds up each batch once, however often it is shown."""

    workers: int
    loads: dict[int, "Floats"] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    results: dict[str, int] = field(default_factory=dict)
    shipped: dict[str, int] = field(default_factory=dict)
    poison: dict[str, int] = field(default_factory=dict)

    def add(self, batches: "Iterable[Batch]", progress: "Mapping[int, Progress]") -> None:
        """Take in what is new."""
        for number, seen in list(progress.items()):
            self.rows[number], self.seconds[number] = seen.rows, seen.seconds
        for batch in batches:
            if batch.number not in self.loads:
                self._add(batch)

    def _add(self, batch: "Batch") -> None:
        loads = np.zeros(self.workers)
        for report in batch.reports:
            loads[report.slot] = sum(stats.cpu_seconds for stats in report.queries.values())
            for uid, (_, rows) in report.results.items():
                name = uid.rpartition("@")[0]
                self.results[name] = self.results.get(name, 0) + rows
            for stream, size in report.shipped.items():
                self.shipped[stream] = self.shipped.get(stream, 0) + size
            for stream, (_, rows) in report.poison.items():
                self.poison[stream] = self.poison.get(stream, 0) + rows
        self.loads[batch.number] = loads

    def recent(self, count: int = 5) -> "Floats":
        """Return the mean load of every worker over the last batches with rows."""
        last = [loads for _, loads in sorted(self.loads.items()) if loads.any()][-count:]
        return np.mean(last, axis=0) if last else np.zeros(self.workers)

    def rows_per_second(self, count: int = 5) -> float:
        """Return rows over time of the last batches with rows."""
        last = [number for number in sorted(self.rows) if self.rows[number]][-count:]
        seconds = sum(self.seconds[number] for number in last)
        return sum(self.rows[number] for number in last) / seconds if seconds else 0.0

    def figures(self) -> dict[str, Any]:
        """Return the sums; times are of batches with rows, the first left out as it starts up."""
        busy = [number for number in sorted(self.rows) if self.rows[number]][1:]
        times = np.array([self.seconds[number] for number in busy])
        return {
            "batches": len(self.loads),
            "rows": sum(self.rows.values()),
            "rows_per_second": round(self.rows_per_second(len(busy))),
            "batch_seconds": _quantiles(times),
            "imbalance": self.imbalance(),
            "busiest_worker_cpu_seconds": round(
                sum(float(x.max()) for x in self.loads.values()), 3
            ),
            "cpu_seconds": round(sum(float(x.sum()) for x in self.loads.values()), 3),
            "shipped_bytes": sum(self.shipped.values()),
            "poison": dict(sorted(self.poison.items())),
        }

    def imbalance(self, first: int = 0, until: int | None = None) -> float:
        """Return largest over mean load, over some batches: busy ones count more."""
        wanted = [
            loads
            for number, loads in self.loads.items()
            if number >= first and (until is None or number < until)
        ]
        top = sum(float(loads.max()) for loads in wanted)
        mean = sum(float(loads.mean()) for loads in wanted)
        return round(top / mean, 4) if mean > 0 else imbalance(np.zeros(self.workers))


def _quantiles(times: "Floats") -> dict[str, float] | None:
    if not len(times):
        return None
    return {f"p{q}": round(float(np.percentile(times, q)), 3) for q in (50, 95)}
