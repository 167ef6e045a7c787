"""The ledger: one entry per batch, written before the batch starts, so that a replay is identical.

Entry b holds the inputs of batch b: which registry and plan are in force, the plan to prepare for,
watermarks, each worker's state files, and the hand-offs it takes in. Writing entry b + 1 commits
batch b: one atomic rename.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from evenflow.errors import InputError
from evenflow.model import KeySplit, Plan
from evenflow.model.time import NO_WATERMARK_US
from evenflow.spark.protocol.registry import Hosted, Registry
from evenflow.storage.bundle import PartRef
from evenflow.storage.file_store import FileStore

RETAINED_ENTRIES = 3
BLOCK_BATCHES = 64  # results of so many batches are merged at first
_NAMED_FOLDERS = (
    "", "state", "exchange", "results", "results/data", "tables", "history/recent",
)  # fmt: skip
_SPARK_FILES = (
    "spark/offsets/{}", "spark/offsets", "spark/sources/*/{}", "spark/sources/*/{}.compact",
    "spark/sources/*",
)  # what Spark read in the batch, which Spark itself does not wait for  # fmt: skip

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class HandOff:
    """State of a query that `worker` takes in before its rows."""

    uid: str
    worker: int
    state: PartRef


@dataclass(frozen=True, slots=True)
class DerivedRows:
    """Rows that a query published in the previous batch, for one worker."""

    uid: str
    worker: int
    rows: PartRef


@dataclass(frozen=True, slots=True)
class SubscriptionChange:
    """Subscriptions of a template to add; to remove if not `subscribe` (only names count then)."""

    uid: str
    rows: PartRef
    subscribe: bool


@dataclass(frozen=True, slots=True)
class KeptState:
    """State of a quarantined query before the batch in which it failed, on all workers.

    state_refs            worker -> index that names its segments
    files                 files of these indexes and segments
    incoming              hand-offs that were on their way
    subscription_changes  those of the failed batch and later ones
    splits                its split keys in that batch, whose state is on several workers
    """

    state_refs: Mapping[int, PartRef]
    files: tuple[str, ...]
    incoming: tuple[HandOff, ...]
    subscription_changes: tuple[SubscriptionChange, ...] = ()
    splits: tuple[KeySplit, ...] = ()

    @property
    def live_files(self) -> set[str]:
        """The files that a resumed query needs."""
        handed = {handoff.state.file for handoff in self.incoming}
        return {*self.files, *handed, *(change.rows.file for change in self.subscription_changes)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The inputs of one batch.

    next_plan_number      plan to prepare for: state is released at the end of this batch
    rollback_plan_number  plan before the last one that moved state
    watermarks            stream -> microseconds; a stream without rows so far is missing
    previous_watermarks   those of the batch before
    watermark_resets      stream -> how often its watermark was set back; a task compares
    state_refs            worker -> index of its state; a worker without state is missing
    live_files            worker -> files its state consists of
    due_us                worker -> query uid -> event time at which it emits without new rows
    incoming              hand-offs of the previous batch
    derived_rows          rows published in the previous batch
    subscription_changes  in the order they were requested
    quarantined           query uid -> why it no longer runs
    kept_states           query uid -> state of a quarantined query, or of one that resumes now
    commands_applied      how many commands the commits so far have applied
    late                  query uid -> rows dropped so far because they were behind the watermark
    poison                stream -> rows set aside so far because of their event time
    combined              uids of the aggregates whose rows the router combines
    ahead                 stream -> those of them that were too far ahead of their batch's clock
    set_aside_bytes       stream -> bytes stored of them
    block_list            the list of merged results (`protocol/results_index.py`); None: none yet
    """

    batch: int
    registry_version: int
    plan_number: int
    next_plan_number: int | None = None
    rollback_plan_number: int | None = None
    watermarks: Mapping[str, int] = field(default_factory=dict)
    previous_watermarks: Mapping[str, int] = field(default_factory=dict)
    watermark_resets: Mapping[str, int] = field(default_factory=dict)
    state_refs: Mapping[int, PartRef] = field(default_factory=dict)
    live_files: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    due_us: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    incoming: tuple[HandOff, ...] = ()
    derived_rows: tuple[DerivedRows, ...] = ()
    subscription_changes: tuple[SubscriptionChange, ...] = ()
    quarantined: Mapping[str, str] = field(default_factory=dict)
    kept_states: Mapping[str, KeptState] = field(default_factory=dict)
    commands_applied: int = 0
    late: Mapping[str, int] = field(default_factory=dict)
    poison: Mapping[str, int] = field(default_factory=dict)
    combined: frozenset[str] = frozenset()
    ahead: Mapping[str, int] = field(default_factory=dict)
    set_aside_bytes: Mapping[str, int] = field(default_factory=dict)
    block_list: str | None = None

    @property
    def latest_plan_number(self) -> int:
        """The plan to prepare for, else the one in force."""
        return self.plan_number if self.next_plan_number is None else self.next_plan_number

    @property
    def resumed(self) -> dict[str, KeptState]:
        """Queries that begin again in this batch, with the state they continue from."""
        return {uid: s for uid, s in self.kept_states.items() if uid not in self.quarantined}


