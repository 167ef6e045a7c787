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
- Fixed keys (see `balance_goal`) are neither taken away nor evicted.
- The kernel works on records of any number of equal keys, of which some may go and others stay: the
  compact representation of section IV. A plain key is a record of one.

Why it ends, and quickly: evicted keys are strictly lighter than the key that evicts them, so the
costs of popped keys never grow. A key once put down is therefore never evicted again, and a key
that is too heavy to be evicted stays so. Each key enters and leaves each of its worker's two heaps
(by psi, by cost) at most once: O(K log K) over all, and both heaps are built only for workers
that need them.
"""

import heapq

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import NOWHERE, Bools, Floats, Indices, Workers


def llfd_owners(
    cost: Floats, psi: Floats, owner: Workers, fixed: Bools, workers: int, limit: float
) -> Workers:
    """Return new owners with every worker at or below the limit, where that is possible.

    The worked example of figure 4: six keys, loads 16 and 4 become 10 and 10.

    >>> cost = np.array([7.0, 4, 2, 1, 5, 1])
    >>> owner = np.array([0, 0, 1, 1, 0, 1], dtype=np.int32)
    >>> new = llfd_owners(cost, cost, owner, np.zeros(6, np.bool_), workers=2, limit=10)
    >>> np.bincount(new, weights=cost).tolist(), new.tolist()
    ([10.0, 10.0], [1, 0, 1, 0, 0, 1])
    """
    new = owner.copy()
    one_each = np.ones(len(cost), dtype=np.int32)
    keys, targets = llfd_records(cost, psi, owner, one_each, fixed, workers, limit)
    new[keys] = targets
    return new


def llfd_plain(
    cost: Floats, psi: Floats, owner: Workers, fixed: Bools, workers: int, limit: float
) -> Workers:
    """LLFD in plain Python: the kernel's explanation and oracle."""
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
def _ranks_before(rank: Floats, one: int, other: int) -> bool:
    """Return whether a key comes first: larger rank, then lower key."""
    return rank[one] > rank[other] or (rank[one] == rank[other] and one < other)


@kernel
def _sift_down(heap: Indices, start: int, size: int, at: int, rank: Floats) -> None:
    """Let one key sink to its place in heap[start:start+size]."""
    key = heap[start + at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and _ranks_before(rank, heap[start + child + 1], heap[start + child]):
            child += 1
        if not _ranks_before(rank, heap[start + child], key):
            break
        heap[start + at] = heap[start + child]
        at = child
    heap[start + at] = key


@kernel
def build_heap(heap: Indices, start: int, size: int, rank: Floats) -> None:
    """Arrange heap[start:start+size] with the first key in rank order on top."""
    for at in range(size // 2 - 1, -1, -1):
        _sift_down(heap, start, size, at, rank)


@kernel
def pop_heap(heap: Indices, start: int, size: int, rank: Floats) -> int:
    """Take the top off a heap of `size` keys; the caller counts the size down."""
    top = int(heap[start])
    heap[start] = heap[start + size - 1]
    if size > 1:
        _sift_down(heap, start, size - 1, 0, rank)
    return top


@kernel
def movable_keys_by_worker(owner: Workers, fixed: Bools, workers: int) -> tuple[Indices, Indices]:
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
def llfd_records(
    cost: Floats,
    psi: Floats,
    owner: Workers,
    count: Workers,
    fixed: Bools,
    workers: int,
    limit: float,
) -> tuple[Indices, Workers]:
    """Return what is put down, one key of a record at a time: its record and its worker."""
    there = count.copy()  # keys of each record that are still where they were
    load = np.zeros(workers)
    for record in range(len(owner)):
        load[owner[record]] += cost[record] * there[record]
    records, targets = [0], [0]
    records.pop()
    targets.pop()

    by_psi, starts = movable_keys_by_worker(owner, fixed, workers)
    by_cost = by_psi.copy()
    sizes = starts[1:] - starts[:-1]
    cost_sizes = sizes.copy()
    has_psi = np.zeros(workers, dtype=np.bool_)
    has_cost = np.zeros(workers, dtype=np.bool_)
    evictable = np.zeros(workers)  # load of keys lighter than the one being placed
    candidates = [(0.0, 0, 0)]
    candidates.pop()

    for worker in range(workers):  # Phase II
        if load[worker] > limit:
            build_heap(by_psi, starts[worker], sizes[worker], psi)
            has_psi[worker] = True
        while load[worker] > limit and sizes[worker] > 0:
            record = by_psi[starts[worker]]
            number = _count_to_cover(load[worker] - limit, cost[record], there[record])
            there[record] -= number
            load[worker] -= cost[record] * number
            candidates.append((-cost[record], record, number))
            if there[record] == 0:
                pop_heap(by_psi, starts[worker], sizes[worker], psi)
                sizes[worker] -= 1
    heapq.heapify(candidates)

    while len(candidates) > 0:  # Phase III
        _, record, number = heapq.heappop(candidates)
        if number > 1:  # one key at a time; the others come next
            heapq.heappush(candidates, (-cost[record], record, number - 1))
        weight = cost[record]
        chosen = int(np.argmin(load))
        accepted = load[chosen] + weight <= limit
        if not accepted:
            refuge, least = -1, np.inf
            for worker in np.argsort(load, kind="mergesort"):
                start = starts[worker]
                if not has_cost[worker]:
                    build_heap(by_cost, start, cost_sizes[worker], cost)
                    has_cost[worker] = True
                    for at in range(start, start + cost_sizes[worker]):
                        evictable[worker] += cost[by_cost[at]] * there[by_cost[at]]
                while cost_sizes[worker] > 0 and cost[by_cost[start]] >= weight:
                    heavy = pop_heap(by_cost, start, cost_sizes[worker], cost)
                    cost_sizes[worker] -= 1
                    evictable[worker] -= cost[heavy] * there[heavy]
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
            build_heap(by_psi, start, sizes[chosen], psi)
            has_psi[chosen] = True
        while sizes[chosen] > 0 and (not accepted or load[chosen] + weight > limit):
            lighter = by_psi[start]
            if cost[lighter] < weight:
                excess = load[chosen] + weight - limit if accepted else np.inf
                number = _count_to_cover(excess, cost[lighter], there[lighter])
                there[lighter] -= number
                load[chosen] -= cost[lighter] * number
                evictable[chosen] -= cost[lighter] * number
                heapq.heappush(candidates, (-cost[lighter], lighter, number))
            if there[lighter] == 0 or cost[lighter] >= weight:  # too heavy now and for good
                pop_heap(by_psi, start, sizes[chosen], psi)
                sizes[chosen] -= 1
        records.append(record)
        targets.append(chosen)
        load[chosen] += weight
    return np.array(records, dtype=np.int64), np.array(targets, dtype=np.int32)


@kernel
def _count_to_cover(excess: float, cost: float, number: int) -> int:
    """Return how many of `number` equal keys must go so that their load covers the excess."""
    if cost * number <= excess:
        return number
    return min(number, max(1, int(np.ceil(excess / cost))))
