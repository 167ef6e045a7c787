"""The driver's side of a batch: collect the reports, write what follows from them, clean up.

Entry b + 1 of the ledger is the commit of batch b. Everything before it is written under names
that a replay of b writes again, so a crash at any point leaves either all of the batch or nothing.
"""

import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

import pyarrow as pa

from evenflow.errors import InputError
from evenflow.model import Plan, may_move_state
from evenflow.spark import border, cleaning
from evenflow.spark.asks import Ask, Asks, Drain, Subscribe, Upcoming
from evenflow.spark.batch import Batch, Controller, Record
from evenflow.spark.bundle import Bundle, Ref, pack
from evenflow.spark.crash import crash_point
from evenflow.spark.ledger import Entry, Ledger, Subscribing
from evenflow.spark.opening import Hold, open_checkpoint
from evenflow.spark.registry import Registry
from evenflow.spark.report import Report
from evenflow.spark.results import Results
from evenflow.storage.file_store import FileStore

_HISTORY = 200


class Driver:
    """Owns the ledger of one run."""

    def __init__(
        self,
        store: FileStore,
        workers: int,
        controller: Controller | None = None,
        arrive: border.Arrive = border.fewest,
        record: Record | None = None,
    ) -> None:
        self.store = store
        self.workers = workers
        self.controller, self.arrive, self.record = controller, arrive, record
        self.ledger = Ledger(store)
        self.history: deque[Batch] = deque(maxlen=_HISTORY)
        self.refused: deque[str] = deque(maxlen=_HISTORY)
        # Held over a border, so that what is checked against a state is asked of that state.
        self._lock = threading.RLock()
        self._hold: Hold | None = None
        self.identity = ""
        self.results = Results(store)
        self._asks = Asks(store)
        self._upcoming: Upcoming | None = None
        self._tried: tuple[Upcoming, Ask, Upcoming] | None = None
        self._plan: Plan | None = None
        self._drain: frozenset[int] | None = None  # asked for and not yet so
        self._unfit: list[str] = []  # why plans are not followed from the border at hand
        self._ended = time.time()

    # Opening

    def open(self, registry: Registry, plan: Plan, engine: str) -> bool:
        """Take the checkpoint; tell whether it is new."""
        self._hold = Hold(self.store)
        plan = border.settle(plan, registry, self.arrive)
        new = open_checkpoint(self.ledger, registry, plan, engine)
        self.identity = str(self.store.read_record("meta")["identity"])
        if new:
            return True
        head = self.head()
        cleaning.sweep(self.ledger, head)
        self._take_up(self._asks.open(head))
        return False

    def _take_up(self, asks: Iterable[Ask]) -> None:
        """Go on with what was asked of the run before; what cannot be any more is refused."""
        for ask in asks:
            try:
                self._upcoming = self._coming().after(ask)
            except InputError as error:
                self.refused.append(str(error))
        if self._upcoming is not None:
            self.wake()

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
        asked = self._upcoming is not None or self._plan is not None or self._drain is not None
        return asked or border.is_due(head, self.ledger.registry(head.registry))

    def committed(self, kind: str, name: str, first: int = 0) -> list[tuple[str, int, int]]:
        """Return where the committed results of a query stand (or the poison rows of a stream)."""
        return self.results.committed(self.ledger.batches()[-1], kind, name, first)

    # What is asked between batches

    def ask(self, ask: Ask) -> Registry:
        """Have something changed at the next border, or refuse; see that one comes.

        It is written down before this returns. Returns the registry as it will be.
        """
        with self._lock:
            upcoming = self._after(ask)
            self._asks.write(ask)
            self._upcoming, self._tried = upcoming, None
        crash_point("driver.asked")
        self.wake()
        return upcoming.registry

    def ask_plan(self, plan: Plan) -> None:
        """Have a plan followed: state is released one batch, routing follows the next."""
        with self._lock:
            registry, present = self.upcoming()
            border.complete(plan, present, registry)
            self._plan = plan
        self.wake()

    def ask_drain(self, worker: int, *, drain: bool) -> None:
        """Have a worker drained, or used again, from a border on."""
        self.ask(Drain(worker, drain))

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
        self.ask(Subscribe(name, self._keep(rows), begin))

    def _keep(self, rows: pa.Table) -> Ref:
        head = self.ledger.batches()[-1]
        bundle = Bundle(f"exchange/{head:012d}-asked-{uuid.uuid4().hex[:12]}")
        ref = bundle.add(pack(rows))
        bundle.write(self.store, durable=True)
        return ref

    def wake(self) -> None:
        """Make Spark run a batch even if no rows arrive."""
        head = self.ledger.batches()[-1]
        self.store.write(f"pulse/{head:012d}-{uuid.uuid4().hex[:12]}", [b"\n"])

    def upcoming(self) -> tuple[Registry, Plan]:
        """Return registry and plan as they will be after the next border."""
        with self._lock:
            coming = self._coming()
        return coming.registry, border.settle(coming.plan, coming.registry, self.arrive)

    def hosted(self) -> Registry:
        """Return what will be hosted after the next border."""
        with self._lock:
            return self._coming().registry

    def with_ask(self, ask: Ask) -> Registry:
        """Return what would be hosted with one more ask taken in, or refuse that."""
        with self._lock:
            return self._after(ask).registry

    def _after(self, ask: Ask) -> Upcoming:
        """Return what comes with one more ask; what was tried is not compiled a second time."""
        coming = self._coming()
        if self._tried is None or self._tried[1] != ask or not self._tried[0].same_as(coming):
            self._tried = coming, ask, coming.after(ask)
        return self._tried[2]

    def _coming(self) -> Upcoming:
        return self._upcoming or self._standing(self.head())

    def _standing(self, entry: Entry) -> Upcoming:
        number = entry.plan if entry.next_plan is None else entry.next_plan
        return Upcoming(self.ledger.registry(entry.registry), self.ledger.plan(number))

    # The border

    def commit(self, batch: int, collect: Callable[[], Iterable[Report]]) -> None:
        """End a batch; a batch that the ledger has already is not run again."""
        if self.store.exists(f"ledger/{batch + 1:012d}"):
            return
        entry = self.ledger.entry(batch)
        registry = self.ledger.registry(entry.registry)
        reports = border.without_failed(collect())
        crash_point("driver.collected")
        self.results.write(batch, reports)
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
        before = self.ledger.registry(entry.registry)
        coming = self._coming()
        registry, plan = self.upcoming()
        self._drain = coming.drain if coming.drain is not None else self._drain
        drain = plan.drained if self._drain is None else self._drain
        self._upcoming = None
        wanted, self._plan = self._plan, None
        given = None if wanted is None else self._complete(wanted, plan, registry)
        now = time.time()
        done = Batch(
            entry.batch, now, now - self._ended, reports, dict(entry.watermarks),
            registry, self.ledger.plan(entry.plan), plan, drain, given,
        )  # fmt: skip
        self._ended = now
        following = self._followed(done)
        number = entry.plan if entry.next_plan is None else entry.next_plan
        if registry.version != before.version:
            number += 1
            self._write_past(before, registry)
            self.ledger.write_registry(registry)
            self.ledger.write_plan(number, plan)
        asked = border.Asked(
            registry, number, None, coming.subscribing, entry.rollback, self._asks.end
        )
        if drain == (following or plan).drained:
            self._drain = None
        if following is None:
            return done, asked
        self.ledger.write_plan(number + 1, following)
        crash_point("driver.plan")
        if not may_move_state(plan, following):
            return done, replace(asked, plan=number + 1)
        return done, replace(asked, next_plan=number + 1, rollback=number)

    def _write_past(self, before: Registry, registry: Registry) -> None:
        hosted = {query.uid for query in registry.queries.values()}
        for query in before.queries.values():
            if query.uid not in hosted:
                self.ledger.write_past(query)

    def _followed(self, done: Batch) -> Plan | None:
        """Return the plan that holds after a batch, if it is another: asked for, or decided.

        Pins hold whatever becomes of it.
        """
        plan, registry = done.following, done.registry
        decided = None if self.controller is None else self.controller(done)
        following = done.asked or self._complete(decided, plan, registry)
        if following is None and decided is not None:
            following = self._complete(None, plan, registry)
        if self.record is not None:
            self.record(done, following, tuple(self._unfit))
        self.refused.extend(self._unfit)
        self._unfit = []
        return following

    def _complete(self, wanted: Plan | None, plan: Plan, registry: Registry) -> Plan | None:
        """Complete a plan; one that does not fit what is hosted by now is refused, not fatal."""
        pinned = border.with_pins(wanted, plan, registry)
        if pinned is None:
            return None
        try:
            return border.complete(pinned, plan, registry)
        except InputError as error:
            self._unfit.append(str(error))
            return None
