"""The recent batches that a decision is based on, and the recent moves that it must not undo."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from evenflow.model import Decision, Snapshot
from evenflow.planning.controller.first_batch import reprice_first_batches

MovableItem = tuple[str, int | None]  # query, and the hash of a key if it is keyed
RecentlyLeft = dict[MovableItem, set[int]]


def busy_snapshots(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the batches in which a query had work."""
    return [snapshot for snapshot in snapshots if not snapshot.idle]


def select_window(snapshots: Sequence[Snapshot], window: int) -> tuple[Snapshot, ...]:
    """Return the last batch, after the busy batches before it, `window` in all.

    Idle batches do not count, so a pause in the input does not erase what queries need. The first
    batch of a query counts without what it took to start.
    """
    if not snapshots:
        return ()
    last = snapshots[-1]
    earlier = (snapshot for snapshot in reversed(snapshots[:-1]) if not snapshot.idle)
    count = max(window - 1, 1 if last.idle else 0)
    chosen = (*reversed(list(islice(earlier, count))), last)
    return reprice_first_batches(chosen, next(earlier, None))


def last_snapshot_with_keys(window: Sequence[Snapshot]) -> Snapshot:
    """Return the last batch; a keyed query without rows in it gets its previous key statistics."""
    last = window[-1]
    queries = dict(last.queries)
    for name, query in last.queries.items():
        if query.keys is None and name in last.plan.tables:
            earlier = (s.queries[name].keys for s in reversed(window) if name in s.queries)
            keys = next((stats for stats in earlier if stats is not None), None)
            if keys is not None:
                owner = last.plan.route(name, keys.hashes)
                queries[name] = replace(query, keys=replace(keys, owner=owner))
    return replace(last, queries=queries)


def recently_left_workers(decisions: Sequence[Decision], batch: int, cooldown: int) -> RecentlyLeft:
    """Return the workers that each item left in the last `cooldown` batches.

    >>> from evenflow.model import BalanceMetrics, Move, Reason, Trigger
    >>> even, moves = BalanceMetrics(1.0, 1.0, 1.0), (Move("q", 0, 1),)
    >>> moved = Decision(7, 0.0, Trigger.IMBALANCE, Reason.QUERIES, "", even, moves=moves)
    >>> [recently_left_workers([moved], batch, cooldown=10) for batch in (9, 20)]
    [{('q', None): {0}}, {}]
    """
    left: RecentlyLeft = {}
    for decision in reversed(decisions):
        if decision.batch <= batch - cooldown:
            break
        for move in decision.moves:
            gone = set(move.owners_before or (move.before,)) - set(move.owners_after)
            left.setdefault((move.query, move.key_hash), set()).update(gone)
    return left


def last_key_moves(
    decisions: Sequence[Decision], first_batch: int, *, split: bool = False
) -> dict[str, int]:
    """Return the batch of the last decision since `first_batch` that moved keys of each query.

    With `split`, only changes of the owners of split keys count.
    """
    planned: dict[str, int] = {}
    for decision in reversed(decisions):
        if decision.batch < first_batch:
            break
        for move in decision.moves:
            if move.key_hash is not None and (move.owners_after or not split):
                planned.setdefault(move.query, decision.batch)
    return planned
