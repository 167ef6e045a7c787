"""Combine rows before the shuffle: the router sums up the rows of windowed aggregates per pane.

A hot key then costs its worker one partial row per pane and router task, however many rows it has:
partial rows of all chunks of a task are merged at its end. Which queries are combined is in the
ledger entry. If a query fails here, or takes too long, the router sends it the rows themselves: its
worker repeats the failure and blames the query.
"""

from collections.abc import Iterator

import pyarrow as pa

from evenflow.model import hash_keys
from evenflow.spark.protocol.envelope import for_query
from evenflow.spark.protocol.ledger import Entry, Ledger
from evenflow.spark.protocol.registry import Hosted, Registry
from evenflow.spark.worker.row_shares import shares_by_worker
from evenflow.spark.worker.worker_state import TaskRuntime
from evenflow.sql import QueryTask
from evenflow.sql.query_plan import combined_feeds
from evenflow.sql.tasks.pane_state import PaneState

MAX_KEPT_BYTES = 32 << 20  # partial rows of a query; beyond it they are sent at once


class Combiner:
    """Combines the rows of one stream in one router task.

    Tasks are opened once, have no state and are closed with the combiner. A query that fails is
    not tried again for the rest of the task.
    """

    def __init__(self, runtime: TaskRuntime, ledger: Ledger, entry: Entry, stream: str) -> None:
        self._runtime, self._stream = runtime, stream
        self._plan = ledger.plan(entry.plan_number)
        registry = ledger.registry(entry.registry_version)
        self.queries = combined_queries(registry, entry, stream)
        self._tasks: dict[str, QueryTask] = {}
        self._failed: set[str] = set()
        self._kept: dict[str, dict[int, list[pa.Table]]] = {}
        for query in self.queries:
            self._open(query, registry, ledger)

    def combine(self, query: Hosted, rows: pa.Table) -> list[tuple[int, pa.Table]] | None:
        """Keep the partial rows of a chunk; return those to send now, by worker.

        None if the query needs the rows themselves.
        """
        task = self._tasks.get(query.uid)
        if task is None or query.uid in self._failed:
            return None
        try:
            with self._runtime.time_limit(_ignore):
                partials = task.combine(self._stream, rows)
        except Exception:  # the worker repeats the failure and reports it
            self._failed.add(query.uid)
            return None
        finally:
            self._runtime.stop_watchdog()
        kept = self._kept.setdefault(query.uid, {})
        for feed, partial in partials.items():
            if len(partial):
                kept.setdefault(feed, []).append(partial)
        size = sum(partial.nbytes for parts in kept.values() for partial in parts)
        return list(self._take(query)) if size > MAX_KEPT_BYTES else []

    def rest(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield the partial rows that are still kept, by worker; after the last chunk."""
        for query in self.queries:
            yield from self._take(query)

    def close(self) -> None:
        """Close the tasks."""
        for task in self._tasks.values():
            task.close()
        self._tasks.clear()

    def _open(self, query: Hosted, registry: Registry, ledger: Ledger) -> None:
        try:
            with self._runtime.time_limit(_ignore):
                task = self._runtime.open_task(query, registry, ledger)
        except Exception:
            return
        finally:
            self._runtime.stop_watchdog()
        if isinstance(task, QueryTask):
            self._tasks[query.uid] = task

    def _take(self, query: Hosted) -> Iterator[tuple[int, pa.Table]]:
        """Yield labelled partial rows for each worker that gets some, and forget them."""
        kept = self._kept.pop(query.uid, {})
        if not kept:
            return
        task = self._tasks[query.uid]
        for feed, _, key_columns, aggregate in combined_feeds(task.plan):
            if feed.id not in kept:
                continue
            rows = self._merge(task.pane_states[aggregate], kept[feed.id])
            rows = for_query(rows, query.uid, feed.id)
            if query.name in self._plan.placement:
                yield self._plan.placement[query.name], rows
                continue
            hashes = hash_keys(*(rows[column] for column in key_columns))
            yield from shares_by_worker(
                rows, self._plan.route(query.name, hashes), self._plan.workers
            )

    def _merge(self, panes: PaneState, partials: list[pa.Table]) -> pa.Table:
        """Merge the partial rows of several chunks, unless that fails as the worker's merge may."""
        rows = pa.concat_tables(partials)
        if len(partials) == 1:
            return rows
        try:
            with self._runtime.time_limit(_ignore):
                return panes.merge_partials(rows)
        except Exception:
            return rows
        finally:
            self._runtime.stop_watchdog()


def combined_queries(registry: Registry, entry: Entry, stream: str) -> tuple[Hosted, ...]:
    """Return the queries whose rows of a stream the router combines in a batch."""
    return tuple(
        query
        for query in registry.readers(stream)
        if query.uid in entry.combined and query.uid not in entry.quarantined
    )


def _ignore() -> None:
    """Nobody is blamed for time in the router; a second attempt does not combine."""
