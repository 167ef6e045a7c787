"""Direct reads: a whole query takes rows of a publisher on its worker as they are published.

Others get the rows of a derived stream one batch later. The ledger entry says who reads what
directly, so a batch that runs again does the same; the entry after it says what was read so, and is
not to be read again. Pure functions.

A batch with a direct read is, for the reader, as two: one with the rows, by the watermark that it
had, and one without rows, by the watermark that its publishers now have. Rows that a publisher
gives in a batch are not behind its watermark of the batch before, so none of them is late.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from graphlib import TopologicalSorter

from evenflow.model import Plan
from evenflow.model.time import NO_WATERMARK_US
from evenflow.spark.protocol.ledger import DirectRead, Entry
from evenflow.spark.protocol.registry import Hosted, Registry


def find_direct_reads(
    entry: Entry, registry: Registry, plan: Plan, reset_streams: Collection[str] = ()
) -> dict[str, DirectRead]:
    """Return the direct reads in the batch of an entry, by the uids of the readers.

    Both queries run on one worker as a whole, and nothing holds their rows back. A query in update
    mode gives each result at most once in a batch, so it reads later. A query and the one that will
    take its place must have seen the same rows after every batch, so they do, too.
    """
    held_back = {*entry.slowed, *entry.backfills, *entry.quarantined, *entry.resumed}
    running = {
        name: query
        for name, query in registry.queries.items()
        if name in plan.placement and query.uid not in held_back
    }
    replaced = {query.replaces for query in registry.queries.values() if query.replaces is not None}
    found: dict[str, tuple[str, ...]] = {}
    for name, query in running.items():
        if query.upsert_key is not None or query.replaces is not None or name in replaced:
            continue
        streams = tuple(
            stream
            for stream in query.streams
            if registry.streams[stream].derived
            and stream in running
            and stream not in reset_streams
            and plan.placement[stream] == plan.placement[name]
        )
        if streams:
            found[name] = streams
    return _with_watermarks(entry, registry, found)


def _with_watermarks(
    entry: Entry, registry: Registry, reads: Mapping[str, tuple[str, ...]]
) -> dict[str, DirectRead]:
    """Return the direct reads, given the streams of each reader by name."""
    found: dict[str, DirectRead] = {}
    reached_us: dict[str, int] = {}  # by name: the watermark after this batch

    def stream_us(query: Hosted, stream: str) -> int:
        later_us = entry.watermarks.get(stream, NO_WATERMARK_US)
        if stream not in reads.get(query.name, ()) or reached_us[stream] <= NO_WATERMARK_US:
            return later_us
        return max(later_us, reached_us[stream] - registry.streams[stream].delay_us)

    for name in TopologicalSorter(reads).static_order():  # publishers before their readers
        query = registry.queries[name]
        reached_us[name] = entry.watermark_of_rows_us(query)
        if name in reads:
            lowest_us = min(stream_us(query, stream) for stream in query.streams)
            reached_us[name] = max(reached_us[name], lowest_us)
            found[query.uid] = DirectRead(reads[name], reached_us[name])
    return found


def with_direct_reads(
    following: Entry,
    before: Entry,
    registry: Registry,
    plan: Plan,
    reset_streams: Collection[str] = (),
) -> Entry:
    """Return the entry that follows `before`, with its direct reads and what was read directly.

    registry, plan  those in force in `following`
    before          with the uids that queries have in `registry`
    reset_streams   streams whose watermarks were set back: their readers begin again from there
    """
    following = replace(
        following,
        already_read={
            uid: read.streams for uid, read in before.direct_reads.items() if uid in registry.by_uid
        },
        reached_us=next_reached_us(before, registry, reset_streams),
    )
    return replace(
        following, direct_reads=find_direct_reads(following, registry, plan, reset_streams)
    )


def next_reached_us(
    before: Entry, registry: Registry, reset_streams: Collection[str]
) -> dict[str, int]:
    """Return the watermarks of the batch of `before` that were above the lowest of a query."""
    reached_us = {}
    for uid in [*before.direct_reads, *before.reached_us]:
        query = registry.by_uid.get(uid)
        if query is None or not set(reset_streams).isdisjoint(query.streams):
            continue
        if (us := before.watermark_us(query)) > before.lowest_watermark_us(query):
            reached_us[uid] = us
    return reached_us
