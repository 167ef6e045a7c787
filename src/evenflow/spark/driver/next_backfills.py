"""Backfills from one ledger entry to the next: a query takes some parts in each batch.

While it does, the rows of its streams wait as those of a slowed query do, from its first batch on.
So it computes what it would if they had come after the backfill: nothing is missed in between, and
nothing comes twice.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from evenflow.model import Plan
from evenflow.model.time import NO_WATERMARK_US
from evenflow.spark.driver.slowed_queries import Pace, WaitingTotal, next_record
from evenflow.spark.protocol.backfill import (
    BACKFILL_FOLDER,
    PART_ROWS,
    Backfill,
    BackfillParts,
    is_file_of,
    list_file,
)
from evenflow.spark.protocol.ledger import Entry, Slowed
from evenflow.spark.protocol.registry import Registry
from evenflow.storage.file_store import FileStore

REASON = "backfill"


def next_backfills(
    store: FileStore,
    entry: Entry,
    before: Registry,
    after: Registry,
    plan: Plan,
    failed: Collection[str],
) -> dict[str, Backfill]:
    """Return what each query takes in the batch after that of `entry`, by its uid in `before`.

    A query that is new begins; one that failed, or did not run, takes the same parts again.
    """
    found = {}
    for uid, backfill in entry.backfills.items():
        if uid not in before.by_uid:
            continue
        stopped = uid in failed or uid in entry.quarantined
        name = before.by_uid[uid].name
        taken = backfill if stopped else _advance(store, backfill, _parts_at_once(name, plan))
        if taken is not None:
            found[uid] = taken
    for uid, query in after.by_uid.items():
        if query.backfill is not None and uid not in before.by_uid:
            begin = Backfill(query.backfill, 0, 0, (), NO_WATERMARK_US)
            if (taken := _advance(store, begin, _parts_at_once(query.name, plan))) is not None:
                found[uid] = taken
    return found


def _parts_at_once(name: str, plan: Plan) -> int:
    return 1 if name in plan.placement else len(plan.active)


def _advance(store: FileStore, backfill: Backfill, count: int) -> Backfill | None:
    listed = store.read_record(list_file(backfill.name), BackfillParts)
    done = backfill.done + len(backfill.parts)
    parts = listed.parts[done : done + count]
    if not parts:
        return None
    return Backfill(backfill.name, done, len(listed.parts), parts, listed.held_us[done])


def hold_queries(
    slowed: Mapping[str, Slowed],
    entry: Entry,
    backfills: Mapping[str, Backfill],
    totals: Mapping[str, WaitingTotal],
    quarantined: Collection[str],
) -> dict[str, Slowed]:
    """Return the slowed queries of the next entry: those with a backfill take no other rows."""
    held = dict(slowed)
    for uid, backfill in backfills.items():
        before = entry.slowed.get(uid)
        if uid in quarantined and before is not None:  # it keeps its record
            continue
        if uid in entry.quarantined and before is not None:  # it resumes
            held[uid] = replace(before, until=before.first)
            continue
        record = next_record(entry, totals.get(uid, WaitingTotal()), before, Pace(0.0, REASON))
        held_us = backfill.held_us
        held[uid] = replace(
            record,
            reason=f"{REASON}: {backfill.done:,} of {backfill.total:,} parts done",
            held_us=held_us if record.held_us is None else min(held_us, record.held_us),
            previous_held_us=NO_WATERMARK_US if before is None else before.held_us,
        )
    return held


def catch_up_paces(
    entry: Entry,
    backfills: Mapping[str, Backfill],
    totals: Mapping[str, WaitingTotal],
) -> dict[str, Pace]:
    """Return how many of the rows that waited meanwhile a query may take after its backfill."""
    return {
        uid: Pace(float(max(PART_ROWS, 4 * totals[uid].came)), REASON)
        for uid, slowed in entry.slowed.items()
        if slowed.reason.startswith(REASON) and uid not in backfills and uid in totals
        if totals[uid].rows
    }


def begin_backfills(store: FileStore, entry: Entry, registry: Registry, plan: Plan) -> Entry:
    """Return the first entry of a checkpoint, in which queries begin with their backfills."""
    before = replace(entry, batch=entry.batch - 1)
    backfills = next_backfills(store, before, Registry(), registry, plan, ())
    slowed = hold_queries({}, before, backfills, {}, ())
    return replace(entry, backfills=backfills, slowed=slowed)


def finished_backfills(entry: Entry, following: Entry) -> set[str]:
    """Return the names of the backfills that have ended, or were given up, with a batch."""
    taken = {backfill.name for backfill in following.backfills.values()}
    return {backfill.name for backfill in entry.backfills.values()} - taken


def delete_backfill(store: FileStore, name: str) -> None:
    """Delete the rows of a backfill; lists nothing."""
    file = list_file(name)
    if store.exists(file):
        listed = store.read_record(file, BackfillParts)
        store.delete([*(part.rows.file for part in listed.parts), file])


def delete_strays(store: FileStore, head: Entry, hosted: Registry, upcoming: Registry) -> None:
    """Delete what an earlier driver left: of backfills that have ended, or never began.

    `upcoming` is what will be hosted after the commands that wait.
    """
    names = {backfill.name for backfill in head.backfills.values()}
    arriving = [query for uid, query in upcoming.by_uid.items() if uid not in hosted.by_uid]
    names |= {query.backfill for query in arriving if query.backfill is not None}
    files = store.list_names(BACKFILL_FOLDER)
    store.delete(f"{BACKFILL_FOLDER}/{file}" for file in files if not is_file_of(file, names))
