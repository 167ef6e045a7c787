"""The ledger: one entry per batch, written before the batch starts, so that a replay is identical.

Entry b holds the inputs of batch b: which registry and plan are in force, the plan to prepare for,
watermarks, each worker's state files, and the hand-offs it takes in. Writing entry b + 1 commits
batch b.

The files of the entries are numbered without gaps, and a number is used once: creating a file that
exists fails. A driver that starts takes the next epoch: it writes the last entry again, with that
epoch, under the next number. So the driver before it, should it still run, cannot write its next
entry: it is fenced. That file stays for ever, as the earlier driver may come back at any time. The
number of an entry's file is always its batch plus its epoch.
"""

import secrets
from dataclasses import replace
from typing import TypeVar

from evenflow.errors import FencedError, InputError
from evenflow.model import Plan, Proposal
from evenflow.spark.protocol.entry import (
    BLOCK_BATCHES,
    DerivedRows,
    DirectRead,
    Entry,
    HandOff,
    KeptState,
    ProposalRef,
    Slowed,
    SubscriptionChange,
    query_watermark_us,
    results_folder,
)
from evenflow.spark.protocol.registry import Hosted, Registry
from evenflow.storage.file_store import FileStore

__all__ = [
    "BLOCK_BATCHES",
    "RETAINED_ENTRIES",
    "DerivedRows",
    "DirectRead",
    "Entry",
    "HandOff",
    "KeptState",
    "Ledger",
    "ProposalRef",
    "Slowed",
    "SubscriptionChange",
    "query_watermark_us",
    "results_folder",
]

RETAINED_ENTRIES = 3
PROPOSAL_FOLDER = "proposals"
_FOLDER = "ledger"
_NAMED_FOLDERS = (
    "", "state", "exchange", "results", "results/data", "tables", "history/recent", "offsets",
)  # fmt: skip
_NUMBERS_PER_EPOCH = 10**9

Value = TypeVar("Value")


