"""Rounds of IC and MMS without trying every pair: inverted indexes and lazy heaps.

Both take, round by round, the pair of a group of equal queries and a worker with room that is
cheapest, and differ only in whether the worker's present traffic counts. For each worker the
cheapest group is one of three: groups with two or more sources there (a heap, filled when the
worker receives a source), groups with one source there (for each of its sources the first
unplaced group in order of cost), and groups with none (the first unplaced of all). What a worker
has found stays true until it receives something or the group is used up, and it can only get
dearer without that, so a worker looks again only when it would win.
"""

import heapq
from typing import NamedTuple

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Bools, Floats, Indices
from evenflow.planning.queries.offline import OfflineFill, assign_queries, fitting_count
from evenflow.planning.queries.source_hosts import is_hosted


class GroupIndex(NamedTuple):
    """Where groups are found.

    source_starts, groups_of_source  the groups that read each source, cheapest first
    order         all groups, cheapest first
    head          where the unplaced groups of each source begin; the last entry is for `order`
    position      how far each worker has looked through `order`
    """

    source_starts: Indices
    groups_of_source: Indices
    order: Indices
    head: Indices
    position: Indices


def fill_by_rounds(poured: OfflineFill, *, whole_traffic: bool) -> None:
    """Pour all groups: by the worker's traffic after the round, or only by what it adds."""
    start, items = groups_of_source(poured)
    order = np.lexsort((-poured.groups.size, poured.group_traffic))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    source = np.repeat(np.arange(len(poured.rates)), np.diff(start))
    index = GroupIndex(
        start,
        items[np.lexsort((rank[items], source))],
        order,
        np.append(start[:-1], 0),
        np.zeros(len(poured.free_capacity), dtype=np.int64),
    )
    _fill_by_rounds(poured, index, whole_traffic)


def fill_by_rounds_plain(poured: OfflineFill, *, whole_traffic: bool) -> None:
    """Pour all groups by trying every pair in every round: the kernel's oracle."""
    while True:
        pairs = [
            (
                added_traffic(poured, item, worker) + whole_traffic * float(poured.traffic[worker]),
                -int(poured.groups.size[item]),
                item,
                worker,
            )
            for item in range(len(poured.unplaced))
            for worker in range(len(poured.free_capacity))
            if fitting_count(poured, item, worker)
        ]
        if not pairs:
            return
        _, _, item, worker = min(pairs)
        assign_queries(poured, item, worker, fitting_count(poured, item, worker))


def groups_of_source(poured: OfflineFill) -> tuple[Indices, Indices]:
    """Return the inverted index: the groups that read each source."""
    groups = poured.groups
    order = np.argsort(groups.sources, kind="stable")
    owner = np.repeat(np.arange(len(groups.size), dtype=np.int64), np.diff(groups.source_starts))
    degrees = np.bincount(groups.sources, minlength=len(poured.rates))
    start = np.concatenate(([0], np.cumsum(degrees))).astype(np.int64)
    return start, owner[order]


@kernel
def added_traffic(poured: OfflineFill, item: int, worker: int) -> float:
    """Return the traffic that a group would add to a worker."""
    groups = poured.groups
    cost = 0.0
    for at in range(groups.source_starts[item], groups.source_starts[item + 1]):
        if not is_hosted(poured.hosts, groups.sources[at], worker):
            cost += poured.rates[groups.sources[at]]
    return cost


@kernel
def _fill_by_rounds(poured: OfflineFill, index: GroupIndex, whole_traffic: bool) -> None:
    groups, workers = poured.groups, len(poured.free_capacity)
    if len(groups.size) == 0:
        return
    shared = [[(0.0, 0, 0) for _ in range(0)] for _ in range(workers)]
    single = [[(0.0, 0, 0, 0, 0) for _ in range(0)] for _ in range(workers)]
    value = np.full(workers, -np.inf)
    choice = np.zeros(workers, dtype=np.int64)
    stale = np.ones(workers, dtype=np.bool_)
    for source in range(len(poured.rates)):
        begin = poured.hosts.first_entry[source]
        for slot in range(begin, begin + poured.hosts.entry_count[source]):
            worker = int(poured.hosts.worker[slot])
            _add_received_source(poured, index, shared[worker], single[worker], source, worker)
    while True:
        best = _cheapest_worker(groups.size, value, choice, stale)
        if best < 0:
            return
        item = int(choice[best])
        if stale[best] or fitting_count(poured, item, best) == 0:
            cost, item = _cheapest_group(poured, index, shared[best], single[best], best)
            value[best] = cost + poured.traffic[best] if whole_traffic else cost
            choice[best] = item
            stale[best] = False
            continue
        new = [
            int(groups.sources[at])
            for at in range(groups.source_starts[item], groups.source_starts[item + 1])
            if not is_hosted(poured.hosts, groups.sources[at], best)
        ]
        assign_queries(poured, item, best, fitting_count(poured, item, best))
        for received in new:
            _add_received_source(poured, index, shared[best], single[best], received, best)
        if len(new) > 0:
            # Whatever the worker shares sources with now may be cheaper than anything known.
            stale[best] = True


