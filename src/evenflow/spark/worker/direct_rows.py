"""Rows that queries on a worker read in the batch in which they are published there."""

from collections import defaultdict
from collections.abc import Collection
from graphlib import TopologicalSorter

import pyarrow as pa

from evenflow.spark.protocol.ledger import Entry
from evenflow.spark.protocol.registry import Hosted, Registry


class DirectRows:
    """The direct reads of one worker's batch; lives in the worker task, for one attempt.

    withdrawn  uids of publishers that failed after others could read their rows: the batch must
               run again without them
    """

    def __init__(self, registry: Registry, entry: Entry) -> None:
        self.withdrawn: set[str] = set()
        self._registry, self._reads = registry, entry.direct_reads
        self._rows: dict[str, pa.Table] = {}
        readers: dict[str, set[str]] = defaultdict(set)
        for uid, read in self._reads.items():
            for stream in read.streams:
                readers[stream].add(uid)
        self._readers = dict(readers)

    def readers(self, stream: str) -> Collection[str]:
        """Return the uids of the queries that read a stream directly."""
        return self._readers.get(stream, ())

    def publish(self, stream: str, rows: pa.Table) -> None:
        """Give rows to the readers that come after this."""
        self._rows[stream] = rows

    def read(self, query: Hosted, stream: str) -> list[pa.Table]:
        """Return what a query reads directly of a stream: one table, or none."""
        is_reader = query.uid in self.readers(stream)
        return [self._rows[stream]] if is_reader and stream in self._rows else []

    def withdraw(self, uid: str) -> None:
        """Take back the rows of a query that failed."""
        query = self._registry.by_uid.get(uid)
        if query is not None and self._rows.pop(query.name, None) is not None:
            self.withdrawn.add(uid)

    def in_order(self, uids: Collection[str], first: str) -> list[str]:
        """Return queries so that each comes after those whose rows it reads directly.

        `first`, one of them or none, comes as early as it can.
        """
        if self._reads.keys().isdisjoint(uids):
            return sorted(uids, key=lambda uid: uid != first)
        publishers = {uid: [p for p in self.publishers(uid) if p in uids] for uid in uids}
        early = self.publishers_of_all(first)
        ordered = TopologicalSorter(publishers).static_order()
        return sorted(ordered, key=lambda uid: 0 if uid in early else 1 if uid == first else 2)

    def publishers(self, uid: str) -> list[str]:
        """Return the uids of the queries whose rows a query reads directly."""
        read = self._reads.get(uid)
        return [] if read is None else [self._registry.queries[s].uid for s in read.streams]

    def publishers_of_all(self, uid: str) -> set[str]:
        """Return the publishers of a query, their publishers, and so on."""
        found: set[str] = set()
        queue = [uid]
        while queue:
            more = [p for p in self.publishers(queue.pop()) if p not in found]
            found.update(more)
            queue += more
        return found
