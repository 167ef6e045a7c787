"""Judgements of balance, measured or predicted, and what came of a decision."""

from collections.abc import Sequence

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
)
from evenflow.model.arrays import Floats, Workers
from evenflow.planning.controller.predict import predicted_shipped_bytes
from evenflow.planning.controller.worker_loads import WorkerLoads
from evenflow.planning.operators.load_statistics import mean_correlation, series_variance


def balance_of_loads(loads: Floats, active: Sequence[int], shipped: float = 0.0) -> BalanceMetrics:
    """Judge loads with a row for each batch and a column for each worker.

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
    """Judge a window of batches as they were."""
    loads = np.stack([snapshot.worker_loads() for snapshot in snapshots])
    sent = sum(
        float(sent.sum()) for snapshot in snapshots for sent in snapshot.shipped_bytes.values()
    )
    return balance_of_loads(loads, snapshots[-1].plan.active, sent / len(snapshots))


def predicted_balance(
    levels: WorkerLoads, snapshot: Snapshot, rates: dict[str, float]
) -> BalanceMetrics:
    """Judge a window of batches as they would be under a plan."""
    shipped = predicted_shipped_bytes(levels.plan, snapshot, rates)
    return balance_of_loads(levels.total_series, levels.active_workers, shipped)


def measure_outcome(decision: Decision, snapshots: Sequence[Snapshot]) -> Outcome | None:
    """Say what a decision brought, once a batch has had work under its plan; None before that.

    The batch after the border hands state over. The pause is how much longer it took than the
    median of those before it; what moves has moved when it ends.
    """
    after = [s for s in snapshots if s.batch > decision.batch]
    under = next((s for s in after if not s.idle and _moves_in_effect(s.plan, decision)), None)
    if under is None:
        return None
    usual = [s.interval_seconds for s in snapshots if s.batch <= decision.batch]
    handing = next((s for s in after if s.batch == decision.batch + 1), None)
    if handing is None:
        return Outcome(decision.batch, under.batch, measured_balance([under]), 0, 0.0)
    pause = max(handing.interval_seconds - float(np.median(usual)), 0.0) if usual else 0.0
    return Outcome(
        decision.batch,
        under.batch,
        measured_balance([under]),
        sum(state.bytes for state in handing.transfers),
        pause,
        max(handing.at - decision.at, 0.0),
        handing.transfers,
    )


def _moves_in_effect(plan: Plan, decision: Decision) -> bool:
    """Tell whether what a decision moved is where it belongs; other queries may come and go."""
    wanted = decision.plan
    if wanted is None or plan.drained != wanted.drained:
        return False
    keys: dict[str, list[Move]] = {}
    for move in decision.moves:
        if move.key_hash is not None:
            keys.setdefault(move.query, []).append(move)
        elif _worker_of_query(plan, move.query) not in (move.after, None):
            return False
    return all(
        _worker_of_query(plan, name) is None
        or (name in plan.tables and np.array_equal(*_actual_and_expected_owners(plan, name, moved)))
        for name, moved in keys.items()
    )


def _worker_of_query(plan: Plan, query: str) -> int | None:
    """Return where a query is; None if it has left."""
    return plan.placement.get(query, EVERYWHERE if query in plan.tables else None)


def _actual_and_expected_owners(
    plan: Plan, query: str, moved: Sequence[Move]
) -> tuple[Workers, Workers]:
    """Return who has the keys that were moved, and who should."""
    hashes = np.array([move.key_hash for move in moved], dtype=np.uint64)
    return plan.route(query, hashes), np.array([move.after for move in moved], dtype=np.int32)
