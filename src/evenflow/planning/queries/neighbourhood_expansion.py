"""Neighbourhood expansion: fill one worker after another with queries that share sources.

After Zhang et al., "Graph Edge Partitioning via Neighborhood Heuristic" (KDD 2017), where queries
are edges with two sources; here they have any number. A worker starts with one source. Of the
sources that flow to it, the one with the fewest unplaced queries is next: the worker takes them,
which adds their other sources. Queries whose sources all flow there then add no traffic and are
taken too. Popular sources come last, so only they end up on several workers.
"""

import heapq

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import NOWHERE, Indices
from evenflow.planning.queries.search_state import SearchState, place_group
from evenflow.planning.queries.source_hosts import is_hosted


@kernel
def expand_neighbourhoods(search: SearchState) -> None:
    """Fill each worker with unplaced groups, up to its even share of the remaining load."""
    groups = search.groups
    unplaced = np.zeros(len(search.rates), dtype=np.int64)  # groups that read each source
    remaining = 0.0
    for group in range(len(groups.size)):
        if search.worker_of_group[group] == NOWHERE:
            remaining += search.group_load[group]
            for at in range(groups.source_starts[group], groups.source_starts[group + 1]):
                unplaced[groups.sources[at]] += 1
    start_sources = [(unplaced[source], source) for source in range(len(search.rates))]
    heapq.heapify(start_sources)
    capacity_left = search.capacity.sum()
    for worker in range(len(search.capacity)):
        room = search.capacity[worker]
        if room <= 0.0:
            continue
        # Load that is already placed (pins) counts toward the even share.
        goal = min(room, (remaining + search.worker_load[worker:].sum()) * room / capacity_left)
        capacity_left -= room
        remaining -= _grow_worker(search, worker, goal, unplaced, start_sources)


@kernel
def _grow_worker(
    search: SearchState,
    worker: int,
    goal: float,
    unplaced: Indices,
    start_sources: list[tuple[int, int]],
) -> float:
    """Fill one worker up to its goal; return the load placed."""
    placed = 0.0
    frontier = [(0, 0) for _ in range(0)]  # empty, of a type that Numba can infer
    for source in range(len(search.rates)):
        if unplaced[source] > 0 and is_hosted(search.hosts, source, worker):
            heapq.heappush(frontier, (unplaced[source], source))
    full = False
    while not full and search.worker_load[worker] < goal:
        source = _pop_rarest_source(frontier, unplaced)
        if source < 0:
            source = _pop_rarest_source(start_sources, unplaced)
            if source < 0:
                break
            heapq.heappush(start_sources, (unplaced[source], source))  # for other workers
        for at in range(search.source_starts[source], search.source_starts[source + 1]):
            group = search.groups_of_source[at]
            if search.worker_of_group[group] != NOWHERE:
                continue
            if search.worker_load[worker] + search.group_load[group] > goal:
                full = True
                continue
            placed += _place_with_free_groups(search, group, worker, goal, unplaced, frontier)
    return placed


@kernel
def _pop_rarest_source(heap: list[tuple[int, int]], unplaced: Indices) -> int:
    """Pop the source with the fewest unplaced groups, or -1; outdated counts are pushed again."""
    while len(heap) > 0:
        count, source = heapq.heappop(heap)
        if unplaced[source] == count and count > 0:
            return source
        if unplaced[source] > 0:
            heapq.heappush(heap, (unplaced[source], source))
    return -1


@kernel
def _place_with_free_groups(
    search: SearchState,
    group: int,
    worker: int,
    goal: float,
    unplaced: Indices,
    frontier: list[tuple[int, int]],
) -> float:
    """Place a group, then every group that now adds no traffic; return their load."""
    groups = search.groups
    new = [
        int(groups.sources[at])
        for at in range(groups.source_starts[group], groups.source_starts[group + 1])
        if not is_hosted(search.hosts, groups.sources[at], worker)
    ]
    placed = _place_and_count(search, group, worker, unplaced)
    for source in new:
        for at in range(search.source_starts[source], search.source_starts[source + 1]):
            other = search.groups_of_source[at]
            if search.worker_of_group[other] != NOWHERE:
                continue
            free = search.worker_load[worker] + search.group_load[other] <= goal
            for source_at in range(groups.source_starts[other], groups.source_starts[other + 1]):
                free = free and is_hosted(search.hosts, groups.sources[source_at], worker)
            if free:
                placed += _place_and_count(search, other, worker, unplaced)
        if unplaced[source] > 0:
            heapq.heappush(frontier, (unplaced[source], source))
    return placed


@kernel
def _place_and_count(search: SearchState, group: int, worker: int, unplaced: Indices) -> float:
    """Place a group and update the counts; return its load."""
    groups = search.groups
    place_group(search, group, worker)
    for at in range(groups.source_starts[group], groups.source_starts[group + 1]):
        unplaced[groups.sources[at]] -= 1
    return float(search.group_load[group])
