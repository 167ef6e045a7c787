"""What alert rules look at in a batch. Pure functions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evenflow.model import Decision, Snapshot, imbalance
from evenflow.model.alert import AlertKind
from evenflow.spark.protocol.entry import Entry
from evenflow.spark.protocol.registry import Registry


@dataclass(frozen=True, slots=True)
class Measure:
    """A value of one kind and subject in a batch, and what to say if it is too high."""

    kind: AlertKind
    subject: str
    value: float
    message: str


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """A committed batch: what was observed and decided, and the entries before and after it."""

    snapshot: Snapshot
    decision: Decision
    before: Entry
    after: Entry
    registry: Registry
    min_excess: float

    @property
    def silent_kinds(self) -> frozenset[AlertKind]:
        """The kinds whose end cannot be told from a batch without work."""
        idle = {AlertKind.IMBALANCE, AlertKind.LATE_ROWS, AlertKind.VERDICT, AlertKind.SET_ASIDE}
        return frozenset(idle) if self.snapshot.idle else frozenset()


def measure(batch: CommittedBatch, lowest_lags: Mapping[str, float]) -> Iterator[Measure]:
    """Yield everything that a rule may look at; what is missing is as it should be."""
    yield from _imbalance(batch)
    for source, lag in lags(batch).items():
        behind = lag - min(lag, lowest_lags.get(source, lag))
        message = f"the watermark of {source} fell {behind:,.0f} s further behind the clock"
        yield Measure(AlertKind.LAG, source, behind, message)
    queries = batch.registry.by_uid
    for uid, why in batch.after.quarantined.items():
        if uid in queries:
            name = queries[uid].name
            message = f"query {name} is quarantined: {why}"
            yield Measure(AlertKind.QUARANTINE, name, 1.0, message)
    for uid, total in batch.after.late.items():
        late = total - batch.before.late.get(uid, 0)
        if late > 0 and uid in queries:
            yield _late_rows(batch.snapshot, queries[uid].name, late)
    for source, total in batch.after.poison.items():
        rows = total - batch.before.poison.get(source, 0)
        if rows > 0:
            message = f"{rows:,} rows of {source} were set aside because of their event time"
            yield Measure(AlertKind.SET_ASIDE, source, rows, message)
    for verdict in batch.decision.verdicts:
        subject = f"{verdict.code}: {verdict.subject}"
        yield Measure(AlertKind.VERDICT, subject, 1.0, verdict.message)


def lags(batch: CommittedBatch) -> dict[str, float]:
    """Return how many seconds the watermark of each source is behind the clock."""
    streams, now = batch.registry.streams, batch.snapshot.at
    return {
        name: now - watermark_us / 1e6
        for name, watermark_us in batch.after.watermarks.items()
        if name in streams and not streams[name].derived
    }


def _imbalance(batch: CommittedBatch) -> Iterator[Measure]:
    """Yield the imbalance, unless the busiest worker's excess is too little to matter."""
    loads, active = batch.snapshot.worker_loads(), batch.snapshot.plan.active
    loads = loads[list(active)]
    excess = float(loads.max() - loads.mean()) if len(loads) else 0.0
    if excess >= batch.min_excess * batch.snapshot.interval_seconds:
        value = imbalance(loads)
        message = f"the busiest worker has {value:.2f} times the mean load"
        yield Measure(AlertKind.IMBALANCE, "workers", value, message)


def _late_rows(snapshot: Snapshot, name: str, late: int) -> Measure:
    rows = int(snapshot.queries[name].rows_in.sum()) if name in snapshot.queries else 0
    share = late / max(late, rows)
    message = f"{share:.1%} of the rows of {name} were behind its watermark and dropped"
    return Measure(AlertKind.LATE_ROWS, name, share, message)
