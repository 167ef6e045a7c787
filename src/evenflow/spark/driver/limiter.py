"""Keeps tenants within their limits: slows queries first, then quarantines them.

What it decides is in the ledger entry. What it remembers of the last batches is not: a new driver
measures again, and slowed queries stay slowed meanwhile.
"""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from evenflow.model import Snapshot
from evenflow.model.tenants import Tenants
from evenflow.planning.tenants import Allowance, Overload, QueryNeed, allowances
from evenflow.spark.driver.completed_batch import CompletedBatch
from evenflow.spark.driver.limit_breaches import waiting_breaches, worst_state
from evenflow.spark.driver.slowed_queries import Pace, WaitingTotal, waiting_totals
from evenflow.spark.protocol.ledger import Entry
from evenflow.spark.protocol.registry import Hosted

BATCHES_ABOVE = 3  # in a row that a query must be above its share before it is slowed
STATE_BATCHES = 20  # in a row that a tenant may be above its state_bytes before one is quarantined
RECENT_BATCHES = 5
STEP_SECONDS = 0.02  # a slowed query waits until its rows are worth the fixed cost of a step
MIN_STEP_ROWS = 100  # the same, in rows


@dataclass(frozen=True, slots=True)
class LimitDecision:
    """What follows from the limits: paces of slowed queries, and queries to quarantine."""

    paces: Mapping[str, Pace] = field(default_factory=dict)
    quarantined: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Recent:
    """The last batches of a query: rows that came, and what a row cost.

    credit  rows that it may process while it is slowed
    above   batches in a row in which it was above its share
    """

    came: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT_BATCHES))
    row_seconds: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT_BATCHES))
    row_results: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT_BATCHES))
    credit: float = 0.0
    above: int = 0


