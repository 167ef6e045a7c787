"""A whole placement that a search changes: groups of queries on workers.

The traffic of a placement is the connectivity objective of hypergraph partitioning plus a
constant: queries are vertices, sources are nets, and a source on c workers costs w(s) c. The
vertices here are groups of equal queries, in pieces small enough to move. `expand` makes a first
placement of them, `sweep` improves one.
"""

from typing import NamedTuple

import numpy as np

from evenflow.jit import kernel
from evenflow.model.arrays import Bools, Floats, Indices, Workers
from evenflow.planning.queries.hosts import Hosts, hold, no_hosts, release
from evenflow.planning.queries.offline import rooms
from evenflow.planning.queries.problem import NOWHERE, Problem
from evenflow.planning.queries.types import Groups, group

MOST_PINS = 120
"""Subscriptions of all groups that move together, at most: a bundle costs time by them."""
PIECE = 0.1


class Search(NamedTuple):
    """A placement of groups that the search changes.

    weight   load of each whole group
    fixed    groups that may not move
    home     where a group runs now, or NOWHERE
    start, items   the groups that read each source
    part     the worker of each group, or NOWHERE
    room     the most load of each worker
    moved    queries away from home
    """

    groups: Groups
    rates: Floats
    weight: Floats
    fixed: Bools
    home: Workers
    start: Indices
    items: Indices
    part: Workers
    hosts: Hosts
    load: Floats
    room: Floats
    moved: Indices
    saved: Floats
    touched: Workers
    times: Indices
    union: Indices
    bundle: Indices
    inside: Bools


def start_search(problem: Problem, piece: float = PIECE) -> Search:
    """Group the queries by sources, load, pin and present worker; nothing is placed yet.

    No group holds more than `piece` of the least room, unless it is a single query.
    """
    subscriptions, workers = problem.subscriptions, len(problem.fleet)
    room = rooms(problem)
    label = (problem.settled() + 1) * 2 + (problem.pinned != NOWHERE)
    groups = group(
        subscriptions,
        np.arange(len(subscriptions)),
        label.astype(np.int32),
        piece * float(room[room > 0].min()),
    )
    degrees = np.bincount(groups.sources, minlength=len(subscriptions.rates))
    start = np.concatenate(([0], np.cumsum(degrees))).astype(np.int64)
    owner = np.repeat(np.arange(len(groups.size), dtype=np.int64), np.diff(groups.starts))
    widest = int(np.diff(groups.starts).max(initial=1))
    most = max(1, MOST_PINS // widest)
    return Search(
        groups,
        subscriptions.rates,
        groups.load * groups.size,
        groups.label % 2 == 1,
        problem.current[groups.members[groups.first[:-1]]],
        start,
        owner[np.argsort(groups.sources, kind="stable")],
        np.full(len(groups.size), NOWHERE, dtype=np.int32),
        no_hosts(degrees, workers),
        np.zeros(workers),
        room,
        np.zeros(1, dtype=np.int64),
        np.zeros(workers),
        np.zeros(workers, dtype=np.int32),
        np.zeros(len(subscriptions.rates), dtype=np.int64),
        np.zeros(most * widest, dtype=np.int64),
        np.zeros(most, dtype=np.int64),
        np.zeros(len(groups.size), dtype=np.bool_),
    )


def queries_to_workers(search: Search) -> Workers:
    """Return the worker of each query."""
    workers = np.empty(len(search.groups.members), dtype=np.int32)
    workers[search.groups.members] = np.repeat(search.part, search.groups.size)
    return workers


@kernel
def enter(search: Search, item: int, worker: int) -> None:
    """Put a group on a worker."""
    groups = search.groups
    for at in range(groups.starts[item], groups.starts[item + 1]):
        hold(search.hosts, groups.sources[at], worker, 1)
    search.part[item] = worker
    search.load[worker] += search.weight[item]
    if search.home[item] != NOWHERE and search.home[item] != worker:
        search.moved[0] += groups.size[item]


@kernel
def leave(search: Search, item: int) -> None:
    """Take a group off its worker."""
    groups, worker = search.groups, search.part[item]
    for at in range(groups.starts[item], groups.starts[item + 1]):
        release(search.hosts, groups.sources[at], worker, 1)
    search.load[worker] -= search.weight[item]
    if search.home[item] != NOWHERE and search.home[item] != worker:
        search.moved[0] -= groups.size[item]
    search.part[item] = NOWHERE


@kernel
def place_groups(search: Search, part: Workers) -> None:
    """Put every group that has a worker in `part` there."""
    for item in range(len(part)):
        if part[item] != NOWHERE:
            enter(search, item, part[item])


@kernel
def fill(search: Search) -> None:
    """Put unplaced groups where most of their sources flow; without room, on the least loaded."""
    groups, hosts = search.groups, search.hosts
    for item in range(len(groups.size)):
        if search.part[item] != NOWHERE:
            continue
        search.saved[:] = 0.0
        for at in range(groups.starts[item], groups.starts[item + 1]):
            source = groups.sources[at]
            begin = hosts.start[source]
            for slot in range(begin, begin + hosts.used[source]):
                search.saved[hosts.worker[slot]] += search.rates[source]
        best, roomiest = NOWHERE, NOWHERE
        for worker in range(len(search.load)):
            if search.room[worker] <= 0:
                continue
            if roomiest == NOWHERE or _fuller(search, roomiest, worker):
                roomiest = worker
            if search.load[worker] + search.weight[item] > search.room[worker]:
                continue
            if (
                best == NOWHERE
                or search.saved[worker] > search.saved[best]
                or (search.saved[worker] == search.saved[best] and _fuller(search, best, worker))
            ):
                best = worker
        search.saved[:] = 0.0
        enter(search, item, best if best != NOWHERE else roomiest)


@kernel
def _fuller(search: Search, one: int, other: int) -> bool:
    return bool(search.load[one] * search.room[other] > search.load[other] * search.room[one])


def search_traffic(search: Search) -> float:
    """Return the traffic of the placement as the search keeps it."""
    return float((search.rates * search.hosts.used).sum())
