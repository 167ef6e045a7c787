"""Entries of the ledger: everything that holds in one batch."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from evenflow.model import KeySplit, ProposalState
from evenflow.model.time import NO_WATERMARK_US
from evenflow.spark.protocol.backfill import Backfill
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
    count: int = 0


@dataclass(frozen=True, slots=True)
class KeptState:
    """State of a quarantined query before the batch in which it failed, on all workers.

    state_refs            worker -> index that names its segments
    files                 files of these indexes and segments
    incoming              hand-offs that were on their way
    subscription_changes  those of the failed batch and later ones
    splits                its split keys in that batch, whose state is on several workers
    uid                   under which the indexes have it, if the query has another definition now
    batch                 the first batch that is not in it; None: kept by an earlier version
    """

    state_refs: Mapping[int, PartRef]
    files: tuple[str, ...]
    incoming: tuple[HandOff, ...]
    subscription_changes: tuple[SubscriptionChange, ...] = ()
    splits: tuple[KeySplit, ...] = ()
    uid: str | None = None
    batch: int | None = None

    @property
    def live_files(self) -> set[str]:
        """The files that a resumed query needs."""
        handed = {handoff.state.file for handoff in self.incoming}
        return {*self.files, *handed, *(change.rows.file for change in self.subscription_changes)}


@dataclass(frozen=True, slots=True)
class ProposalRef:
    """A plan that waits for an answer; `number` is the batch after which it was made."""

    number: int
    state: ProposalState
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowed:
    """A query whose rows wait, because its tenant is over a limit or comes last.

    reason            what made it wait
    since             the first batch in which it was slowed
    until             slice before which rows are processed in this batch; None: all rows
    first             the first slice that waits
    rows, bytes       what waits before this batch, on all workers
    held_us           its watermark in this batch, as of when the first waiting rows came; None:
                      that of its streams
    previous_held_us  the same, of the batch before
    """

    reason: str
    since: int
    until: int | None
    first: int
    rows: int = 0
    bytes: int = 0
    held_us: int | None = None
    previous_held_us: int | None = None

    @property
    def is_slow(self) -> bool:
        """Whether rows wait or may have to; else it has caught up."""
        return self.until is not None or self.rows > 0


@dataclass(frozen=True, slots=True)
class DirectRead:
    """A whole query beside publishers of its streams: it takes their rows in the same batch.

    watermark_us  its watermark once it has taken them
    """

    streams: tuple[str, ...]
    watermark_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The inputs of one batch.

    epoch                 how many drivers started before the one that wrote the entry
    driver                that driver: machine, process and a random part
    fences                first and last of the numbers at which epochs began
    spark_files           file of Spark's checkpoint after the last batch -> the record that has it
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
    subscriptions         template uid -> worker -> how many it has there
    slowed                query uid -> how it is slowed; a quarantined query keeps it
    block_list            the list of merged results (`protocol/results_index.py`); None: none yet
    proposal              the plan that waits for approval, or was rejected
    filling               uid of a query that takes another's place -> watermark at which it does
    backfills             query uid -> rows that it takes in this batch before those of its streams
    direct_reads          query uid -> the streams whose rows it takes as they are published
    already_read          query uid -> the streams whose `derived_rows` it took in that way
    reached_us            query uid -> its watermark in the batch before, if above the lowest one
    """

    batch: int
    registry_version: int
    plan_number: int
    epoch: int = 0
    driver: str = ""
    fences: tuple[tuple[int, int], ...] = ()
    spark_files: Mapping[str, str] = field(default_factory=dict)
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
    subscriptions: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    slowed: Mapping[str, Slowed] = field(default_factory=dict)
    block_list: str | None = None
    proposal: ProposalRef | None = None
    filling: Mapping[str, int] = field(default_factory=dict)
    backfills: Mapping[str, Backfill] = field(default_factory=dict)
    direct_reads: Mapping[str, DirectRead] = field(default_factory=dict)
    already_read: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reached_us: Mapping[str, int] = field(default_factory=dict)

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

    @property
    def backfilling(self) -> dict[str, Backfill]:
        """Running queries that take rows of their backfill."""
        return {u: b for u, b in self.backfills.items() if u not in self.quarantined}

    @property
    def waiting(self) -> dict[str, Slowed]:
        """Running queries with rows that wait."""
        return {u: s for u, s in self.slowed.items() if s.rows and u not in self.quarantined}

    def subscription_count(self, query: Hosted) -> int:
        """Return how many subscriptions a template has, with those that begin in this batch."""
        counts = self.subscriptions.get(query.uid, {}).values()
        here = max(counts, default=0) if query.subscription_key is None else sum(counts)
        changes = [c for c in self.subscription_changes if c.uid == query.uid and c.subscribe]
        return here + sum(change.count for change in changes)

    def lowest_watermark_us(self, query: Hosted) -> int:
        """Return the lowest watermark of a query's streams, held back for the rows that wait."""
        lowest_us, slowed = query_watermark_us(query, self.watermarks), self.slowed.get(query.uid)
        held_us = None if slowed is None else slowed.held_us
        return lowest_us if held_us is None else min(lowest_us, held_us)

    def watermark_of_rows_us(self, query: Hosted) -> int:
        """Return the watermark by which rows of a query are late: of none that waits, and of none
        that it reads directly.
        """
        lowest_us = self.lowest_watermark_us(query)
        return max(lowest_us, self.reached_us.get(query.uid, lowest_us))

    def watermark_us(self, query: Hosted) -> int:
        """Return the watermark of a query after the rows of this batch; it never falls."""
        rows_us, direct = self.watermark_of_rows_us(query), self.direct_reads.get(query.uid)
        return rows_us if direct is None else max(rows_us, direct.watermark_us)


def query_watermark_us(query: Hosted, watermarks: Mapping[str, int]) -> int:
    """Return the lowest watermark of a query's streams."""
    return min(watermarks.get(stream, NO_WATERMARK_US) for stream in query.streams)


def results_folder(batch: int) -> str:
    """Return the folder of the results that workers write in a batch: one for each block.

    >>> results_folder(70)
    'results/data/000000000064'
    """
    return f"results/data/{batch // BLOCK_BATCHES * BLOCK_BATCHES:012d}"
