"""Entries of the ledger: everything that holds in one batch."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from evenflow.model import KeySplit
from evenflow.model.time import NO_WATERMARK_US
from evenflow.spark.protocol.registry import Hosted
from evenflow.storage.bundle import PartRef

BLOCK_BATCHES = 64  # results of so many batches are merged at first


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

    epoch                 how many drivers started before the one that wrote the entry
    driver                that driver: machine, process and a random part
    fences                first and last of the numbers at which epochs began
    spark_files           file of Spark's checkpoint after the last batch -> its content
    last_good_version     registry of the last committed batch
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
    epoch: int = 0
    driver: str = ""
    fences: tuple[tuple[int, int], ...] = ()
    spark_files: Mapping[str, PartRef] = field(default_factory=dict)
    last_good_version: int | None = None
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
    def number(self) -> int:
        """The number of its file."""
        return self.batch + self.epoch

    def committed_by(self, batch: int) -> int:
        """Return the epoch of the driver that committed an earlier batch."""
        epoch = self.epoch
        for first, last in reversed(self.fences):
            for fence in range(last, first - 1, -1):
                if batch + 1 + epoch > fence:
                    return epoch
                epoch -= 1
        return epoch

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
