"""What moved lately, so that nothing moves back at once."""

from collections.abc import Sequence

from evenflow.model import Decision

Item = tuple[str, int | None]  # query, and the key's hash where it is keyed


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
