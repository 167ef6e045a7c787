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


class Hosts(NamedTuple):
    """Slots of each item (a source, or a query type): workers, and how many queries hold it there.

    The first `used[item]` slots from `start[item]` are in use, in no order. `row[item]` is where
    the item's bits begin, or -1.
    """

    start: Indices
    used: Indices
    worker: Workers
    held: Workers
    row: Indices
    bits: Hashes


def no_hosts(degrees: Indices, workers: int) -> Hosts:
    """Lay out empty slots for items that at most `degrees` queries hold."""
    start = np.concatenate(([0], np.cumsum(np.minimum(degrees, workers)))).astype(np.int64)
    slots = int(start[-1])
    words = (workers + 63) // 64
    with_row = degrees * 2 >= words
    row = np.where(with_row, (np.cumsum(with_row) - 1) * words, -1).astype(np.int64)
    return Hosts(
        start,
        np.zeros(len(degrees), dtype=np.int64),
        np.zeros(slots, dtype=np.int32),
        np.zeros(slots, dtype=np.int32),
        row,
        np.zeros(int(with_row.sum()) * words, dtype=np.uint64),
    )


@kernel
def holds(hosts: Hosts, item: int, worker: int) -> bool:
    """Tell whether the item is on the worker."""
    row = hosts.row[item]
    if row >= 0:
        word = hosts.bits[row + (worker >> 6)]
        return bool((word >> np.uint64(worker & 63)) & np.uint64(1))
    return slot_of(hosts, item, worker) >= 0


@kernel
def slot_of(hosts: Hosts, item: int, worker: int) -> int:
    """Return the slot of an item on a worker, or -1."""
    begin = hosts.start[item]
    for slot in range(begin, begin + hosts.used[item]):
        if hosts.worker[slot] == worker:
            return slot
    return -1


@kernel
def _flip(hosts: Hosts, item: int, worker: int) -> None:
    row = hosts.row[item]
    if row >= 0:
        hosts.bits[row + (worker >> 6)] ^= np.uint64(1) << np.uint64(worker & 63)


@kernel
def hold(hosts: Hosts, item: int, worker: int, count: int) -> bool:
    """Count more queries that hold the item on the worker; True if they are the first."""
    if holds(hosts, item, worker):
        hosts.held[slot_of(hosts, item, worker)] += count
        return False
    slot = hosts.start[item] + hosts.used[item]
    hosts.used[item] += 1
    hosts.worker[slot] = worker
    hosts.held[slot] = count
    _flip(hosts, item, worker)
    return True


@kernel
def release(hosts: Hosts, item: int, worker: int, count: int) -> bool:
    """Count queries off; True if they were the last and the item leaves the worker."""
    slot = slot_of(hosts, item, worker)
    hosts.held[slot] -= count
    if hosts.held[slot] > 0:
        return False
    hosts.used[item] -= 1
    last = hosts.start[item] + hosts.used[item]
    hosts.worker[slot] = hosts.worker[last]
    hosts.held[slot] = hosts.held[last]
    _flip(hosts, item, worker)
    return True
