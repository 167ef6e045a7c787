"""Proposals in the API: their schema, and how they are made of the model's values."""

from collections.abc import Sequence

from evenflow.display import printable
from evenflow.errors import MAX_ERROR_CHARACTERS
from evenflow.model.decision import BalanceMetrics, Verdict
from evenflow.model.move_history import heaviest_moves, key_names
from evenflow.model.proposal import Proposal
from evenflow.model.snapshot import Snapshot
from evenflow.model.words import decision_words
from evenflow.service.api_model import ApiModel
from evenflow.service.present import SHOWN_MOVES, move_info
from evenflow.service.schemas import MoveInfo


class ProposalInfo(ApiModel):
    """A plan that waits for approval, was adopted or has expired.

    `number` is the batch after which it was made. `state` is waiting, approved (it waits for a
    maintenance window), rejected, adopted or expired; `is_open` says that it can be answered.
    `moves` lists the heaviest first and is cut off; `move_count` is the total, `split_count` those
    that change how many workers share a key. `before` and `predicted` are the balance at that time
    and with the plan, `pause_seconds` how much longer the batch of the moves may take.
    """

    number: int
    at: float
    state: str
    is_open: bool
    ended: int | None
    note: str
    title: str
    trigger: str
    reason: str
    message: str
    before: BalanceMetrics
    predicted: BalanceMetrics | None
    move_count: int
    split_count: int
    moves: list[MoveInfo]
    moved_bytes: float
    pause_seconds: float | None
    drains: list[int]
    verdicts: list[Verdict]


def proposal_info(proposal: Proposal, snapshots: Sequence[Snapshot]) -> ProposalInfo:
    """Return a proposal for the API; `snapshots` give loads and the names of keys."""
    decision = proposal.decision
    basis = next((s for s in snapshots if s.batch == proposal.number), None)
    moves = heaviest_moves(decision, basis)[:SHOWN_MOVES]
    names = key_names(snapshots)
    return ProposalInfo(
        number=proposal.number,
        at=decision.at,
        state=proposal.state,
        is_open=proposal.ended is None,
        ended=proposal.ended,
        note=printable(proposal.note, MAX_ERROR_CHARACTERS),
        title=decision_words(decision.trigger, decision.reason, changed=True),
        trigger=decision.trigger,
        reason=decision.reason,
        message=printable(decision.message, MAX_ERROR_CHARACTERS),
        before=decision.before,
        predicted=decision.predicted,
        move_count=len(decision.moves),
        split_count=sum(bool(move.owners_after) for move in decision.moves),
        moves=[move_info(move, load, names) for move, load in moves],
        moved_bytes=decision.moved_bytes,
        pause_seconds=proposal.pause_seconds,
        drains=[] if decision.plan is None else sorted(decision.plan.drained),
        verdicts=list(decision.verdicts),
    )
