"""Judgements of balance, measured or predicted, and what came of a decision."""

from collections.abc import Sequence

import numpy as np

from evenflow.model import Decision, Judgement, Outcome, Snapshot, imbalance
from evenflow.model.arrays import Floats
from evenflow.planning.joint.levels import Levels
from evenflow.planning.joint.projection import same_plan, shipped_bytes
from evenflow.planning.operators.statistics import mean_correlation, variance

FIRST = 3  # batches under a plan by which it is judged


def judgement(loads: Floats, active: Sequence[int], shipped: float = 0.0) -> Judgement:
    """Judge loads with a row for each batch and a column for each worker.

    >>> judgement(np.array([[1.0, 3.0], [3.0, 1.0]]), (0, 1)).imbalance
    1.0
    """
    series = loads[:, list(active)].T
    means = series.mean(axis=1) if series.size else np.zeros(len(active))
    return Judgement(
        imbalance=imbalance(means),
        max_load=float(means.max(initial=0.0)),
        mean_load=float(means.mean()) if len(means) else 0.0,
        deviation=float(np.sqrt(variance(series)).mean()) if series.size else 0.0,
        correlation=mean_correlation(series) if series.size else 0.0,
        shipped_bytes=shipped,
    )


def measured(snapshots: Sequence[Snapshot]) -> Judgement:
    """Judge a window of batches as they were."""
    loads = np.stack([snapshot.loads() for snapshot in snapshots])
    sent = sum(float(sent.sum()) for snapshot in snapshots for sent in snapshot.shipped.values())
    return judgement(loads, snapshots[-1].plan.active, sent / len(snapshots))


def predicted(levels: Levels, snapshot: Snapshot, rates: dict[str, float]) -> Judgement:
    """Judge a window of batches as they would be under a plan."""
    shipped = shipped_bytes(levels.plan, snapshot, rates)
    return judgement(levels.total, levels.active, shipped)


def outcome(
    decision: Decision, snapshots: Sequence[Snapshot], handed_bytes: int = 0
) -> Outcome | None:
    """Say what a decision brought, once batches have run under its plan; None before that.

    The batch after the border hands state over. The pause is how much longer it took than the
    median of those before it; what moves has moved when it ends.
    """
    if decision.plan is None:
        return None
    after = [s for s in snapshots if s.batch > decision.batch]
    under = [s for s in after if same_plan(s.plan, decision.plan)][:FIRST]
    if not under:
        return None
    usual = [s.seconds for s in snapshots if s.batch <= decision.batch]
    handing = next((s for s in after if s.batch == decision.batch + 1), None)
    pause = max(handing.seconds - float(np.median(usual)), 0.0) if usual and handing else 0.0
    duration = handing.at - decision.at if handing else None
    return Outcome(decision.batch, under[-1].batch, measured(under), handed_bytes, pause, duration)