class Limiter:
    """Decides at each commit who is slowed.

    Driver process, as long as the run; called by the thread of Spark's micro-batch. `cores` are
    those of Spark, `trigger_seconds` is None if batches follow each other at once.
    """

    def __init__(
        self,
        tenants: Tenants = Tenants(),  # noqa: B008 - frozen
        *,
        cores: int = 1,
        trigger_seconds: float | None = None,
    ) -> None:
        self.tenants = tenants
        self.cores, self.trigger_seconds = cores, trigger_seconds
        self._recent: dict[str, _Recent] = {}
        self._state_above: Counter[str] = Counter()
        self._long_batches = 0
        self._target_seconds = 0.0
        self._is_overloaded = False

    def decide(self, entry: Entry, batch: CompletedBatch, snapshot: Snapshot) -> LimitDecision:
        """Return what follows from a batch for the next one."""
        if not self._is_needed(entry, batch):
            return LimitDecision()
        totals = waiting_totals(entry, batch.reports)
        failed = {uid for report in batch.reports for uid in report.failed}
        stopped = failed | entry.quarantined.keys()
        running = {uid: q for uid, q in batch.registry.by_uid.items() if uid not in stopped}
        self._measure(batch, totals, running)
        needs = [self._need(query, totals, snapshot) for query in running.values()]
        capacity_seconds = self.capacity_seconds(batch)
        overload = self._overload(batch, sum(need.seconds for need in needs))
        allowed = allowances(needs, self.tenants, capacity_seconds, overload)
        paces = {need.uid: self._pace(need, allowed.get(need.uid), entry) for need in needs}
        catching_up = {uid: q for uid, q in running.items() if uid not in entry.backfills}
        return LimitDecision(
            {uid: pace for uid, pace in paces.items() if pace is not None},
            {
                **self._full_states(needs),
                **waiting_breaches(entry, totals, catching_up, self.tenants),
            },
        )

    def capacity_seconds(self, batch: CompletedBatch) -> float:
        """Return the CPU seconds that a batch has."""
        return (self.trigger_seconds or batch.work_seconds) * self.cores

    def _is_needed(self, entry: Entry, batch: CompletedBatch) -> bool:
        has_tenants = any(query.tenant for query in batch.registry.by_uid.values())
        return has_tenants or bool(entry.slowed)

    def _measure(
        self,
        batch: CompletedBatch,
        totals: Mapping[str, WaitingTotal],
        running: Mapping[str, Hosted],
    ) -> None:
        self._recent = {uid: self._recent.get(uid, _Recent()) for uid in running}
        rows: Counter[str] = Counter()
        seconds: Counter[str] = Counter()
        results: Counter[str] = Counter()
        for report in batch.reports:
            for uid, stats in report.query_stats.items():
                rows[uid] += stats.rows_in
                seconds[uid] += stats.cpu_seconds  # type: ignore[assignment]
            for uid, (part, _) in report.results.items():
                results[uid] += part.length
        for uid, recent in self._recent.items():
            recent.came.append(totals.get(uid, WaitingTotal()).came)
            recent.credit -= rows[uid]
            if rows[uid]:
                recent.row_seconds.append(seconds[uid] / rows[uid])
                recent.row_results.append(results[uid] / rows[uid])

    def _need(
        self, query: Hosted, totals: Mapping[str, WaitingTotal], snapshot: Snapshot
    ) -> QueryNeed:
        recent, load = self._recent[query.uid], snapshot.queries.get(query.name)
        came = median(recent.came)
        return QueryNeed(
            uid=query.uid,
            tenant=query.tenant,
            rows=came + totals.get(query.uid, WaitingTotal()).rows,
            came=came,
            row_seconds=median(recent.row_seconds or [0.0]),
            row_results=median(recent.row_results or [0.0]),
            state_bytes=0.0 if load is None else float(load.state_bytes.sum()),
        )

    def _pace(self, need: QueryNeed, allowed: Allowance | None, entry: Entry) -> Pace | None:
        """Return how far a query may go; it saves up until a step is worth its fixed cost."""
        recent = self._recent[need.uid]
        slowed = entry.slowed.get(need.uid)
        if allowed is None:
            recent.above, recent.credit = 0, 0.0
            is_unknown = slowed is not None and slowed.rows and not recent.row_seconds
            return Pace(MIN_STEP_ROWS) if is_unknown else None  # after a restart
        recent.above += 1
        if slowed is None and recent.above < BATCHES_ABOVE:
            recent.credit = 0.0
            return None
        worthwhile: float = MIN_STEP_ROWS
        if need.row_seconds:
            worthwhile = max(worthwhile, STEP_SECONDS / need.row_seconds)
        step = min(need.rows, worthwhile)
        recent.credit = min(recent.credit + allowed.rows, max(2 * allowed.rows, step))
        return Pace(recent.credit if recent.credit >= step else 0.0, allowed.reason)

    def _overload(self, batch: CompletedBatch, needed_seconds: float) -> Overload | None:
        """Return the CPU time that fits into the trigger, if batches do not."""
        if self.trigger_seconds is None:
            return None
        is_long = batch.work_seconds > self.trigger_seconds
        self._long_batches = self._long_batches + 1 if is_long else 0
        if is_long:
            used = sum(s.cpu_seconds for r in batch.reports for s in r.query_stats.values())
            self._target_seconds = used * self.trigger_seconds / batch.work_seconds
        self._is_overloaded = self._long_batches >= BATCHES_ABOVE or (
            self._is_overloaded and needed_seconds > self._target_seconds
        )
        return Overload(self.trigger_seconds, self._target_seconds) if self._is_overloaded else None

    def _full_states(self, needs: list[QueryNeed]) -> dict[str, str]:
        """Return the largest query of each tenant that has had too much state for too long."""
        found = {}
        worst = worst_state(needs, self.tenants)
        self._state_above = Counter({t: self._state_above[t] + 1 for t in worst})
        for tenant, (uid, reason) in worst.items():
            if self._state_above[tenant] > STATE_BATCHES:
                found[uid] = f"{reason}, for {STATE_BATCHES} batches"
                self._state_above[tenant] = 0
        return found
