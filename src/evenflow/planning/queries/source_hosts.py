"""Which workers a source flows to, and for how many queries: sparse, linear in subscriptions.

A source that q queries may ever read is on at most min(q, k) workers at once, so its slots are
laid out beforehand and all slots together never exceed the number of subscriptions. Sources that
may have many slots also have a row of bits, one a worker, to tell presence without a search; a
row is laid out only if it is no larger than 16 bytes for each subscription it serves.
"""

from typing import NamedTuple

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Hashes, Indices, Workers


class SourceHosts(NamedTuple):
    """Slots of each item (a source, or a query type): workers, and how many queries hold it there.

    The first `used[item]` slots from `start[item]` are in use, in no order. `row[item]` is where
    the item's bits begin, or -1.
    """

    first_entry: Indices
    entry_count: Indices
    worker: Workers
    query_count: Workers
    bit_row: Indices
    bits: Hashes


def empty_hosts(degrees: Indices, workers: int) -> SourceHosts:
    """Lay out empty slots for items that at most `degrees` queries hold."""
    start = np.concatenate(([0], np.cumsum(np.minimum(degrees, workers)))).astype(np.int64)
    slots = int(start[-1])
    words = (workers + 63) // 64
    with_row = degrees * 2 >= words
    row = np.where(with_row, (np.cumsum(with_row) - 1) * words, -1).astype(np.int64)
    return SourceHosts(
        start,
        np.zeros(len(degrees), dtype=np.int64),
        np.zeros(slots, dtype=np.int32),
        np.zeros(slots, dtype=np.int32),
        row,
        np.zeros(int(with_row.sum()) * words, dtype=np.uint64),
    )


@kernel
def is_hosted(hosts: SourceHosts, item: int, worker: int) -> bool:
    """Tell whether the item is on the worker."""
    row = hosts.bit_row[item]
    if row >= 0:
        word = hosts.bits[row + (worker >> 6)]
        return bool((word >> np.uint64(worker & 63)) & np.uint64(1))
    return entry_of(hosts, item, worker) >= 0


@kernel
def entry_of(hosts: SourceHosts, item: int, worker: int) -> int:
    """Return the slot of an item on a worker, or -1."""
    begin = hosts.first_entry[item]
    for slot in range(begin, begin + hosts.entry_count[item]):
        if hosts.worker[slot] == worker:
            return slot
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
    slot = hosts.first_entry[item] + hosts.entry_count[item]
    hosts.entry_count[item] += 1
    hosts.worker[slot] = worker
    hosts.query_count[slot] = count
    _flip_bit(hosts, item, worker)
    return True


@kernel
def remove_host(hosts: SourceHosts, item: int, worker: int, count: int) -> bool:
    """Count queries off; True if they were the last and the item leaves the worker."""
    slot = entry_of(hosts, item, worker)
    hosts.query_count[slot] -= count
    if hosts.query_count[slot] > 0:
        return False
    hosts.entry_count[item] -= 1
    last = hosts.first_entry[item] + hosts.entry_count[item]
    hosts.worker[slot] = hosts.worker[last]
    hosts.query_count[slot] = hosts.query_count[last]
    _flip_bit(hosts, item, worker)
    return True
