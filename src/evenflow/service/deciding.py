"""Decisions and their outcomes, as the service shows them. Pure functions of values."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from heapq import nlargest
from itertools import islice

from evenflow.model.decision import BalanceMetrics, Decision, Outcome
from evenflow.model.plan import Move
from evenflow.service import schemas

SHOWN_MOVES = 200


def decision_info(
    made: Decision,
    outcome: Outcome | None,
    loads: Mapping[int, Sequence[float]],
    names: Mapping[tuple[str, int], str],
) -> schemas.DecisionInfo:
    """Return a decision with what came of it.

    `loads` has those of every worker by batch, `names` the heavy keys by query and hash.
    """
    before = loads.get(made.batch)
    after = None if outcome is None else loads.get(outcome.batch)
    return schemas.DecisionInfo(
        number=made.batch,
        at=made.at,
        trigger=made.trigger,
        reason=made.reason,
        message=made.message,
        changed=made.plan is not None,
        staged=made.target is not None,
        before=_judgement_info(made.before),
        predicted=None if made.predicted is None else _judgement_info(made.predicted),
        measured=None if outcome is None else _outcome_info(outcome),
        loads_before=None if before is None else list(before),
        loads_after=None if after is None else list(after),
        move_count=len(made.moves),
        moves=[_move_info(move, names) for move in made.moves[:SHOWN_MOVES]],
        moved_bytes=made.moved_bytes,
        arrived=dict(islice(made.arrived.items(), SHOWN_MOVES)),
        verdicts=[
            schemas.VerdictInfo(
                code=verdict.code,
                subject=verdict.subject,
                message=verdict.message,
                reachable=verdict.reachable,
            )
            for verdict in made.verdicts
        ],
    )


def _judgement_info(value: BalanceMetrics) -> schemas.JudgementInfo:
    return schemas.JudgementInfo(
        imbalance=value.imbalance,
        max_load=value.max_load,
        mean_load=value.mean_load,
        deviation=value.deviation,
        correlation=value.correlation,
        shipped_bytes=value.shipped_bytes,
    )


def _outcome_info(outcome: Outcome) -> schemas.OutcomeInfo:
    largest = nlargest(SHOWN_MOVES, outcome.handed, key=lambda state: state.bytes)
    return schemas.OutcomeInfo(
        batch=outcome.batch,
        judgement=_judgement_info(outcome.measured),
        handed_bytes=outcome.handed_bytes,
        pause_seconds=outcome.pause_seconds,
        duration_seconds=outcome.duration_seconds,
        handed=[schemas.TransferInfo(**asdict(state)) for state in largest],
    )


def _move_info(move: Move, names: Mapping[tuple[str, int], str]) -> schemas.MoveInfo:
    key = None
    if move.key_hash is not None:
        key = names.get((move.query, move.key_hash), f"#{move.key_hash:016x}")
    return schemas.MoveInfo(query=move.query, before=move.before, after=move.after, key=key)
