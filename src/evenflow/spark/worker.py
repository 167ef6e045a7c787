"""A worker's batch: take in what was handed over, step every query, release what moves, save.

The ledger entry of the batch decides everything, so that a second attempt does the same. A query
that fails is left out and reported; the others go on.
"""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model import EVERYWHERE, Move, Plan, moves_between
from evenflow.spark.bundle import Bundle, Ref, pack, read_part, unpack
from evenflow.spark.counting import count_keys
from evenflow.spark.crash import crash_point
from evenflow.spark.culprit import Care
from evenflow.spark.inbox import Envelope, open_inbox
from evenflow.spark.ledger import Derived, Entry, HandOff, Ledger, Subscribing
from evenflow.spark.measuring import Measuring, emulate
from evenflow.spark.registry import Hosted, Registry
from evenflow.spark.report import QueryStats, Report
from evenflow.spark.router import Demand, Split, deal, demand, split_of, times_us
from evenflow.spark.state import Kept, SlotState, load_state
from evenflow.sql import QueryTask, Task

NO_WATERMARK = -(1 << 62)
SMALL = 4096  # bytes of results up to which compressing takes longer than it saves


class Runtime(Protocol):
    """Opens tasks; one of each process (`evenflow.spark.programs` has the real one)."""

    def open(self, query: Hosted, registry: Registry, ledger: Ledger) -> Task:
        """Return an empty task of a query."""

    def limit(self) -> AbstractContextManager[None]:
        """Bound the time of what runs inside."""

    def rest(self) -> None:
        """Note that what follows is no query's: it may take as long as it takes."""


class Process:
    """What a Python process keeps between batches, for all workers that come to run in it."""

    def __init__(self, ledger: Ledger, runtime: Runtime) -> None:
        self.ledger = ledger
        self.runtime = runtime
        self.states: dict[int, SlotState] = {}

    def run(
        self,
        slot: int,
        batch: int,
        envelopes: Iterable[Envelope],
        attempt: int = 0,
        measuring: Measuring = Measuring(),  # noqa: B008 - frozen
    ) -> Report:
        """Run one worker's batch."""
        began = time.thread_time()
        care = Care(self.ledger.store, slot, batch, attempt)
        work = _Batch(self, slot, self.ledger.entry(batch), care, measuring)
        try:
            report = work.run(list(envelopes))
        finally:
            self.runtime.rest()
        report.cpu_seconds = time.thread_time() - began
        emulate(report, measuring.emulated_cost)
        return report


