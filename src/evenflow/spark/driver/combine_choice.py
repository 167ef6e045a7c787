"""Choose the aggregates whose rows the router combines before the shuffle. Pure.

Combining costs the router one grouping per chunk of rows; it pays if many rows become few partial
rows. Both numbers are in the reports of the last batch.
"""

from collections import Counter
from collections.abc import Collection, Iterable

from evenflow.spark.protocol.ledger import Entry
from evenflow.spark.protocol.registry import Registry
from evenflow.spark.protocol.report import Report

MIN_ROWS = 20_000  # of a batch; below, a grouping per router task costs more than it saves
MIN_ROWS_PER_GROUP = 8  # to begin: every router task makes its own partial row of a group
MIN_ROWS_PER_PARTIAL = 2  # to go on


def next_combined(
    entry: Entry, registry: Registry, reports: Iterable[Report], excluded: Collection[str]
) -> frozenset[str]:
    """Return the uids to combine in the next batch; a query without rows stays as it is."""
    rows_in: Counter[str] = Counter()
    groups: Counter[str] = Counter()
    for report in reports:
        for uid, stats in report.query_stats.items():
            rows_in[uid] += stats.rows_in
            groups[uid] += stats.groups
    combined = set()
    for uid, query in registry.by_uid.items():
        was_combined = uid in entry.combined
        ratio = MIN_ROWS_PER_PARTIAL if was_combined else MIN_ROWS_PER_GROUP
        pays = rows_in[uid] >= MIN_ROWS and 0 < groups[uid] * ratio <= rows_in[uid]
        reads_sources = not any(registry.streams[stream].derived for stream in query.streams)
        if uid not in excluded and reads_sources and (pays or (was_combined and not rows_in[uid])):
            combined.add(uid)
    return frozenset(combined)


def uncombined_queries(reports: Iterable[Report]) -> set[str]:
    """Return the queries whose rows the router should have combined and could not."""
    return {
        uid for report in reports for uid, stats in report.query_stats.items() if stats.uncombined
    }