class Ledger:
    """Entries, plans, registries and cancelled queries as files.

    The driver writes them; router and worker tasks read those of the driver's `epoch`. They never
    change once written, so each process caches the latest ones. `head` is the last entry that the
    driver of this process wrote.
    """

    def __init__(self, store: FileStore, epoch: int = 0) -> None:
        self.store = store
        self.epoch = epoch
        self.head: Entry | None = None
        self._random_part = secrets.randbelow(_NUMBERS_PER_EPOCH // 10)
        self._entries: dict[int, Entry] = {}
        self._plans: dict[int, Plan] = {}
        self._registries: dict[int, Registry] = {}
        self._proposal: tuple[str, Proposal] | None = None

    def entry(self, batch: int) -> Entry:
        """Read the entry of a batch."""
        number = batch + self.epoch
        if number not in self._entries:
            try:
                entry = self.store.read_record(_entry_file(number), Entry)
            except FileNotFoundError:
                last = self.last_entry()
                if last is not None and last.epoch != self.epoch:  # which deleted it
                    raise self._fenced(last) from None
                raise InputError(
                    f"the ledger has no entry for batch {batch}: files of the checkpoint are "
                    "missing; restore all of it from one copy"
                ) from None
            if entry.epoch != self.epoch:
                raise self._fenced(entry)
            _cache(self._entries, number, entry)
        return self._entries[number]

    def last_entry(self) -> Entry | None:
        """Find the last entry, whoever wrote it; a driver may be running."""
        while names := self.store.list_names(_FOLDER):
            try:
                return self.store.read_record(f"{_FOLDER}/{names[-1]}", Entry)
            except FileNotFoundError:  # deleted meanwhile: there are later ones
                continue
        return None

    def take_over(self, driver: str, first: Entry | None) -> tuple[Entry, bool]:
        """Begin the next epoch: write the last entry again, or `first` if there is none.

        Return the entry, and whether it is `first`.
        """
        while True:
            last = self.last_entry()
            before = first if last is None else replace(last, epoch=last.epoch + 1)
            if before is None:
                raise self.store.damage(_FOLDER, "its entries vanished while it was opened")
            entry = replace(before, driver=driver, fences=_add(before.fences, before.number))
            try:
                self.store.create_record(_entry_file(entry.number), entry)
            except FileExistsError:
                continue  # the driver before committed a batch meanwhile, or another one started
            self.epoch, self.head = entry.epoch, entry
            _cache(self._entries, entry.number, entry)
            return entry, last is None

    def replace_head(self, entry: Entry) -> None:
        """Write the entry of the next batch again, changed, as a new epoch."""
        self.write(
            replace(entry, epoch=self.epoch + 1, fences=_add(entry.fences, entry.number + 1))
        )
        self.epoch = entry.epoch + 1

    def write(self, entry: Entry) -> None:
        """Write an entry, which commits the batch before it, after all that the entry needs."""
        if self.store.power_safe:
            self.store.sync([*_NAMED_FOLDERS, results_folder(entry.batch - 1)])
        try:
            self.store.create_record(_entry_file(entry.number), entry)
        except FileExistsError:
            found = self.store.read_record(_entry_file(entry.number), Entry)
            raise self._fenced(found) from None
        _cache(self._entries, entry.number, entry)
        self.head = entry

    def check_fence(self) -> None:
        """Raise a FencedError if another driver has taken over; any thread may ask."""
        if self.head is None or not self.store.exists(file := _entry_file(self.head.number + 1)):
            return
        found = self.store.read_record(file, Entry)
        if found.epoch != self.epoch:  # else this driver has just committed a batch
            raise self._fenced(found)

    def _fenced(self, other: Entry) -> FencedError:
        return FencedError(
            f"{self.store.uri} was taken over by another driver ({other.driver}, epoch "
            f"{other.epoch}); this one has epoch {self.epoch} and stops, the other one goes on: "
            "start one run for a checkpoint"
        )

    def next_number(self, number: int) -> int:
        """Return an unused number of a plan or registry: no two drivers write under the same.

        The random part keeps drivers apart that start at once and do not have their epoch yet.
        """
        if self.epoch == 0:  # only the one that created the checkpoint
            return number + 1
        return max(number + 1, self.epoch * _NUMBERS_PER_EPOCH + self._random_part)

    def plan(self, number: int) -> Plan:
        """Read a plan."""
        if number not in self._plans:
            _cache(self._plans, number, self.store.read_record(_plan_file(number), Plan))
        return self._plans[number]

    def write_plan(self, number: int, plan: Plan) -> None:
        """Write a plan under an unused number."""
        # Sorted, as it will be read: planners break ties by the order of names.
        placement, tables = dict(sorted(plan.placement.items())), dict(sorted(plan.tables.items()))
        plan = replace(plan, placement=placement, tables=tables)
        self.store.write_record(_plan_file(number), plan)
        _cache(self._plans, number, plan)

    def proposal(self, ref: ProposalRef) -> Proposal:
        """Read a proposal, in the state that an entry gives it."""
        if self._proposal is None or self._proposal[0] != ref.file:
            self._proposal = ref.file, self.store.read_record(ref.file, Proposal)
        return replace(self._proposal[1], state=ref.state)

    def write_proposal(self, proposal: Proposal) -> ProposalRef:
        """Write a proposal; no two drivers write the same file."""
        file = f"{PROPOSAL_FOLDER}/{proposal.number:012d}-{self.epoch:06d}"
        self.store.write_record(file, proposal)
        self._proposal = file, proposal
        return ProposalRef(proposal.number, proposal.state, file)

    def registry(self, version: int) -> Registry:
        """Read a registry."""
        if version not in self._registries:
            registry = self.store.read_record(_registry_file(version), Registry)
            _cache(self._registries, version, registry)
        return self._registries[version]

    def write_registry(self, registry: Registry) -> None:
        """Write a registry under its version."""
        self.store.write_record(_registry_file(registry.version), registry)
        _cache(self._registries, registry.version, registry)

    def cancelled_query(self, name: str) -> Hosted:
        """Read a cancelled query, whose results stay readable."""
        return self.store.read_record(f"cancelled/{name}", Hosted)

    def cancelled_names(self) -> list[str]:
        """List the names of cancelled queries."""
        return self.store.list_names("cancelled")

    def write_cancelled(self, query: Hosted) -> None:
        """Record a cancelled query."""
        self.store.write_record(f"cancelled/{query.name}", query)

    def delete_old_entries(self, before: Entry, head: Entry) -> None:
        """Delete entries that are no longer retained; `before` was the head at the last time."""
        first = max(0, before.number - RETAINED_ENTRIES + 1)
        old = range(first, head.number - RETAINED_ENTRIES + 1)
        self.store.delete(_entry_file(n) for n in old if not _contains(head.fences, n))

    def delete_unreferenced(self) -> list[Entry]:
        """Delete old entries, and plans and registries of none; return the retained entries."""
        names = self.store.list_names(_FOLDER)
        retained = [
            self.store.read_record(f"{_FOLDER}/{name}", Entry) for name in names[-RETAINED_ENTRIES:]
        ]
        plans = {e.plan_number for e in retained} | {e.latest_plan_number for e in retained}
        plans |= {e.rollback_plan_number for e in retained if e.rollback_plan_number is not None}
        versions = {e.registry_version for e in retained}
        versions |= {e.last_good_version for e in retained if e.last_good_version is not None}
        # Later ones may belong to the commit that is under way.
        old = [
            f"{folder}/{name}"
            for folder, needed in (("plans", plans), ("registries", versions))
            for name in self.store.list_names(folder)
            if int(name) not in needed and int(name) < max(needed)
        ]
        old += [
            f"{_FOLDER}/{name}"
            for name in names[:-RETAINED_ENTRIES]
            if not _contains(retained[-1].fences, int(name))
        ]
        self.store.delete(old)
        return retained


def _cache(cache: dict[int, Value], number: int, value: Value) -> None:
    """Cache the latest values; batches rarely need older ones."""
    cache[number] = value
    while len(cache) > 2 * RETAINED_ENTRIES:
        cache.pop(next(iter(cache)))


def _add(ranges: tuple[tuple[int, int], ...], number: int) -> tuple[tuple[int, int], ...]:
    """Add a number to ranges of numbers; it is larger than all of them.

    >>> _add(_add(((0, 0),), 7), 8)
    ((0, 0), (7, 8))
    """
    if ranges and ranges[-1][1] == number - 1:
        return (*ranges[:-1], (ranges[-1][0], number))
    return (*ranges, (number, number))


def _contains(ranges: tuple[tuple[int, int], ...], number: int) -> bool:
    return any(first <= number <= last for first, last in ranges)


def _entry_file(number: int) -> str:
    return f"{_FOLDER}/{number:012d}"


def _plan_file(number: int) -> str:
    return f"plans/{number:018d}"


def _registry_file(version: int) -> str:
    return f"registries/{version:018d}"