def query_watermark_us(query: Hosted, watermarks: Mapping[str, int]) -> int:
    """Return a query's watermark: the lowest of its streams."""
    return min(watermarks.get(stream, NO_WATERMARK_US) for stream in query.streams)


def results_folder(batch: int) -> str:
    """Return the folder of the results that workers write in a batch: one for each block.

    >>> results_folder(70)
    'results/data/000000000064'
    """
    return f"results/data/{batch // BLOCK_BATCHES * BLOCK_BATCHES:012d}"


class Ledger:
    """Entries, plans, registries and cancelled queries as files.

    The driver writes them; router and worker tasks read them. Plans and registries never change
    once written, so each process caches the latest ones.
    """

    def __init__(self, store: FileStore) -> None:
        self.store = store
        self._plans: dict[int, Plan] = {}
        self._registries: dict[int, Registry] = {}

    def batches(self) -> list[int]:
        """Return the batches that have an entry, ascending."""
        return [int(name) for name in self.store.list_names("ledger")]

    def has_entry(self, batch: int) -> bool:
        """Tell whether the batch before this one is committed."""
        return self.store.exists(_entry_file(batch))

    def entry(self, batch: int) -> Entry:
        """Read the entry of a batch."""
        if not self.has_entry(batch):
            raise InputError(
                f"the ledger has no entry for batch {batch}: Spark's checkpoint and the ledger "
                "next to it are not from the same run; restore both from the same copy"
            )
        return self.store.read_record(_entry_file(batch), Entry)

    def write(self, entry: Entry) -> None:
        """Write an entry, which commits the batch before it, after all that the entry needs."""
        before = entry.batch - 1
        if self.store.power_safe:
            spark_files = [name.format(before) for name in _SPARK_FILES]
            self.store.sync([*_NAMED_FOLDERS, results_folder(before), *spark_files])
        self.store.write_record(_entry_file(entry.batch), entry)

    def plan(self, number: int) -> Plan:
        """Read a plan."""
        if number not in self._plans:
            _cache(self._plans, number, self.store.read_record(f"plans/{number:012d}", Plan))
        return self._plans[number]

    def write_plan(self, number: int, plan: Plan) -> None:
        """Write a plan under an unused number."""
        # Sorted, as it will be read: planners break ties by the order of names.
        placement, tables = dict(sorted(plan.placement.items())), dict(sorted(plan.tables.items()))
        plan = replace(plan, placement=placement, tables=tables)
        self.store.write_record(f"plans/{number:012d}", plan)
        _cache(self._plans, number, plan)

    def registry(self, version: int) -> Registry:
        """Read a registry."""
        if version not in self._registries:
            registry = self.store.read_record(f"registries/{version:012d}", Registry)
            _cache(self._registries, version, registry)
        return self._registries[version]

    def write_registry(self, registry: Registry) -> None:
        """Write a registry under its version."""
        self.store.write_record(f"registries/{registry.version:012d}", registry)
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

    def delete_old_entries(self, head: Entry) -> None:
        """Delete entries that no replay needs, and plans and registries only they refer to."""
        first_kept = head.batch - RETAINED_ENTRIES + 1
        batches = self.batches()
        old = [_entry_file(batch) for batch in batches if batch < first_kept]
        first = self.entry(next(batch for batch in batches if batch >= first_kept))
        old += [
            f"plans/{name}"
            for name in self.store.list_names("plans")
            if int(name) < first.plan_number and int(name) != first.rollback_plan_number
        ]
        old += [
            f"registries/{name}"
            for name in self.store.list_names("registries")
            if int(name) < first.registry_version
        ]
        self.store.delete(old)


def _cache(cache: dict[int, Value], number: int, value: Value) -> None:
    """Cache the latest values; batches rarely need older ones."""
    cache[number] = value
    while len(cache) > 2 * RETAINED_ENTRIES:
        cache.pop(next(iter(cache)))


def _entry_file(batch: int) -> str:
    return f"ledger/{batch:012d}"
