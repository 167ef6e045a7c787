"""Least-Load Fit Decreasing, algorithm 1 of mixed-key-routing, section III-A.

Phase II takes keys away from every worker above L_max, the first ones in the order psi that
suffice. Phase III puts them down again, the heaviest first, each on the least loaded worker
that accepts it. A worker accepts a key k if it fits below L_max, or fits once keys lighter than
k, taken in the order psi, have been evicted (Adjust); evicted keys become candidates again.

Letters: c cost, psi priority (larger goes first), L loads, L_max limit, C candidates, E evicted.

Departures
- The fit test is `<=`, as in the text and as the worked example needs; the listing prints `<`.
- Loads are one running estimate: initialised after Phase II, updated by placements and
  evictions. The listing reads the loads of the last interval throughout.
- No worker accepts k (unspecified): the worker with the least load that cannot be evicted takes
  it and all its lighter keys become candidates. That keeps mean + c (1 - 1/n).
- Fixed keys (see `bound`) are neither taken away nor evicted.

Why it ends, and quickly: evicted keys are strictly lighter than the key that evicts them, so the
costs of popped keys never grow. A key once put down is therefore never evicted again, and a key
that is too heavy to be evicted stays so. Each key enters and leaves each of its worker's two heaps
(by psi, by cost) at most once: O(K log K) over all, and both heaps are built only for workers
that need them.
"""

import heapq

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Bools, Floats, Indices, Workers

NOWHERE = -1


def llfd(
    cost: Floats, psi: Floats, owner: Workers, fixed: Bools, workers: int, limit: float
) -> Workers:
    """Return new owners with every worker at or below the limit, where that can be had.

    The worked example of figure 4: six keys, loads 16 and 4 become 10 and 10.

    >>> cost = np.array([7.0, 4, 2, 1, 5, 1])
    >>> owner = np.array([0, 0, 1, 1, 0, 1], dtype=np.int32)
    >>> new = llfd(cost, cost, owner, np.zeros(6, np.bool_), workers=2, limit=10)
    >>> np.bincount(new, weights=cost).tolist(), new.tolist()
    ([10.0, 10.0], [1, 0, 1, 0, 0, 1])
    """
    return _llfd(cost, psi, owner, fixed, workers, limit)


def llfd_plain(
    cost: Floats, psi: Floats, owner: Workers, fixed: Bools, workers: int, limit: float
) -> Workers:
    """LLFD as one would tell it: the kernel's explanation and oracle."""
    new = [int(worker) for worker in owner]
    load = [0.0] * workers
    for key, worker in enumerate(new):
        load[worker] += cost[key]

    def in_psi_order(worker: int) -> list[int]:
        there = [k for k in range(len(new)) if new[k] == worker and not fixed[k]]
        return sorted(there, key=lambda k: (-psi[k], k))

    candidates: list[tuple[float, int]] = []

    def take_away(key: int) -> None:
        load[new[key]] -= cost[key]
        new[key] = NOWHERE
        heapq.heappush(candidates, (-cost[key], key))

    for worker in range(workers):
        for key in in_psi_order(worker):
            if load[worker] <= limit:
                break
            take_away(key)

    while candidates:
        _, key = heapq.heappop(candidates)
        chosen, least = NOWHERE, float("inf")
        for worker in sorted(range(workers), key=lambda d: (load[d], d)):
            lighter = [k for k in in_psi_order(worker) if cost[k] < cost[key]]
            stays = load[worker] - sum(cost[k] for k in lighter)
            if load[worker] + cost[key] <= limit or (lighter and stays + cost[key] <= limit):
                chosen = worker
                break
            if stays < least:
                least, refuge = stays, worker
        accepted = chosen != NOWHERE
        chosen = chosen if accepted else refuge
        for evicted in [k for k in in_psi_order(chosen) if cost[k] < cost[key]]:
            if accepted and load[chosen] + cost[key] <= limit:
                break
            take_away(evicted)
        new[key] = chosen
        load[chosen] += cost[key]
    return np.array(new, dtype=np.int32)


@kernel
def _before(rank: Floats, one: int, other: int) -> bool:
    """Tell whether a key comes first: larger rank, then lower key."""
    return rank[one] > rank[other] or (rank[one] == rank[other] and one < other)


