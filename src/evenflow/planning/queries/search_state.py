"""A whole placement that a search changes: groups of queries on workers.

The traffic of a placement is the connectivity objective of hypergraph partitioning plus a
constant: queries are vertices, sources are nets, and a source on c workers costs w(s) c. The
vertices here are groups of equal queries, in pieces small enough to move.
`neighbourhood_expansion` computes a first placement of them, `local_search` improves one.
"""

from typing import NamedTuple

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import NOWHERE, Bools, Floats, Indices, Workers
from evenflow.planning.queries.problem import PlacementProblem
from evenflow.planning.queries.query_types import QueryGroups, group_queries, readers_by_source
from evenflow.planning.queries.source_hosts import SourceHosts, add_host, empty_hosts, remove_host

MAX_BUNDLE_SUBSCRIPTIONS = 120  # of all groups that move together: a bundle costs time by them
MAX_GROUP_SHARE = 0.1


class SearchState(NamedTuple):
    """A placement of groups that the search changes.

    group_load       load of each whole group
    fixed            groups that may not move
    current_worker   the worker a group runs on now, or NOWHERE
    source_starts, groups_of_source  the groups that read each source
    worker_of_group  the worker of each group in the search, or NOWHERE
    capacity         the most load of each worker
    moved_queries    queries that are not on their current worker
    saved_traffic, touched_workers, bundle*, in_bundle  scratch of `local_search`
    """

    groups: QueryGroups
    rates: Floats
    group_load: Floats
    fixed: Bools
    current_worker: Workers
    source_starts: Indices
    groups_of_source: Indices
    worker_of_group: Workers
    hosts: SourceHosts
    worker_load: Floats
    capacity: Floats
    moved_queries: Indices
    saved_traffic: Floats
    touched_workers: Workers
    bundle_readers: Indices
    bundle_sources: Indices
    bundle: Indices
    in_bundle: Bools


def start_search(problem: PlacementProblem, piece: float = MAX_GROUP_SHARE) -> SearchState:
    """Group the queries by sources, load, pin and current worker; nothing is placed yet.

    No group holds more than `piece` of the least room, unless it is a single query.
    """
    subscriptions, workers = problem.subscriptions, len(problem.fleet)
    room = problem.capacities()
    label = (problem.initial_workers() + 1) * 2 + (problem.pinned != NOWHERE)
    groups = group_queries(
        subscriptions,
        np.arange(len(subscriptions)),
        label.astype(np.int32),
        piece * float(room[room > 0].min()),
    )
    sources = len(subscriptions.rates)
    start, readers = readers_by_source(groups.source_starts, groups.sources, sources)
    widest = int(np.diff(groups.source_starts).max(initial=1))
    most = max(1, MAX_BUNDLE_SUBSCRIPTIONS // widest)
    return SearchState(
        groups=groups,
        rates=subscriptions.rates,
        group_load=groups.load * groups.size,
        fixed=groups.label % 2 == 1,
        current_worker=problem.current[groups.members[groups.member_starts[:-1]]],
        source_starts=start,
        groups_of_source=readers,
        worker_of_group=np.full(len(groups.size), NOWHERE, dtype=np.int32),
        hosts=empty_hosts(np.diff(start), workers),
        worker_load=np.zeros(workers),
        capacity=room,
        moved_queries=np.zeros(1, dtype=np.int64),
        saved_traffic=np.zeros(workers),
        touched_workers=np.zeros(workers, dtype=np.int32),
        bundle_readers=np.zeros(sources, dtype=np.int64),
        bundle_sources=np.zeros(most * widest, dtype=np.int64),
        bundle=np.zeros(most, dtype=np.int64),
        in_bundle=np.zeros(len(groups.size), dtype=np.bool_),
    )


def workers_of_queries(search: SearchState) -> Workers:
    """Return the worker of each query."""
    workers = np.empty(len(search.groups.members), dtype=np.int32)
    workers[search.groups.members] = np.repeat(search.worker_of_group, search.groups.size)
    return workers


@kernel
def place_group(search: SearchState, group: int, worker: int) -> None:
    """Put a group on a worker."""
    groups = search.groups
    for at in range(groups.source_starts[group], groups.source_starts[group + 1]):
        add_host(search.hosts, groups.sources[at], worker, 1)
    search.worker_of_group[group] = worker
    search.worker_load[worker] += search.group_load[group]
    if search.current_worker[group] != NOWHERE and search.current_worker[group] != worker:
        search.moved_queries[0] += groups.size[group]


@kernel
def remove_group(search: SearchState, group: int) -> None:
    """Take a group off its worker."""
    groups, worker = search.groups, search.worker_of_group[group]
    for at in range(groups.source_starts[group], groups.source_starts[group + 1]):
        remove_host(search.hosts, groups.sources[at], worker, 1)
    search.worker_load[worker] -= search.group_load[group]
    if search.current_worker[group] != NOWHERE and search.current_worker[group] != worker:
        search.moved_queries[0] -= groups.size[group]
    search.worker_of_group[group] = NOWHERE


@kernel
def place_groups(search: SearchState, part: Workers) -> None:
    """Put every group that has a worker in `part` there."""
    for group in range(len(part)):
        if part[group] != NOWHERE:
            place_group(search, group, part[group])


@kernel
def place_remaining_groups(search: SearchState) -> None:
    """Put unplaced groups where most of their sources flow; without room, on the least loaded."""
    groups, hosts = search.groups, search.hosts
    for group in range(len(groups.size)):
        if search.worker_of_group[group] != NOWHERE:
            continue
        search.saved_traffic[:] = 0.0
        for at in range(groups.source_starts[group], groups.source_starts[group + 1]):
            source = groups.sources[at]
            begin = hosts.first_entry[source]
            for entry in range(begin, begin + hosts.entry_count[source]):
                search.saved_traffic[hosts.worker[entry]] += search.rates[source]
        best, roomiest = NOWHERE, NOWHERE
        for worker in range(len(search.worker_load)):
            if search.capacity[worker] <= 0:
                continue
            if roomiest == NOWHERE or _is_fuller(search, roomiest, worker):
                roomiest = worker
            if search.worker_load[worker] + search.group_load[group] > search.capacity[worker]:
                continue
            gain = np.inf
            if best != NOWHERE:
                gain = search.saved_traffic[worker] - search.saved_traffic[best]
            if gain > 0 or (gain == 0 and _is_fuller(search, best, worker)):
                best = worker
        search.saved_traffic[:] = 0.0
        place_group(search, group, best if best != NOWHERE else roomiest)


@kernel
def _is_fuller(search: SearchState, one: int, other: int) -> bool:
    return bool(
        search.worker_load[one] * search.capacity[other]
        > search.worker_load[other] * search.capacity[one]
    )


def search_traffic(search: SearchState) -> float:
    """Return the traffic of the placement as the search keeps it."""
    return float((search.rates * search.hosts.entry_count).sum())
