"""Balance of the workers, measured or predicted, and the measured outcome of a decision."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evenflow.model import (
    EVERYWHERE,
    BalanceMetrics,
    Decision,
    Move,
    Outcome,
    Plan,
    Snapshot,
    imbalance,
    stream_bytes,
    total_shipped_bytes,
)
from evenflow.model.arrays import Floats
from evenflow.planning.controller.predict import predicted_shipped_bytes
from evenflow.planning.controller.worker_loads import WorkerLoads
from evenflow.planning.operators.load_statistics import mean_correlation, series_variance


def balance_of_loads(loads: Floats, active: Sequence[int], shipped: float = 0.0) -> BalanceMetrics:
    """Return the balance of loads with a row per batch and a column per worker.

    >>> balance_of_loads(np.array([[1.0, 3.0], [3.0, 1.0]]), (0, 1)).imbalance
    1.0
    """
    series = loads[:, list(active)].T
    means = series.mean(axis=1) if series.size else np.zeros(len(active))
    return BalanceMetrics(
        imbalance=imbalance(means),
        max_load=float(means.max(initial=0.0)),
        mean_load=float(means.mean()) if len(means) else 0.0,
        deviation=float(np.sqrt(series_variance(series)).mean()) if series.size else 0.0,
        correlation=mean_correlation(series) if series.size else 0.0,
        shipped_bytes=shipped,
    )


def measured_balance(snapshots: Sequence[Snapshot]) -> BalanceMetrics:
    """Return the balance of some batches as they were."""
    loads = np.stack([snapshot.worker_loads() for snapshot in snapshots])
    sent = sum(map(total_shipped_bytes, snapshots))
    return balance_of_loads(loads, snapshots[-1].plan.active, sent / len(snapshots))


def predicted_balance(
    loads: WorkerLoads, snapshot: Snapshot, rates: dict[str, float]
) -> BalanceMetrics:
    """Return the balance of a window under the plan of `loads`."""
    shipped = predicted_shipped_bytes(loads.plan, snapshot, rates)
    return balance_of_loads(loads.total_series, loads.active_workers, shipped)


def measure_outcome(decision: Decision, snapshots: Sequence[Snapshot]) -> Outcome | None:
    """Return the outcome of a decision, or None before the first busy batch under its plan.

    State is transferred in the batch after the decision. The pause is how much longer that batch
    took than the median of the batches before it.
    """
    later = [s for s in snapshots if s.batch > decision.batch]
    first = next((s for s in later if not s.idle and _moves_in_effect(s.plan, decision)), None)
    if first is None:
        return None
    # Like the prediction: one copy of a stream for each worker with a whole query over it.
    shipped = predicted_shipped_bytes(first.plan, first, stream_bytes(first))
    measured = replace(measured_balance([first]), shipped_bytes=shipped)
    transfer = next((s for s in later if s.batch == decision.batch + 1), None)
    if transfer is None:
        return Outcome(decision.batch, first.batch, measured, handed_bytes=0, pause_seconds=0.0)
    usual = [s.interval_seconds for s in snapshots if s.batch <= decision.batch]
    pause = max(transfer.interval_seconds - float(np.median(usual)), 0.0) if usual else 0.0
    return Outcome(
        decision=decision.batch,
        batch=first.batch,
        measured=measured,
        handed_bytes=sum(state.bytes for state in transfer.transfers),
        pause_seconds=pause,
        duration_seconds=max(transfer.at - decision.at, 0.0),
        handed=transfer.transfers,
    )


def _moves_in_effect(plan: Plan, decision: Decision) -> bool:
    """Return whether everything that a decision moved is at its new worker, or has left."""
    if decision.plan is None or plan.drained != decision.plan.drained:
        return False
    keys: dict[str, list[Move]] = {}
    for move in decision.moves:
        if move.key_hash is not None:
            keys.setdefault(move.query, []).append(move)
        elif _worker_of_query(plan, move.query) not in (move.after, None):
            return False
    return all(
        _worker_of_query(plan, query) is None
        or (query in plan.tables and _keys_arrived(plan, query, moves))
        for query, moves in keys.items()
    )


def _worker_of_query(plan: Plan, query: str) -> int | None:
    """Return the worker of a query, or None if it has left."""
    return plan.placement.get(query, EVERYWHERE if query in plan.tables else None)


def _keys_arrived(plan: Plan, query: str, moves: Sequence[Move]) -> bool:
    hashes = np.array([move.key_hash for move in moves], dtype=np.uint64)
    arrived = bool((plan.route(query, hashes) == [move.after for move in moves]).all())
    return arrived and all(
        plan.owners_of_key(query, move.key_hash) == move.owners_after
        for move in moves
        if move.owners_after and move.key_hash is not None
    )
