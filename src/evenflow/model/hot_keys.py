"""The heaviest keys of a keyed query, for people."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evenflow.model.snapshot import Snapshot


class HotKey(NamedTuple):
    """A key, its share of the cost of the query's rows, and its worker in the next plan."""

    name: str
    share: float
    owner: int


def hot_keys(snapshots: Sequence[Snapshot], query: str, count: int) -> list[HotKey]:
    """Return the heaviest keys of a keyed query in the last batch that had rows of it."""
    if not snapshots or query not in snapshots[-1].next_plan.tables:
        return []
    for snapshot in reversed(snapshots):
        keys = snapshot.queries[query].keys if query in snapshot.queries else None
        if keys is None or not keys.cost.any():  # no rows: windows closed, state moved
            continue
        shares = keys.cost_shares()
        order = np.argsort(-shares, kind="stable")[:count]
        owners = snapshots[-1].next_plan.route(query, keys.hashes[order])
        return [
            HotKey(keys.names[key], float(shares[key]), int(owner))
            for key, owner in zip(order, owners, strict=True)
        ]
    return []
