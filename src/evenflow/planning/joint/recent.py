"""What is remembered: batches that say something, and what moved and must not go back at once."""

from collections.abc import Sequence
from itertools import islice

from evenflow.model import Decision, Snapshot

Item = tuple[str, int | None]  # query, and the key's hash where it is keyed


def remembered(snapshots: Sequence[Snapshot], window: int) -> tuple[Snapshot, ...]:
    """Return the last batches in which queries had work, at most `window`, and the last of all.

    Otherwise some batches without rows would make a controller forget what queries need.
    """
    if not snapshots:
        return ()
    before = (snapshot for snapshot in reversed(snapshots[:-1]) if not snapshot.idle)
    return (*reversed(list(islice(before, window - 1))), snapshots[-1])


def recent_moves(decisions: Sequence[Decision], batch: int, cooldown: int) -> dict[Item, set[int]]:
    """Return the workers that each item left in the last `cooldown` batches.

    >>> from evenflow.model import Judgement, Move
    >>> even = Judgement(1.0, 1.0, 1.0)
    >>> moved = Decision(7, 0.0, "imbalance", "keys", "", even, moves=(Move("q", 0, 1),))
    >>> recent_moves([moved], batch=9, cooldown=10), recent_moves([moved], batch=20, cooldown=10)
    ({('q', None): {0}}, {})
    """
    left: dict[Item, set[int]] = {}
    for decision in reversed(decisions):
        if decision.batch <= batch - cooldown:
            break
        for move in decision.moves:
            left.setdefault((move.query, move.key_hash), set()).add(move.before)
    return left
