"""What moves are worth: the time of a batch, and the price of moved state, learnt from pauses.

State is handed over in one batch, which takes longer. How much longer than the batches around it,
over all hand-overs and the bytes they moved, is the price of a megabyte. It starts with the
configured price, which counts as much as `PRIOR_MEGABYTES` of measured moves. If batches wait for
their trigger anyway, a hand-over delays nothing and moves become cheap.
"""

from collections.abc import Sequence

import numpy as np

from evenflow.model import Snapshot

PRIOR_MEGABYTES = 10.0
NEIGHBOURS = 4  # batches on each side that a hand-over is compared with


def batch_interval(snapshots: Sequence[Snapshot]) -> float:
    """Return the usual seconds from the end of one batch to the end of the next; 0: not known.

    That includes waiting for the trigger. Batches without work do not count: a pause of the input
    says nothing about the batches in which there is work.
    """
    seconds = [s.interval_seconds for s in snapshots if not s.idle and s.interval_seconds > 0]
    return float(np.median(seconds)) if seconds else 0.0


def learnt_move_price(snapshots: Sequence[Snapshot], configured: float) -> float:
    """Return the seconds that moving a megabyte costs, from all hand-overs so far.

    A hand-over can be shorter than its neighbours by chance; that counts too, or noise would look
    like a price. One that is far off counts as one interval at most. With a configured price of 0
    moves are free and nothing is learnt.
    """
    if configured == 0:
        return 0.0
    moved = [sum(transfer.bytes for transfer in s.transfers) / 1e6 for s in snapshots]
    seconds = np.array([s.interval_seconds for s in snapshots])
    pauses = megabytes = 0.0
    for at, size in enumerate(moved):
        around = [
            seconds[near]
            for near in range(max(at - NEIGHBOURS, 0), min(at + NEIGHBOURS + 1, len(moved)))
            if near != at and not moved[near] and not snapshots[near].idle
        ]
        if size > 0 and around and not snapshots[at].idle:
            usual = float(np.median(around))
            pauses += float(np.clip(seconds[at] - usual, -usual, usual))
            megabytes += size
    total = configured * PRIOR_MEGABYTES + pauses
    return max(total, 0.0) / (PRIOR_MEGABYTES + megabytes)
