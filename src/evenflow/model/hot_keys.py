"""The keys that people should know of: the heaviest of a keyed query."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evenflow.model.snapshot import Snapshot


class HotKey(NamedTuple):
    """A key, its share of what the query's rows cost, and the worker that has it next."""

    name: str
    share: float
    owner: int


def hot_keys(snapshots: Sequence[Snapshot], query: str, count: int) -> list[HotKey]:
    """Return the heaviest keys of a keyed query in the last batch that had rows of any."""
    if not snapshots or query not in snapshots[-1].next_plan.tables:
        return []
    for snapshot in reversed(snapshots):
        found = snapshot.queries[query].keys if query in snapshot.queries else None
        if found is None or not found.cost.any():  # no rows: windows closed, state moved
            continue
        share = found.cost_shares()
        order = np.argsort(-share, kind="stable")[:count]
        owner = snapshots[-1].next_plan.route(query, found.hashes[order])
        return [
            HotKey(found.names[at], float(share[at]), int(worker))
            for at, worker in zip(order, owner, strict=True)
        ]
    return []
