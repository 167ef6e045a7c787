"""What streams would cost if whole queries were dealt out in turn: the yardstick of the herding
paper, next to what is measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evenflow.model.arrays import Floats
from evenflow.model.plan import Plan
from evenflow.service.running import Query


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """A stream's traffic under round robin: workers that need all its rows, and bytes a batch."""

    workers: int
    shipped_bytes: float


def deal(queries: Mapping[str, Query], plan: Plan) -> dict[str, int]:
    """Put whole queries on the active workers in turn, in the order they came; pinned ones stay."""
    turn, placed = 0, {}
    for name, query in queries.items():
        if name in plan.placement and query.pinned:
            placed[name] = plan.placement[name]
        elif name in plan.placement:
            placed[name] = plan.active[turn % len(plan.active)]
            turn += 1
    return placed


def round_robin(
    stream: str, shipped: Floats, queries: Mapping[str, Query], plan: Plan, dealt: Mapping[str, int]
) -> RoundRobin:
    """Estimate a stream's traffic under round robin from what was shipped in a batch.

    A worker with a whole query over the stream gets every row once, others the rows of their keys.
    A full copy is what such workers were sent; a share of keys, where a full copy hid it, is the
    mean of the shares that were seen, or of an even split.
    """
    readers = [name for name, query in queries.items() if stream in query.streams]
    now = {plan.placement[name] for name in readers if name in plan.placement}
    then = {dealt[name] for name in readers if name in dealt}
    if not now:
        return RoundRobin(0, float(shipped.sum()))
    copy = float(shipped[sorted(now)].mean())
    rest = [worker for worker in plan.active if worker not in now]
    split = any(name in plan.tables for name in readers)
    hidden = float(shipped[rest].mean()) if rest else copy / len(plan.active)
    shares = sum(
        float(shipped[worker]) if worker in rest else hidden
        for worker in plan.active
        if split and worker not in then
    )
    return RoundRobin(len(then), copy * len(then) + shares)


def shipped_to(shipped: Floats) -> list[int]:
    """Return the workers that were sent anything of a stream."""
    return [int(worker) for worker in np.flatnonzero(shipped)]
