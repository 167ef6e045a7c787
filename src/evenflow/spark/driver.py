"""The driver's side of a batch: collect the reports, write what follows from them, clean up.

Entry b + 1 of the ledger is the commit of batch b. Everything before it is written under names
that a replay of b writes again, so a crash at any point leaves either all of the batch or nothing.
"""

import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.model import Plan, moves_state
from evenflow.spark import border, cleaning
from evenflow.spark.bundle import Bundle, Ref, pack
from evenflow.spark.crash import crash_point
from evenflow.spark.ledger import Entry, Ledger, Subscribing
from evenflow.spark.opening import Hold, open_checkpoint
from evenflow.spark.registry import Registry
from evenflow.spark.report import Report
from evenflow.store import Store

_HISTORY = 200

Change = Callable[[Registry, Plan], tuple[Registry, Plan]]


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch at its border, when all workers have reported.

    at, seconds  when it ended (since the epoch), and how long after the one before
    plan         held in it
    following    holds after it as things stand, arrivals placed: what a controller may change
    registry     what is hosted after it
    drain        the workers that are to be drained from now on
    asked        a plan that someone asked for; it goes before a controller's
    """

    number: int
    at: float
    seconds: float
    reports: tuple[Report, ...]
    watermarks: Mapping[str, int]
    registry: Registry
    plan: Plan
    following: Plan
    drain: frozenset[int]
    asked: Plan | None = None


Controller = Callable[[Batch], Plan | None]
"""Called at every border; may return a plan to follow."""


class Driver:
    """Owns the ledger of one run."""

    def __init__(
        self,
        store: Store,
        workers: int,
        controller: Controller | None = None,
        arrive: border.Arrive = border.fewest,
    ) -> None:
        self.store = store
        self.workers = workers
        self.controller, self.arrive = controller, arrive
        self.ledger = Ledger(store)
        self.history: deque[Batch] = deque(maxlen=_HISTORY)
        self.refused: deque[str] = deque(maxlen=_HISTORY)
        # Held over a border, so that what is checked against a state is asked of that state.
        self._lock = threading.RLock()
        self._hold: Hold | None = None
        self.identity = ""
        self._changes: list[Change] = []
        self._plan: Plan | None = None
        self._drain: frozenset[int] | None = None
        self._ended = time.time()
        self._subscriptions: list[tuple[str, Ref, bool]] = []

    # Opening

    def open(self, registry: Registry, plan: Plan, engine: str) -> bool:
        """Take the checkpoint; tell whether it is new."""
        self._hold = Hold(self.store)
        plan = border.settle(plan, registry, self.arrive)
        new = open_checkpoint(self.ledger, registry, plan, engine)
        self.identity = str(self.store.read_record("meta")["identity"])
        if new:
            return True
        cleaning.sweep(self.ledger, self.head())
        return False

    def close(self) -> None:
        """Let another driver have the checkpoint."""
        if self._hold is not None:
            self._hold.release()

    def begin(self, subscriptions: Iterable[tuple[str, pa.Table]]) -> None:
        """Add the first subscriptions to the first batch, before it runs."""
        first = self.ledger.entry(0)
        queries = self.ledger.registry(first.registry).queries
        subscribing = tuple(
            Subscribing(queries[name].uid, self._keep(rows), begin=True)
            for name, rows in subscriptions
        )
        self.ledger.write(replace(first, subscribing=subscribing))

    def head(self) -> Entry:
        """Return the entry of the batch that comes next."""
        return self.ledger.entry(self.ledger.batches()[-1])

    def restless(self) -> bool:
        """Tell whether there is something to do even if no more rows arrive."""
        head = self.head()
        asked = self._changes or self._subscriptions or self._plan or self._drain is not None
        return bool(asked) or border.is_due(head, self.ledger.registry(head.registry))

    def committed(self, kind: str, name: str) -> list[tuple[str, int, int]]:
        """Return where the committed results of a query stand (or the poison rows of a stream)."""
        head, places = self.ledger.batches()[-1], []
        for index in self.store.names("results/index"):
            if int(index) < head:
                record = self.store.read_record(f"results/index/{index}")
                places += [(f, o, length) for f, o, length, _ in record[kind].get(name, ())]
        return places

    # What is asked between batches

    def ask(self, change: Change) -> Registry:
        """Have the registry and the plan changed at the next border, or refuse; see that one comes.

        Returns the registry as it will be.
        """
        with self._lock:
            registry, _ = change(*self.upcoming())
            self._changes.append(change)
        self.wake()
        return registry

    def ask_plan(self, plan: Plan) -> None:
        """Have a plan followed: state is released one batch, routing follows the next."""
        with self._lock:
            registry, present = self.upcoming()
            border.complete(plan, present, registry)
            self._plan = plan
        self.wake()

    def ask_drain(self, worker: int, *, drain: bool) -> None:
        """Have a worker drained, or used again, from a border on."""
        with self._lock:
            registry, plan = self.upcoming()
            wanted = plan.drained if self._drain is None else self._drain
            self._drain = wanted | {worker} if drain else wanted - {worker}
            try:
                border.check_drain(self._drain, plan, registry)
            except InputError:
                self._drain = wanted
                raise
        self.wake()

    def ask_back(self) -> None:
        """Have the plan before the last moves followed again, as far as it still fits."""
        with self._lock:
            back = self.head().rollback
            if back is None:
                raise InputError("nothing has been moved yet, so there is no plan to go back to")
            registry, present = self.upcoming()
            self._plan = border.fitting(self.ledger.plan(back), present, registry)
        self.wake()

    def subscribe(self, name: str, rows: pa.Table, *, begin: bool) -> None:
        """Have subscriptions of a template begin, or end, at the next border."""
        ref = self._keep(rows)
        with self._lock:
            self._subscriptions.append((name, ref, begin))
        self.wake()

    def _keep(self, rows: pa.Table) -> Ref:
        head = self.ledger.batches()[-1]
        bundle = Bundle(f"exchange/{head:012d}-asked-{uuid.uuid4().hex[:12]}")
        ref = bundle.add(pack(rows))
        bundle.write(self.store)
        return ref

    def wake(self) -> None:
        """Make Spark run a batch even if no rows arrive."""
        head = self.ledger.batches()[-1]
        self.store.write(f"pulse/{head:012d}-{uuid.uuid4().hex[:12]}", [b"\n"])

    def upcoming(self) -> tuple[Registry, Plan]:
        """Return registry and plan as they will be after the next border."""
        with self._lock:
            registry, plan = self._standing(self.head())
            for change in self._changes:
                registry, plan = change(registry, plan)
        return registry, border.settle(plan, registry, self.arrive)

    def _standing(self, entry: Entry) -> tuple[Registry, Plan]:
        number = entry.plan if entry.next_plan is None else entry.next_plan
        return self.ledger.registry(entry.registry), self.ledger.plan(number)

    # The border

    def commit(self, batch: int, collect: Callable[[], Iterable[Report]]) -> None:
        """End a batch; a batch that the ledger has already is not run again."""
        if self.store.exists(f"ledger/{batch + 1:012d}"):
            return
        entry = self.ledger.entry(batch)
        registry = self.ledger.registry(entry.registry)
        reports = border.without_failed(collect())
        crash_point("driver.collected")
        self._write_results(batch, reports)
        crash_point("driver.results")
        with self._lock:
            done, asked = self._end(entry, tuple(reports))
            following = border.next_entry(entry, registry, reports, asked)
            if border.is_due(following, asked.registry):
                self.store.write(f"pulse/{batch:012d}", [b"\n"])
            crash_point("driver.pulse")
            self.ledger.write(following)
        crash_point("driver.ledger")
        self.history.append(done)
        cleaning.clean(self.ledger, following)

    def _end(self, entry: Entry, reports: tuple[Report, ...]) -> tuple[Batch, border.Asked]:
        """Turn what was asked and decided into a registry and plans, written before their entry."""
        before, _ = self._standing(entry)
        registry, plan = self.upcoming()
        changed, self._changes = registry is not before, []
        wanted, self._plan = self._plan, None
        subscriptions, self._subscriptions = self._subscriptions, []
        drain = plan.drained if self._drain is None else self._drain
        self._drain = None
        now = time.time()
        done = Batch(
            entry.batch, now, now - self._ended, reports, dict(entry.watermarks),
            registry, self.ledger.plan(entry.plan), plan, drain, wanted,
        )  # fmt: skip
        self._ended = now
        decided = None if self.controller is None else self.controller(done)
        number = entry.plan if entry.next_plan is None else entry.next_plan
        if changed:
            number += 1
            self.ledger.write_registry(registry)
            self.ledger.write_plan(number, plan)
        subscribing = tuple(
            Subscribing(registry.queries[name].uid, rows, begin)
            for name, rows, begin in subscriptions
            if name in registry.queries
        )
        asked = border.Asked(registry, number, None, subscribing, entry.rollback)
        following = border.with_pins(wanted or decided, plan, registry)
        following = self._complete(following, plan, registry)
        if following is None:
            return done, asked
        self.ledger.write_plan(number + 1, following)
        crash_point("driver.plan")
        if not moves_state(plan, following):
            return done, replace(asked, plan=number + 1)
        return done, replace(asked, next_plan=number + 1, rollback=number)

    def _complete(self, wanted: Plan | None, plan: Plan, registry: Registry) -> Plan | None:
        """Complete a plan; one that does not fit what is hosted by now is refused, not fatal."""
        if wanted is None:
            return None
        try:
            return border.complete(wanted, plan, registry)
        except InputError as error:
            self.refused.append(str(error))
            return None

    def _write_results(self, batch: int, reports: list[Report]) -> None:
        index: dict[str, dict[str, list[Any]]] = {"results": {}, "poison": {}}
        for report in reports:
            for kind, parts in (("results", report.results), ("poison", report.poison)):
                for name, (part, rows) in parts.items():
                    index[kind].setdefault(name, []).append([*part, rows])
        if index["results"] or index["poison"]:
            self.store.write_record(f"results/index/{batch:012d}", index)
