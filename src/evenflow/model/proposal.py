"""Proposals: plans that wait until somebody approves or rejects them."""

from dataclasses import dataclass, replace

from evenflow.model.codes import ProposalState
from evenflow.model.decision import Decision


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan that waits for an answer, as the decision that following it would be.

    decision  with the whole plan, its moves, prediction and bytes; not staged
    ended     batch after which it was adopted or expired; None: it stands
    note      why it expired
    """

    decision: Decision
    state: ProposalState = ProposalState.WAITING
    ended: int | None = None
    note: str = ""

    @property
    def number(self) -> int:
        """The batch after which it was made; its name for people and programs."""
        return self.decision.batch

    @property
    def pause_seconds(self) -> float | None:
        """How much longer the batch of the moves is expected to take; None: not known."""
        price = self.decision.move_price
        return None if price is None else price * self.decision.moved_bytes / 1e6

    def answer(self, *, approve: bool) -> "Proposal":
        """Return it with an answer; a later answer replaces it."""
        state = ProposalState.APPROVED if approve else ProposalState.REJECTED
        return replace(self, state=state)

    def end(self, state: ProposalState, batch: int, note: str = "") -> "Proposal":
        """Return it adopted or expired."""
        return replace(self, state=state, ended=batch, note=note)