class _Batch:
    def __init__(
        self, process: Process, slot: int, entry: Entry, care: Care, measuring: Measuring
    ) -> None:
        self.process, self.slot, self.entry, self.care = process, slot, entry, care
        self.measuring = measuring
        self.ledger, self.store = process.ledger, process.ledger.store
        self.registry = self.ledger.registry(entry.registry)
        self.plan = self.ledger.plan(entry.plan)
        self.by_uid = {query.uid: query for query in self.registry.queries.values()}
        self.report = Report(slot)
        self.changed: set[str] = set()
        self.needs: dict[str, Demand] = {}
        self.state = SlotState()
        attempt = f"{entry.batch:012d}-{slot:05d}-{uuid.uuid4().hex[:12]}"
        self.state_file = Bundle(f"state/{attempt}")
        self.result_file = Bundle(f"results/data/{attempt}")
        self.exchange_file = Bundle(f"exchange/{attempt}")

    def run(self, envelopes: list[Envelope]) -> Report:
        intake = [handoff for handoff in self.entry.intake if handoff.slot == self.slot]
        derived = [derived for derived in self.entry.inbox if derived.slot == self.slot]
        releasing, subscribing = self._releasing(), self._subscribing()
        if not (envelopes or intake or derived or releasing or subscribing or self._is_due()):
            self.report.idle = True
            return self.report
        # Nothing may be reused if this attempt dies half way, so the process forgets the state
        # until it is whole again.
        self._restore(self.process.states.pop(self.slot, SlotState()))
        for uid in self.care.guilty:
            self._failed(uid, RuntimeError("it ended the worker's process, by time or memory"))
        for handoff in intake:
            self._attempt(handoff.uid, partial(self._accept, handoff))
        for change in subscribing:
            self._attempt(change.uid, partial(self._subscribe, change))
        self.process.runtime.rest()
        inbox = self._receive(envelopes, derived)
        for query in self._hosted():
            self._attempt(query.uid, partial(self._step, query, inbox))
        for move in releasing:
            query = self.registry.queries[move.query]
            self._attempt(query.uid, partial(self._release, query, move.after))
        self._save()
        return self.report

    # What there is to do

    def _is_due(self) -> bool:
        return any(
            uid in self.by_uid and due <= watermark(self.by_uid[uid], self.entry)
            for uid, due in self.entry.due.get(self.slot, {}).items()
        )

    def _hosted(self) -> Iterator[Hosted]:
        for name in sorted(self.registry.queries):
            query = self.registry.queries[name]
            here = self.plan.placement.get(name, self.slot) == self.slot
            if here and query.uid not in self.entry.quarantined:
                yield query

    def _releasing(self) -> list[Move]:
        """Return what goes to which worker at the end of this batch."""
        if self.entry.next_plan is None:
            return []
        found = leaving(self.plan, self.ledger.plan(self.entry.next_plan), self.slot)
        return [move for move in found if move.query in self.registry.queries]

    def _subscribing(self) -> list[Subscribing]:
        hosted = {query.uid for query in self._hosted()}
        return [change for change in self.entry.subscribing if change.uid in hosted]

    # The steps

    def _restore(self, cached: SlotState) -> None:
        index = self.entry.states.get(self.slot)
        if index is None:
            return
        for uid in [uid for uid in cached.tasks if uid not in self.by_uid]:
            cached.drop(uid)
        for uid in self.entry.quarantined:
            cached.drop(uid)
        if cached.index == index:
            self.state = cached
            return
        self.state, broken = load_state(self.store, index, cached, self._open)
        for uid, error in broken.items():
            self._failed(uid, error)

    def _open(self, uid: str) -> Task | None:
        query = self.by_uid.get(uid)
        if query is None or uid in self.entry.quarantined:
            return None
        return self.process.runtime.open(query, self.registry, self.ledger)

    def _task(self, uid: str) -> Task:
        kept = self.state.tasks.get(uid)
        if kept is None:
            query = self.by_uid[uid]
            kept = Kept(self.process.runtime.open(query, self.registry, self.ledger))
            self.state.tasks[uid] = kept
        self.changed.add(uid)
        return kept.task

    def _receive(self, envelopes: list[Envelope], derived: list[Derived]) -> dict[str, pa.Table]:
        """Open what came; set the rows aside whose time is of no use, and note the latest ones."""
        known = [one for one in derived if one.uid in self.by_uid]
        named = [(self.by_uid[one.uid].name, one.rows) for one in known]
        inbox = open_inbox(self.store, envelopes, named)
        self.report.shipped = inbox.shipped
        for stream, aside in inbox.poison.items():
            self.report.poison[stream] = (self.result_file.add(pack(aside)), aside.num_rows)
        for stream in {envelope.stream for envelope in envelopes} & inbox.rows.keys():
            times = times_us(inbox.rows[stream], self.registry.streams[stream])
            self.report.seen_us[stream] = pc.max(times).as_py()
        return inbox.rows

    def _step(self, query: Hosted, inbox: dict[str, pa.Table]) -> None:
        rows = {stream: self._share(query, stream, inbox) for stream in query.streams}
        number = sum(table.num_rows for table in rows.values())
        kept = self.state.tasks.get(query.uid)
        mark = watermark(query, self.entry)
        due = (
            kept is not None and kept.task.next_due_us is not None and kept.task.next_due_us <= mark
        )
        if not number and not due:
            return
        task = self._task(query.uid)  # compiled here once, which is no load of the query's
        began = time.thread_time()
        output = task.step(rows, mark)
        late = {stream: count for stream, count in output.late.items() if count}
        made = output.rows.num_rows
        if made:
            part = self.result_file.add(pack(output.rows, compress=output.rows.nbytes > SMALL))
            self.report.results[query.uid] = (part, made)
            if query.publish:
                self._publish(query, output.rows, part)
        stats = QueryStats(
            number, made, time.thread_time() - began, task.state_bytes, late, float(made)
        )
        self.report.queries[query.uid] = stats
        self._count(query, task, rows, stats)

    def _count(
        self, query: Hosted, task: Task, rows: dict[str, pa.Table], stats: QueryStats
    ) -> None:
        """Tell what the keys of a keyed query took."""
        table = self.plan.tables.get(query.name)
        if table is None or query.inferred is None or not self.measuring.keys:
            return
        mine = table.hashes[table.owners == self.slot]
        counts = count_keys(query.kind, rows, query.inferred, task, stats.rows_out, mine)
        self.report.keys[query.uid] = counts
        stats.made = counts.total_made

    def _publish(self, query: Hosted, rows: pa.Table, part: Ref) -> None:
        """Address derived rows by the plan of the next batch, which is known by now."""
        number = self.entry.plan if self.entry.next_plan is None else self.entry.next_plan
        need = demand(self.registry, self.ledger.plan(number), self.entry, query.name)
        published = self.report.published
        published += [(query.uid, slot, part) for slot in sorted(need.whole)]
        published += [
            (query.uid, slot, self.exchange_file.add(pack(share)))
            for slot, share in deal(rows.combine_chunks(), need)
        ]

    def _share(self, query: Hosted, stream: str, inbox: dict[str, pa.Table]) -> pa.Table:
        """Return the rows of a stream that are this query's on this worker."""
        rows = inbox.get(stream)
        if rows is None:
            return self.registry.streams[stream].schema.empty_table()
        if query.name in self.plan.placement:
            return rows
        if stream not in self.needs:
            self.needs[stream] = demand(self.registry, self.plan, self.entry, stream)
        if self.needs[stream].exact(self.slot):
            return rows
        return rows.filter(pa.array(split_of(query, stream, self.plan).route(rows) == self.slot))

    def _accept(self, handoff: HandOff) -> None:
        self._task(handoff.uid).accept(read_part(self.store, handoff.state).to_pybytes())

    def _subscribe(self, change: Subscribing) -> None:
        """Begin or end subscriptions; a keyed template's are split as its rows are."""
        query, task = self.by_uid[change.uid], self._task(change.uid)
        if not isinstance(task, QueryTask):
            raise TypeError(f"{query.name} is no template")
        rows = unpack(read_part(self.store, change.rows))
        # One that begins again with other parameters may have lived on another worker.
        task.unsubscribe(rows["subscription"])
        if not change.begin:
            return
        if query.subscription_key is not None:
            table, drained = self.plan.tables[query.name], self.plan.drained
            split = Split(query.subscription_key, table, self.plan.workers, drained)
            rows = rows.filter(pa.array(split.route(rows) == self.slot))
        task.subscribe(rows)

    def _release(self, query: Hosted, target: int) -> None:
        if query.uid not in self.state.tasks or self.entry.next_plan is None:
            return
        following = self.ledger.plan(self.entry.next_plan)
        if query.name in following.placement:
            blob = self.state.tasks[query.uid].task.release_all()
            self.state.drop(query.uid)
            self.changed.discard(query.uid)
        else:
            task = self._task(query.uid)
            blob = task.release(lambda h: following.route(query.name, h) == target)
        if blob is not None:
            self.report.handoffs.append((query.uid, target, self.exchange_file.add(blob)))

    def _save(self) -> None:
        for uid in sorted(self.changed):
            self._attempt(uid, partial(self._save_task, uid))
        self.process.runtime.rest()
        self.state.save_index(self.state_file)
        crash_point("worker.before_write")
        for bundle in (self.state_file, self.result_file, self.exchange_file):
            bundle.write(self.store)
        crash_point("worker.after_write")
        tasks = self.state.tasks
        self.report.state = self.state.index
        self.report.live = self.state.live()
        self.report.due = {
            uid: kept.task.next_due_us
            for uid, kept in sorted(tasks.items())
            if kept.task.next_due_us is not None
        }
        self.process.states[self.slot] = self.state

    def _save_task(self, uid: str) -> None:
        began = time.thread_time()
        self.state.save_task(uid, self.state_file)
        if uid in self.report.queries:
            self.report.queries[uid].cpu_seconds += time.thread_time() - began

    # One query's failure is only its own

    def _attempt(self, uid: str, action: Callable[[], None]) -> None:
        if uid not in self.by_uid or uid in self.report.failed or uid in self.entry.quarantined:
            return
        self.care.note(uid)
        try:
            with self.process.runtime.limit():
                action()
        except Exception as error:  # untrusted code may raise anything
            self._failed(uid, error)
        self.care.note("")

    def _failed(self, uid: str, error: Exception) -> None:
        self.report.failed[uid] = f"{type(error).__name__}: {error}"
        self.report.results.pop(uid, None)
        self.report.keys.pop(uid, None)
        self.report.published = [sent for sent in self.report.published if sent[0] != uid]
        self.state.drop(uid)
        self.changed.discard(uid)


def watermark(query: Hosted, entry: Entry) -> int:
    """Return a query's watermark: that of its slowest stream."""
    return min(entry.watermarks.get(stream, NO_WATERMARK) for stream in query.streams)


def leaving(before: Plan, after: Plan, slot: int) -> list[Move]:
    """Return one move for each query and worker that something goes to from this worker."""
    found: set[tuple[str, int]] = set()
    everyone = [worker for worker in after.active if worker != slot]
    for move in moves_between(before, after):
        if move.before in (slot, EVERYWHERE) and move.after != slot:
            targets = everyone if move.after == EVERYWHERE else [move.after]
            found.update((move.query, target) for target in targets)
    if before.drained != after.drained:  # then the hash moves keys that no table names
        shared = before.tables.keys() & after.tables.keys()
        found.update((query, target) for query in shared for target in everyone)
    return [Move(query, slot, target) for query, target in sorted(found)]
