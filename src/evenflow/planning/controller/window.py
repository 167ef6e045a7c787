"""What is remembered: batches that say something, and what moved and must not go back at once."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from evenflow.model import Decision, Snapshot

MovableItem = tuple[str, int | None]  # query, and the key's hash where it is keyed


def busy_snapshots(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the batches in which a query had work."""
    return [snapshot for snapshot in snapshots if not snapshot.idle]


def select_window(snapshots: Sequence[Snapshot], window: int) -> tuple[Snapshot, ...]:
    """Return the last batches in which queries had work, at most `window`, and the last of all.

    Otherwise some batches without rows would make a controller forget what queries need.
    """
    if not snapshots:
        return ()
    last = snapshots[-1]
    before = (snapshot for snapshot in reversed(snapshots[:-1]) if not snapshot.idle)
    number = max(window - 1, 1 if last.idle else 0)
    return (*reversed(list(islice(before, number))), last)


def last_snapshot_with_keys(window: Sequence[Snapshot]) -> Snapshot:
    """Return the last batch; queries without rows in it have the keys they had before."""
    last = window[-1]
    queries = dict(last.queries)
    for name, query in last.queries.items():
        if query.keys is None and name in last.plan.tables:
            told = (s.queries[name].keys for s in reversed(window) if name in s.queries)
            keys = next((found for found in told if found is not None), None)
            if keys is not None:
                owner = last.plan.route(name, keys.hashes)
                queries[name] = replace(query, keys=replace(keys, owner=owner))
    return replace(last, queries=queries)


def recently_left_workers(
    decisions: Sequence[Decision], batch: int, cooldown: int
) -> dict[MovableItem, set[int]]:
    """Return the workers that each item left in the last `cooldown` batches.

    >>> from evenflow.model import BalanceMetrics, Move
    >>> even = BalanceMetrics(1.0, 1.0, 1.0)
    >>> moved = Decision(7, 0.0, "imbalance", "keys", "", even, moves=(Move("q", 0, 1),))
    >>> recently_left_workers([moved], batch=9, cooldown=10), recently_left_workers([moved], batch=20, cooldown=10)
    ({('q', None): {0}}, {})
    """
    left: dict[MovableItem, set[int]] = {}
    for decision in reversed(decisions):
        if decision.batch <= batch - cooldown:
            break
        for move in decision.moves:
            left.setdefault((move.query, move.key_hash), set()).add(move.before)
    return left
