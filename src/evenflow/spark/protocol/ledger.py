"""The ledger: what holds in batch b, written before b starts, so that a replay repeats itself.

Entry b names the registry and the plan of batch b, the plan that follows if state is to be
released at its end, the watermarks, the state every worker begins with and the hand-offs it
takes in. Writing entry b + 1 is the commit of batch b: one atomic rename.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from evenflow.errors import InputError
from evenflow.model import Plan, RoutingTable
from evenflow.spark.protocol.registry import Hosted, Registry, query_from_record, query_record
from evenflow.storage.bundle import PartRef
from evenflow.storage.file_store import FileStore

LEDGER_FORMAT = 1
RETAINED_ENTRIES = 3


@dataclass(frozen=True, slots=True)
class HandOff:
    """State that a worker takes in before its rows."""

    uid: str
    worker: int
    state: PartRef


@dataclass(frozen=True, slots=True)
class DerivedRows:
    """Rows that a query published in the batch before, for one worker."""

    uid: str
    worker: int
    rows: PartRef


@dataclass(frozen=True, slots=True)
class SubscriptionChange:
    """Subscriptions of a template that begin with a batch, or end (then only names count)."""

    uid: str
    rows: PartRef
    subscribe: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """What holds in one batch.

    watermarks   stream -> microseconds; a stream that has shown no row yet is missing
    rollback_plan_number  the plan before the last one that moved something
    previous_watermarks  those of the batch before
    state_refs   worker -> the file that holds its state; a worker without state is missing
    due_us       worker -> query uid -> event time at which it has something to say
    incoming     hand-offs of the batch before
    derived_rows  derived rows of the batch before
    subscription_changes  subscriptions that begin or end, in order
    quarantined  query uid -> why it no longer runs
    live_files   worker -> the files its state is made of
    commands_applied  how many asks the borders up to here have taken in
    late         query uid -> rows so far that came behind the watermark
    poison       stream -> rows so far that were set aside for their event time
    """

    batch: int
    registry_version: int
    plan_number: int
    next_plan_number: int | None = None
    rollback_plan_number: int | None = None
    watermarks: Mapping[str, int] = field(default_factory=dict)
    previous_watermarks: Mapping[str, int] = field(default_factory=dict)
    state_refs: Mapping[int, PartRef] = field(default_factory=dict)
    due_us: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    incoming: tuple[HandOff, ...] = ()
    derived_rows: tuple[DerivedRows, ...] = ()
    subscription_changes: tuple[SubscriptionChange, ...] = ()
    quarantined: Mapping[str, str] = field(default_factory=dict)
    live_files: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    commands_applied: int = 0
    late: Mapping[str, int] = field(default_factory=dict)
    poison: Mapping[str, int] = field(default_factory=dict)


class Ledger:
    """Entries, plans and registries as files; what was read last is kept: it never changes."""

    def __init__(self, store: FileStore) -> None:
        self.store = store
        self._plans: dict[int, Plan] = {}
        self._registries: dict[int, Registry] = {}

    def batches(self) -> list[int]:
        """Return the batches that have an entry, ascending."""
        return [int(name) for name in self.store.list_names("ledger")]

    def entry(self, batch: int) -> Entry:
        """Read what holds in a batch."""
        name = _entry_file(batch)
        if not self.store.exists(name):
            raise InputError(
                f"the ledger has no entry for batch {batch}: the Spark checkpoint and the ledger "
                "beside it are not of one run; restore both from the same copy"
            )
        record = self.store.read_record(name)
        if record["format"] != LEDGER_FORMAT:
            raise InputError(
                f"ledger format {record['format']} is not {LEDGER_FORMAT}; "
                "use the release of Evenflow that wrote the checkpoint"
            )
        return _entry_from_record(record["entry"])

    def write(self, entry: Entry) -> None:
        """Write an entry: from now on the batch before it is committed."""
        self.store.write_record(
            _entry_file(entry.batch), {"format": LEDGER_FORMAT, "entry": asdict(entry)}
        )

    def plan(self, number: int) -> Plan:
        """Read a plan."""
        if number not in self._plans:
            record = self.store.read_record(f"plans/{number:012d}")
            _cache(self._plans, number, _plan_from_record(record))
        return self._plans[number]

    def write_plan(self, number: int, plan: Plan) -> None:
        """Write a plan under a number not used before."""
        self.store.write_record(f"plans/{number:012d}", plan_record(plan))
        # As it will be read, since planners break ties by the order of names.
        placement, tables = dict(sorted(plan.placement.items())), dict(sorted(plan.tables.items()))
        _cache(self._plans, number, replace(plan, placement=placement, tables=tables))

    def registry(self, version: int) -> Registry:
        """Read a registry."""
        if version not in self._registries:
            record = self.store.read_record(f"registries/{version:012d}")
            _cache(self._registries, version, Registry.from_record(record))
        return self._registries[version]

    def write_registry(self, registry: Registry) -> None:
        """Write a registry under its version."""
        self.store.write_record(f"registries/{registry.version:012d}", registry.to_record())
        _cache(self._registries, registry.version, registry)

    def cancelled_query(self, name: str) -> Hosted:
        """Read a query that was cancelled: its results stay readable."""
        return query_from_record(self.store.read_record(f"past/{name}"))

    def cancelled_names(self) -> list[str]:
        """Name the queries that were cancelled."""
        return self.store.list_names("past")

    def write_cancelled(self, query: Hosted) -> None:
        """Write down a query that is cancelled."""
        self.store.write_record(f"past/{query.name}", query_record(query))

    def delete_old_entries(self, head: Entry) -> None:
        """Delete entries that no replay needs, and the plans and registries only they named."""
        kept = [batch for batch in self.batches() if batch > head.batch - RETAINED_ENTRIES]
        old = [
            _entry_file(batch) for batch in self.batches() if batch <= head.batch - RETAINED_ENTRIES
        ]
        first = self.entry(kept[0])
        for folder, oldest in (
            ("plans", first.plan_number),
            ("registries", first.registry_version),
        ):
            names = [name for name in self.store.list_names(folder) if int(name) < oldest]
            keep = first.rollback_plan_number if folder == "plans" else None
            old += [f"{folder}/{name}" for name in names if int(name) != keep]
        self.store.delete(old)


def plan_record(plan: Plan) -> dict[str, Any]:
    """Return a plan as a JSON value."""
    tables = {
        query: [[int(h) for h in table.hashes], [int(o) for o in table.owners]]
        for query, table in plan.tables.items()
    }
    return {
        "workers": plan.workers,
        "placement": dict(plan.placement),
        "tables": tables,
        "drained": sorted(plan.drained),
    }


def _plan_from_record(record: Any) -> Plan:
    tables = {
        query: RoutingTable.from_entries(np.array(hashes, dtype=np.uint64), owners)
        for query, (hashes, owners) in record["tables"].items()
    }
    return Plan(record["workers"], record["placement"], tables, frozenset(record["drained"]))


def _entry_from_record(record: Any) -> Entry:
    return Entry(
        batch=record["batch"],
        registry_version=record["registry"],
        plan_number=record["plan"],
        next_plan_number=record["next_plan"],
        rollback_plan_number=record["rollback"],
        watermarks=record["watermarks"],
        previous_watermarks=record["settled"],
        state_refs={int(slot): PartRef(*state) for slot, state in record["states"].items()},
        due_us={int(slot): due for slot, due in record["due"].items()},
        incoming=tuple(
            HandOff(i["uid"], i["slot"], PartRef(*i["state"])) for i in record["intake"]
        ),
        derived_rows=tuple(
            DerivedRows(i["uid"], i["slot"], PartRef(*i["rows"])) for i in record["inbox"]
        ),
        subscription_changes=tuple(
            SubscriptionChange(i["uid"], PartRef(*i["rows"]), i["begin"])
            for i in record["subscribing"]
        ),
        quarantined=record["quarantined"],
        live_files={int(slot): tuple(files) for slot, files in record["live"].items()},
        commands_applied=record["asked"],
        late=record["late"],
        poison=record["poison"],
    )


def _cache(known: dict[int, Any], number: int, value: Any) -> None:
    """Keep what was read or written last; batches need little more than the newest."""
    known[number] = value
    while len(known) > 2 * RETAINED_ENTRIES:
        known.pop(next(iter(known)))


def _entry_file(batch: int) -> str:
    return f"ledger/{batch:012d}"
