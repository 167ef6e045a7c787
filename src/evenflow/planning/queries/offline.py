"""What the offline algorithms share: groups of equal queries poured into workers with room.

The paper assigns "as many queries of a type as fit". Queries of one type need not weigh the same,
so the unit here is a group: same sources and same load. With unit loads groups are query types.
"""

from typing import NamedTuple

import numpy as np

from evenflow.jit import kernel
from evenflow.model import Verdict
from evenflow.model.arrays import Floats, Indices, Workers
from evenflow.planning.queries.hosts import Hosts, hold, holds, no_hosts, release
from evenflow.planning.queries.problem import (
    NOWHERE,
    ROUNDING,
    Placement,
    Problem,
    capacities,
)
from evenflow.planning.queries.types import Groups, group


class Pour(NamedTuple):
    """Groups still to be placed, and the workers as filled so far.

    left    queries of each group that are not placed yet
    room    load that each worker can still take
    hosts   the workers with room that each source flows to; full ones no longer matter
    least   the lightest query's load: a worker with less room is full
    """

    groups: Groups
    rates: Floats
    cost: Floats
    left: Indices
    room: Floats
    traffic: Floats
    hosts: Hosts
    worker: Workers
    least: float


def pour(problem: Problem) -> Pour:
    """Start with only the pinned queries in place."""
    subscriptions, pinned = problem.subscriptions, problem.pinned
    groups = _rarest_first(
        group(subscriptions, np.flatnonzero(pinned == NOWHERE)), subscriptions.degrees()
    )
    fixed = group(subscriptions, np.flatnonzero(pinned != NOWHERE), label=pinned)
    workers, sizes = len(problem.fleet), np.diff(groups.starts)
    held = np.bincount(
        pinned[fixed.members], weights=subscriptions.loads[fixed.members], minlength=workers
    )
    cost = np.bincount(
        np.repeat(np.arange(len(sizes)), sizes),
        weights=subscriptions.rates[groups.sources],
        minlength=len(sizes),
    )
    poured = Pour(
        groups,
        subscriptions.rates,
        cost.astype(np.float64),
        groups.size.copy(),
        np.maximum(rooms(problem) - held, 0.0),
        np.zeros(workers),
        no_hosts(subscriptions.degrees(), workers),
        np.where(pinned != NOWHERE, pinned, NOWHERE).astype(np.int32),
        float(groups.load.min()) if len(groups.load) else 0.0,
    )
    _hold_fixed(poured, fixed)
    return poured


def _rarest_first(groups: Groups, degrees: Indices) -> Groups:
    """Order the sources of each group by popularity: the rarest decide most questions."""
    owner = np.repeat(np.arange(len(groups.size)), np.diff(groups.starts))
    order = np.lexsort((degrees[groups.sources], owner))
    return groups._replace(sources=groups.sources[order])


def rooms(problem: Problem) -> Floats:
    """Return the load that each worker may take: floor((1 + nu) n / k) queries of equal load.

    Where even that many do not add up to all queries, ceil(n / k): no placement does better.
    """
    loads, shares = problem.subscriptions.loads, problem.fleet.shares
    room = capacities(float(loads.sum()), problem.fleet) * (1 + ROUNDING)
    if len(loads) and loads.min() == loads.max():
        slots = np.floor(room / loads[0])
        if slots.sum() < len(loads):
            slots = np.ceil(shares * len(loads) * (1 - ROUNDING))
        room = slots * loads[0] * (1 + ROUNDING)
    return np.asarray(room, dtype=np.float64)


@kernel
def _hold_fixed(poured: Pour, fixed: Groups) -> None:
    for item in range(len(fixed.size)):
        for at in range(fixed.starts[item], fixed.starts[item + 1]):
            source = fixed.sources[at]
            if hold(poured.hosts, source, fixed.label[item], 1):
                poured.traffic[fixed.label[item]] += poured.rates[source]


@kernel
def fitting(poured: Pour, item: int, worker: int) -> int:
    """Return how many of the group's unplaced queries the worker can take."""
    load = poured.groups.load[item]
    if poured.room[worker] < load:
        return 0
    return int(min(poured.room[worker] // load, poured.left[item]))


@kernel
def assign(poured: Pour, item: int, worker: int, count: int) -> None:
    """Place that many queries of the group on the worker, first come first."""
    groups = poured.groups
    for at in range(groups.starts[item], groups.starts[item + 1]):
        source = groups.sources[at]
        if not holds(poured.hosts, source, worker):
            hold(poured.hosts, source, worker, 1)
            poured.traffic[worker] += poured.rates[source]
    done = groups.first[item] + groups.size[item] - poured.left[item]
    for at in range(done, done + count):
        poured.worker[groups.members[at]] = worker
    poured.left[item] -= count
    poured.room[worker] -= count * groups.load[item]
    if poured.room[worker] < poured.least:
        for source in range(len(poured.rates)):
            if holds(poured.hosts, source, worker):
                release(poured.hosts, source, worker, 1)


def poured_placement(poured: Pour, problem: Problem) -> Placement:
    """Return the placement; what fitted nowhere goes to the least loaded workers."""
    workers = poured.worker.copy()
    homeless = np.flatnonzero(workers == NOWHERE)
    shares = problem.fleet.shares
    level = np.full(len(shares), np.inf)
    placed = workers != NOWHERE
    loads = problem.subscriptions.loads
    held = np.bincount(workers[placed], weights=loads[placed], minlength=len(shares))
    level[shares > 0] = held[shares > 0] / shares[shares > 0]
    for query in homeless[np.argsort(-loads[homeless], kind="stable")]:
        worker = int(np.argmin(level))
        workers[query] = worker
        level[worker] += loads[query] / shares[worker]
    verdicts = () if not len(homeless) else (_no_room(homeless, loads),)
    return Placement(workers, moved_queries(problem, workers), verdicts)


def moved_queries(problem: Problem, workers: Workers) -> int:
    """Return how many running queries would change their worker."""
    return int(((problem.current != NOWHERE) & (problem.current != workers)).sum())


def _no_room(homeless: Indices, loads: Floats) -> Verdict:
    heaviest = int(homeless[np.argmax(loads[homeless])])
    return Verdict(
        "no_room",
        str(heaviest),
        f"{len(homeless)} queries fitted on no worker within the slack and went to the least "
        f"loaded; the heaviest has a load of {loads[heaviest]:.6g}: raise the slack, or split it",
    )
