"""Which workers a source flows to, and for how many queries: sparse, linear in subscriptions.

A source that at most q queries read is on at most min(q, k) workers at once, so its entries are
allocated in advance and all entries together never exceed the number of subscriptions. Sources
with many entries also have a row of bits, one for each worker, to test presence without a search; a
row is allocated only if it takes at most 16 bytes for each subscription it serves.
"""

from typing import NamedTuple

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Hashes, Indices, Workers


class SourceHosts(NamedTuple):
    """The workers of each item (a source, or a query type), and how many queries hold it there.

    The first `entry_count[item]` entries from `first_entry[item]` are in use, in no order.
    `bit_row[item]` is where the item's bits begin, or -1.
    """

    first_entry: Indices
    entry_count: Indices
    worker: Workers
    query_count: Workers
    bit_row: Indices
    bits: Hashes


def empty_hosts(degrees: Indices, workers: int) -> SourceHosts:
    """Allocate entries for items that at most `degrees` queries hold."""
    start = np.concatenate(([0], np.cumsum(np.minimum(degrees, workers)))).astype(np.int64)
    entries = int(start[-1])
    words = (workers + 63) // 64
    with_row = degrees * 2 >= words
    row = np.where(with_row, (np.cumsum(with_row) - 1) * words, -1).astype(np.int64)
    return SourceHosts(
        start,
        np.zeros(len(degrees), dtype=np.int64),
        np.zeros(entries, dtype=np.int32),
        np.zeros(entries, dtype=np.int32),
        row,
        np.zeros(int(with_row.sum()) * words, dtype=np.uint64),
    )


@kernel
def is_hosted(hosts: SourceHosts, item: int, worker: int) -> bool:
    """Return whether the item is on the worker."""
    row = hosts.bit_row[item]
    if row >= 0:
        word = hosts.bits[row + (worker >> 6)]
        return bool((word >> np.uint64(worker & 63)) & np.uint64(1))
    return entry_of(hosts, item, worker) >= 0


@kernel
def entry_of(hosts: SourceHosts, item: int, worker: int) -> int:
    """Return the entry of an item on a worker, or -1."""
    begin = hosts.first_entry[item]
    for entry in range(begin, begin + hosts.entry_count[item]):
        if hosts.worker[entry] == worker:
            return entry
    return -1


@kernel
def _flip_bit(hosts: SourceHosts, item: int, worker: int) -> None:
    row = hosts.bit_row[item]
    if row >= 0:
        hosts.bits[row + (worker >> 6)] ^= np.uint64(1) << np.uint64(worker & 63)


@kernel
def add_host(hosts: SourceHosts, item: int, worker: int, count: int) -> bool:
    """Count more queries that hold the item on the worker; True if they are the first."""
    if is_hosted(hosts, item, worker):
        hosts.query_count[entry_of(hosts, item, worker)] += count
        return False
    entry = hosts.first_entry[item] + hosts.entry_count[item]
    hosts.entry_count[item] += 1
    hosts.worker[entry] = worker
    hosts.query_count[entry] = count
    _flip_bit(hosts, item, worker)
    return True


@kernel
def remove_host(hosts: SourceHosts, item: int, worker: int, count: int) -> bool:
    """Count fewer queries; True if they were the last and the item leaves the worker."""
    entry = entry_of(hosts, item, worker)
    hosts.query_count[entry] -= count
    if hosts.query_count[entry] > 0:
        return False
    hosts.entry_count[item] -= 1
    last = hosts.first_entry[item] + hosts.entry_count[item]
    hosts.worker[entry] = hosts.worker[last]
    hosts.query_count[entry] = hosts.query_count[last]
    _flip_bit(hosts, item, worker)
    return True