@kernel
def _sift(heap: Indices, start: int, size: int, at: int, rank: Floats) -> None:
    """Let one key sink to its place in heap[start:start+size]."""
    key = heap[start + at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and _before(rank, heap[start + child + 1], heap[start + child]):
            child += 1
        if not _before(rank, heap[start + child], key):
            break
        heap[start + at] = heap[start + child]
        at = child
    heap[start + at] = key


@kernel
def heapify(heap: Indices, start: int, size: int, rank: Floats) -> None:
    """Arrange heap[start:start+size] with the first key in rank order on top."""
    for at in range(size // 2 - 1, -1, -1):
        _sift(heap, start, size, at, rank)


@kernel
def pop(heap: Indices, start: int, size: int, rank: Floats) -> int:
    """Take the top off a heap of `size` keys; the caller counts the size down."""
    top = heap[start]
    heap[start] = heap[start + size - 1]
    if size > 1:
        _sift(heap, start, size - 1, 0, rank)
    return top


@kernel
def members(owner: Workers, fixed: Bools, workers: int) -> tuple[Indices, Indices]:
    """Return the movable keys grouped by worker, and where each worker's group starts."""
    starts = np.zeros(workers + 1, dtype=np.int64)
    for key in range(len(owner)):
        if not fixed[key]:
            starts[owner[key] + 1] += 1
    for worker in range(workers):
        starts[worker + 1] += starts[worker]
    grouped = np.empty(starts[workers], dtype=np.int64)
    at = starts[:-1].copy()
    for key in range(len(owner)):
        if not fixed[key]:
            grouped[at[owner[key]]] = key
            at[owner[key]] += 1
    return grouped, starts


@kernel
def _llfd(
    cost: Floats, psi: Floats, owner: Workers, fixed: Bools, workers: int, limit: float
) -> Workers:
    new = owner.copy()
    load = np.zeros(workers)
    for key in range(len(new)):
        load[new[key]] += cost[key]
    if load.max() <= limit:
        return new

    by_psi, starts = members(owner, fixed, workers)
    by_cost = by_psi.copy()
    sizes = starts[1:] - starts[:-1]
    cost_sizes = sizes.copy()
    has_psi = np.zeros(workers, dtype=np.bool_)
    has_cost = np.zeros(workers, dtype=np.bool_)
    evictable = np.zeros(workers)  # load of keys lighter than the one being placed
    counted = np.zeros(len(new), dtype=np.bool_)  # keys that are part of that sum
    candidates = [(0.0, 0)]
    candidates.pop()

    for worker in range(workers):  # Phase II
        if load[worker] > limit:
            heapify(by_psi, starts[worker], sizes[worker], psi)
            has_psi[worker] = True
        while load[worker] > limit and sizes[worker] > 0:
            key = pop(by_psi, starts[worker], sizes[worker], psi)
            sizes[worker] -= 1
            load[worker] -= cost[key]
            new[key] = NOWHERE
            candidates.append((-cost[key], key))
    heapq.heapify(candidates)

    while len(candidates) > 0:  # Phase III
        key = heapq.heappop(candidates)[1]
        weight = cost[key]
        chosen = np.argmin(load)
        accepted = load[chosen] + weight <= limit
        if not accepted:
            refuge, least = -1, np.inf
            for worker in np.argsort(load, kind="mergesort"):
                start = starts[worker]
                if not has_cost[worker]:
                    heapify(by_cost, start, cost_sizes[worker], cost)
                    has_cost[worker] = True
                    for at in range(start, start + cost_sizes[worker]):
                        if new[by_cost[at]] == worker:
                            evictable[worker] += cost[by_cost[at]]
                            counted[by_cost[at]] = True
                while cost_sizes[worker] > 0 and cost[by_cost[start]] >= weight:
                    passed = pop(by_cost, start, cost_sizes[worker], cost)
                    cost_sizes[worker] -= 1
                    if counted[passed]:
                        evictable[worker] -= cost[passed]
                        counted[passed] = False
                stays = load[worker] - evictable[worker]
                if stays + weight <= limit:
                    chosen, accepted = worker, True
                    break
                if stays < least:
                    least, refuge = stays, worker
            if not accepted:
                chosen = refuge
        start = starts[chosen]
        if load[chosen] + weight > limit and not has_psi[chosen]:
            heapify(by_psi, start, sizes[chosen], psi)
            has_psi[chosen] = True
        while sizes[chosen] > 0 and (not accepted or load[chosen] + weight > limit):
            evicted = pop(by_psi, start, sizes[chosen], psi)
            sizes[chosen] -= 1
            if new[evicted] != chosen or cost[evicted] >= weight:
                continue  # gone already, or too heavy now and for good
            load[chosen] -= cost[evicted]
            if counted[evicted]:
                evictable[chosen] -= cost[evicted]
                counted[evicted] = False
            new[evicted] = NOWHERE
            heapq.heappush(candidates, (-cost[evicted], evicted))
        new[key] = chosen
        load[chosen] += weight
    return new