@kernel
def _cheapest_worker(size: Indices, value: Floats, choice: Indices, stale: Bools) -> int:
    """Return the worker whose choice comes first: value, larger group, appearance, index."""
    best = -1
    for worker in range(len(value)):
        if stale[worker]:
            return worker
        if choice[worker] < 0:
            continue
        if best < 0 or value[worker] < value[best]:
            best = worker
        elif value[worker] == value[best]:
            mine, other = choice[worker], choice[best]
            if size[mine] > size[other] or (size[mine] == size[other] and mine < other):
                best = worker
    return best


@kernel
def _first_fitting(
    poured: OfflineFill, index: GroupIndex, source: int, at: int, worker: int
) -> int:
    """Return the position of the source's first group from `at` on that the worker can take."""
    head, end = index.head, index.source_starts[source + 1]
    while head[source] < end and poured.unplaced[index.groups_of_source[head[source]]] == 0:
        head[source] += 1
    at = max(at, head[source])
    while at < end and fitting_count(poured, index.groups_of_source[at], worker) == 0:
        at += 1
    return at


@kernel
def _first_fitting_overall(poured: OfflineFill, index: GroupIndex, worker: int) -> int:
    """Return the position in `order` of the first group that the worker can take, or the end."""
    head, end = index.head, len(index.order)
    while head[-1] < end and poured.unplaced[index.order[head[-1]]] == 0:
        head[-1] += 1
    at = max(index.position[worker], head[-1])
    while at < end and fitting_count(poured, index.order[at], worker) == 0:
        at += 1
    index.position[worker] = at
    return int(at)


@kernel
def _add_received_source(
    poured: OfflineFill,
    index: GroupIndex,
    shared: list[tuple[float, int, int]],
    single: list[tuple[float, int, int, int, int]],
    source: int,
    worker: int,
) -> None:
    """Note which groups became cheaper for a worker that has just received a source."""
    groups, end = poured.groups, index.source_starts[source + 1]
    if poured.free_capacity[worker] < poured.min_query_load:
        return
    at = _first_fitting(poured, index, source, 0, worker)
    if at < end:
        item = index.groups_of_source[at]
        cost = poured.group_traffic[item] - poured.rates[source]
        heapq.heappush(single, (cost, -groups.size[item], item, at, source))
    for other in range(index.head[source], end):
        item = index.groups_of_source[other]
        if (
            poured.unplaced[item] == 0
            or groups.source_starts[item + 1] - groups.source_starts[item] < 2
        ):
            continue
        hosted = 0
        for slot in range(groups.source_starts[item], groups.source_starts[item + 1]):
            hosted += is_hosted(poured.hosts, groups.sources[slot], worker)
        if hosted > 1:
            heapq.heappush(shared, (added_traffic(poured, item, worker), -groups.size[item], item))


@kernel
def _min_entry(
    one: tuple[float, int, int], other: tuple[float, int, int]
) -> tuple[float, int, int]:
    return one if one < other else other


@kernel
def _cheapest_group(
    poured: OfflineFill,
    index: GroupIndex,
    shared: list[tuple[float, int, int]],
    single: list[tuple[float, int, int, int, int]],
    worker: int,
) -> tuple[float, int]:
    """Return what the worker's cheapest group adds, and that group, or -1."""
    groups = poured.groups
    best = (np.inf, 0, -1)
    while len(shared) > 0 and fitting_count(poured, shared[0][2], worker) == 0:
        heapq.heappop(shared)
    if len(shared) > 0:
        best = shared[0]
    while len(single) > 0 and fitting_count(poured, single[0][2], worker) == 0:
        _, _, _, at, source = heapq.heappop(single)
        at = _first_fitting(poured, index, source, at, worker)
        if at < index.source_starts[source + 1]:
            item = index.groups_of_source[at]
            cost = poured.group_traffic[item] - poured.rates[source]
            heapq.heappush(single, (cost, -groups.size[item], item, at, source))
    if len(single) > 0:
        best = _min_entry(best, (single[0][0], single[0][1], single[0][2]))
    at = _first_fitting_overall(poured, index, worker)
    if at < len(index.order):
        item = index.order[at]
        best = _min_entry(best, (poured.group_traffic[item], -groups.size[item], item))
    return best[0], best[2]
