"""Plans that wait for approval or for a maintenance window, in a closed loop."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np
import pytest
from tests.support.flows import history, plans, whole_flow, zipf_flow

from evenflow.errors import InputError
from evenflow.model import Decision, Proposal, Snapshot
from evenflow.planning.controller import (
    Balancing,
    await_approval,
    follow_approved,
    manual_decision,
    propose,
    recorded_answers,
    replay_history,
)
from evenflow.planning.controller.time_windows import parse_window
from evenflow.research.synthetic_flow import SyntheticFlow

ASKING = Balancing(mode="propose")
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC).timestamp()  # a Wednesday


@dataclass
class Loop:
    """A flow whose plans go through approval; `answers` are given at the boundary of a batch."""

    flow: SyntheticFlow
    config: Balancing = ASKING
    answers: Mapping[int, bool] = field(default_factory=dict)
    standing: Proposal | None = None
    ended: list[Proposal] = field(default_factory=list)

    def run(self, batches: int) -> "Loop":
        for _ in range(batches):
            self.flow.step(self._decide)
        return self

    def _decide(self, snapshots: Sequence[Snapshot], decisions: Sequence[Decision]) -> Decision:
        if self.standing is not None and snapshots[-1].batch in self.answers:
            self.standing = self.standing.answer(approve=self.answers[snapshots[-1].batch])
        history = snapshots, decisions, self.config
        decision = follow_approved(self.standing, *history) or propose(*history)
        decision, self.standing, ended = await_approval(decision, self.standing, *history)
        self.ended += [] if ended is None else [ended]
        return decision

    @property
    def reasons(self) -> list[str]:
        return [decision.reason for decision in self.flow.decisions]

    @property
    def proposal(self) -> Proposal:
        assert self.standing is not None, history(self.flow)
        return self.standing


def test_a_plan_waits_with_its_moves_prediction_bytes_and_pause() -> None:
    loop = Loop(zipf_flow(600)).run(30)
    assert plans(loop.flow) == []
    number = loop.proposal.number
    assert loop.reasons[number:] == ["proposed", *["waiting"] * (29 - number)]
    assert {d.proposal for d in loop.flow.decisions[number:]} == {number}
    made = loop.proposal.decision
    assert made.moves
    assert made.moved_bytes > 0
    assert made.predicted is not None
    assert made.predicted.imbalance < 1.2
    assert made.before.imbalance > 1.8
    assert loop.proposal.pause_seconds == pytest.approx(0.02 * made.moved_bytes / 1e6)


def test_an_approved_plan_is_followed_once_and_does_what_it_promised() -> None:
    flow = zipf_flow(600)
    loop = Loop(flow, answers={20: True}).run(40)
    (decision,) = plans(flow)
    assert (decision.batch, decision.proposal, decision.trigger) == (20, 2, "imbalance")
    assert decision.message.startswith("proposal 2, approved: keys of counts")
    (ended,) = loop.ended
    assert (ended.state, ended.ended, loop.standing) == ("adopted", 20, None)
    assert ended.decision.predicted is not None
    assert flow.imbalance() == pytest.approx(ended.decision.predicted.imbalance, rel=0.02)


def test_a_rejected_plan_is_not_proposed_again_until_the_load_changes() -> None:
    flow = zipf_flow(600, shift_every=30)
    loop = Loop(flow, answers={10: False}).run(30)
    assert set(loop.reasons[10:]) == {"rejected"}
    loop.run(10)
    (ended,) = loop.ended
    assert (ended.state, ended.number) == ("expired", 2)
    assert "the load has changed" in ended.note
    assert loop.proposal.number in range(30, 34)
    assert loop.proposal.state == "waiting"
    assert "expired" not in loop.proposal.decision.message, "that is told by the decision"
    assert f"proposal 2 expired: {ended.note}" in flow.decisions[ended.ended or 0].message
    assert plans(flow) == []


def test_a_rejected_plan_can_still_be_approved() -> None:
    loop = Loop(zipf_flow(600), answers={10: False, 15: True}).run(20)
    assert [d.batch for d in plans(loop.flow)] == [15]


def test_a_plan_expires_when_the_load_is_even_again() -> None:
    flow = whole_flow(
        [lambda batch: 0.4 if batch < 20 else 0.1, 0.1, 0.1, 0.1, 0.1], [0, 0, 1, 2, 3], 4
    )
    loop = Loop(flow).run(20)
    assert loop.proposal.state == "waiting"
    loop.run(30)
    assert [one.state for one in loop.ended] == ["expired"] * len(loop.ended)
    assert "the load has changed" in loop.ended[0].note


def test_a_plan_expires_when_a_query_it_names_is_gone_or_pinned() -> None:
    for change in ("gone", "pinned"):
        flow = whole_flow([0.3, 0.3, 0.1], [0, 0, 1], 2)
        loop = Loop(flow).run(10)
        (name,) = {move.query for move in loop.proposal.decision.moves}
        if change == "gone":
            flow.remove_query(name)
        else:
            flow.queries[name] = replace(flow.queries[name], pinned=True)
        loop.run(1)
        word = "no longer hosted" if change == "gone" else "pinned"
        assert loop.ended[0].note == f"{name} is {word}"


def test_a_plan_expires_when_another_one_is_adopted() -> None:
    flow = zipf_flow(600)
    loop = Loop(flow).run(10)
    flow.drained = frozenset({7})
    loop.run(1)
    assert flow.decisions[-1].trigger == "drain"
    assert [(one.state, one.note) for one in loop.ended] == [
        ("expired", "another plan was adopted")
    ]
    asked = manual_decision(flow.next_plan, flow.snapshots, 16, "requested by hand")
    approval = await_approval(asked, None, flow.snapshots, flow.decisions, ASKING)
    assert approval.decision is asked, "what somebody asks for needs no approval"


def test_all_stages_of_a_plan_are_approved_at_once() -> None:
    flow = zipf_flow(600)
    config = replace(ASKING, budget_items=3)
    loop = Loop(flow, config, answers={10: True}).run(10)
    moves = len(loop.proposal.decision.moves)
    assert moves > 3
    loop.run(30)
    followed = plans(flow)
    assert [d.trigger for d in followed] == ["imbalance", *["staged"] * (len(followed) - 1)]
    assert sum(len(d.moves) for d in followed) == moves
    assert loop.ended[0].state == "adopted"


def test_nothing_is_planned_in_mode_off_but_workers_are_drained() -> None:
    flow = zipf_flow(600)
    loop = Loop(flow, Balancing(mode="off")).run(10)
    assert set(loop.reasons) == {"off"}
    flow.drained = frozenset({0})
    loop.run(1)
    assert flow.decisions[-1].reason == "drained"


def test_recorded_answers_give_the_same_decisions_in_a_replay() -> None:
    flow = zipf_flow(600, shift_every=25)
    Loop(flow, answers={5: False, 9: True, 33: True}).run(50)
    answers = recorded_answers(flow.decisions)
    assert answers[9] is answers[33] is True
    assert answers[5] is False
    replayed = replay_history(flow.snapshots, ASKING, answers=answers).decisions
    assert [(d.reason, d.proposal, len(d.moves)) for d in replayed] == [
        (d.reason, d.proposal, len(d.moves)) for d in flow.decisions
    ]
    assert not any(d.plan for d in replay_history(flow.snapshots, ASKING).decisions)


class Clock(SyntheticFlow):
    """A flow whose batches take an hour each, from noon on."""

    def observe(self) -> Snapshot:
        return replace(super().observe(), at=NOON + 3600 * self.batch)


def hourly() -> Clock:
    flow = zipf_flow(600)
    return Clock(flow.queries, flow.plan)


def test_no_plan_is_followed_outside_a_maintenance_window() -> None:
    loop = Loop(hourly(), Balancing(allow="20:00-22:00")).run(12)
    assert [d.batch for d in plans(loop.flow)] == [8]
    assert loop.reasons[:8] == ["few_samples"] * 2 + ["outside_window"] * 6
    assert "waits for a maintenance window (20:00-22:00 UTC)" in loop.flow.decisions[7].message


def test_an_approved_plan_waits_for_its_window() -> None:
    config = Balancing(mode="propose", allow=("20:00-22:00", "02:00-03:00"))
    loop = Loop(hourly(), config, answers={4: True}).run(7)
    assert (loop.proposal.state, loop.reasons[-1]) == ("approved", "waiting")
    assert "waits for a maintenance window" in loop.flow.decisions[-1].message
    loop.run(5)
    assert [d.batch for d in plans(loop.flow)] == [8]


def test_an_unfinished_plan_continues_in_the_next_window() -> None:
    config = Balancing(allow="20:00-22:00", budget_items=3)
    loop = Loop(hourly(), config).run(40)
    followed = [d.batch for d in plans(loop.flow)]
    assert followed[:4] == [8, 9, 32, 33]
    assert {d.trigger for d in plans(loop.flow)[1:]} == {"staged"}


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("11:00-13:00", [0, 59], [60, -61]),
        ("22:00-05:00", [600, 1019], [0, 1020, 599]),
        ("Wed 12:00-13:00", [0], [1440]),
        ("Mon-Wed 22:00-05:00", [600, 1019], [2040, 2459]),
        ("Sat,Sun 00:00-24:00", [3 * 1440], [0]),
    ],
)
def test_windows_are_times_of_day_in_utc(text: str, inside: list[int], outside: list[int]) -> None:
    window = parse_window(text)
    assert [window.contains(NOON + 60 * minute) for minute in inside] == [True] * len(inside)
    assert [window.contains(NOON + 60 * minute) for minute in outside] == [False] * len(outside)


@pytest.mark.parametrize("text", ["22-5", "25:00-26:00", "12:00-12:00", "Foo 10:00-11:00", ""])
def test_a_window_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(InputError, match="allow must be a time of day in UTC"):
        Balancing(allow=text)


def test_noise_does_not_end_a_proposal() -> None:
    loop = Loop(zipf_flow(2000, noise=0.1, seed=3)).run(80)
    assert loop.ended == []
    assert np.isclose(loop.proposal.number, 3, atol=3)
