"""Proposals in the decision path: they survive a restart, and so do answers. Without Spark."""

from pathlib import Path

import numpy as np
import pytest
from tests.support.local_runtime import Local
from tests.support.spark_harness import trades
from tests.support.submissions import STREAMS

from evenflow.errors import InputError
from evenflow.model import Plan, ProposalState
from evenflow.planning.controller import Balancing
from evenflow.spark.driver.balancer import Balancer
from evenflow.spark.driver.pending_state import AnswerProposal, CancelQuery
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.ledger import PROPOSAL_FOLDER
from evenflow.storage.history import read_history

ROWS = trades(np.random.default_rng(3), 3000, span_s=60)
QUERIES = [
    Submission("query", f"q{at}", f"SELECT ts, qty FROM trades WHERE qty > {at}") for at in range(6)
]
CONFIG = Balancing(
    mode="propose", keys="off", min_excess=0, samples=2, cooldown=0, confidence=1, max_imbalance=0.5
)


class Proposing:
    """A flow with all its queries on one worker, whose plans wait for approval."""

    def __init__(self, folder: Path) -> None:
        self.local = Local(folder, STREAMS, QUERIES)
        self.attend()
        self.local.committer.commands.request_plan(Plan(3, {query.name: 0 for query in QUERIES}))
        self.at = 0
        while self.state is None:
            assert self.at < 20, [decision.message for decision in self.balancer.decisions]
            self.run(1)

    def attend(self) -> None:
        self.balancer = Balancer(CONFIG)
        self.balancer.open(self.local.committer.checkpoint.ledger)
        self.local.attend(self.balancer)

    def restart(self) -> None:
        self.local.reopen()
        self.attend()

    def run(self, batches: int) -> None:
        for _ in range(batches):
            self.local.batch({"trades": ROWS.slice(self.at * 50, 50)})
            self.at += 1

    def answer(self, *, approve: bool, number: int | None = None) -> None:
        wanted = self.number if number is None else number
        self.local.committer.commands.submit(AnswerProposal(wanted, approve))

    @property
    def number(self) -> int:
        ref = self.local.committer.checkpoint.head().proposal
        assert ref is not None
        return ref.number

    @property
    def state(self) -> ProposalState | None:
        ref = self.local.committer.checkpoint.head().proposal
        return None if ref is None else ref.state

    @property
    def workers(self) -> set[int]:
        return set(self.local.committer.commands.next_registry_and_plan()[1].placement.values())


def test_a_proposal_and_its_approval_survive_restarts(tmp_path: Path) -> None:
    flow = Proposing(tmp_path)
    number = flow.number
    flow.restart()
    assert (flow.number, flow.workers) == (number, {0})
    flow.answer(approve=True)
    flow.restart()  # before a commit has applied the answer
    flow.run(1)
    assert (flow.state, len(flow.workers)) == (None, 3)
    decision = flow.balancer.decisions[-1]
    assert (decision.proposal, len(decision.moves) >= 2) == (number, True)
    assert [one.state for one in flow.balancer.ended_proposals] == ["adopted"]
    recorded = {d.batch: d for d in read_history(str(tmp_path)).decisions}
    assert (recorded[number].reason, recorded[number].proposal) == ("proposed", number)
    assert recorded[decision.batch].proposal == number
    flow.run(3)
    (outcome,) = [o for o in flow.balancer.outcomes if o.decision == decision.batch]
    assert outcome.handed_bytes >= 0


def test_a_rejection_survives_a_restart(tmp_path: Path) -> None:
    flow = Proposing(tmp_path)
    number = flow.number
    flow.answer(approve=False)
    flow.run(1)
    flow.restart()
    flow.run(2)
    assert (flow.state, flow.number, flow.workers) == ("rejected", number, {0})
    assert flow.balancer.decisions[-1].reason == "rejected"


def test_only_the_proposal_that_stands_can_be_answered(tmp_path: Path) -> None:
    flow = Proposing(tmp_path)
    with pytest.raises(InputError, match=f"there is no proposal 999 to answer; {flow.number} wait"):
        flow.answer(approve=True, number=999)
    number = flow.number
    (name, *_) = (
        move.query
        for move in flow.local.committer.checkpoint.ledger.proposal(
            flow.local.committer.checkpoint.head().proposal  # type: ignore[arg-type]
        ).decision.moves
    )
    flow.answer(approve=True)
    flow.local.committer.commands.submit(CancelQuery(name))
    flow.run(1)
    (ended,) = flow.balancer.ended_proposals
    assert (ended.number, ended.state, ended.note) == (
        number, "expired", f"{name} is no longer hosted",
    )  # fmt: skip


def test_files_of_ended_proposals_are_removed(tmp_path: Path) -> None:
    flow = Proposing(tmp_path)
    (file,) = flow.local.store.list_names(PROPOSAL_FOLDER)
    assert file.startswith(f"{flow.number:012d}")
    flow.answer(approve=True)
    flow.run(70)
    assert file not in flow.local.store.list_names(PROPOSAL_FOLDER)
