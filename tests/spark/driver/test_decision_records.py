"""Whatever changes a plan is on record, with what it moved and what came of it. Without Spark."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.support.local_runtime import Local
from tests.support.spark_harness import SECOND, trades
from tests.support.submissions import STREAMS, SUBMISSIONS

from evenflow.model import EVERYWHERE, Decision, Plan, RoutingTable, hash_keys
from evenflow.planning.controller import Balancing
from evenflow.spark.driver.balancer import Balancer
from evenflow.spark.driver.completed_batch import CompletedBatch
from evenflow.spark.driver.pending_state import CancelQuery, DrainWorker, PinQuery
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.registry import StreamSpec
from evenflow.storage.history import read_history

ROWS = trades(np.random.default_rng(3), 600, span_s=60)
LATE = Submission("query", "late", "SELECT ts, qty FROM trades WHERE qty > 3")


class Recorded:
    """A flow whose borders a balancer attends, in steps of ten rows."""

    def __init__(self, folder: Path, config: Balancing, names: tuple[str, ...]) -> None:
        chosen = [one for one in SUBMISSIONS if one.name in names]
        self.local, self.config, self.at = Local(folder, STREAMS, chosen), config, 0
        self.attend()

    def attend(self) -> None:
        self.balancer = Balancer(self.config)
        self.balancer.open(self.local.committer.checkpoint.ledger)
        self.local.attend(self.balancer)

    def run(self, batches: int) -> None:
        for _ in range(batches):
            self.local.batch({"trades": ROWS.slice(self.at * 10, 10)})
            self.at += 1

    def plan(self) -> Plan:
        return self.local.committer.commands.next_registry_and_plan()[1]

    def move_keys(self) -> None:
        table = RoutingTable.from_entries(hash_keys(pa.array(["a", "b"])), [1, 0])
        self.local.committer.commands.request_plan(
            Plan(3, {}, {"sums": table})
        )  # what is left out stays

    def changes(self) -> list[Decision]:
        return [decision for decision in self.balancer.decisions if decision.plan is not None]


@pytest.mark.parametrize("event", ["nothing", "arrivals", "restart"])
def test_what_moved_is_told_whatever_happens_meanwhile(tmp_path: Path, event: str) -> None:
    flow = Recorded(tmp_path, Balancing.off(), ("sums", "wide"))
    flow.run(3)
    flow.move_keys()
    for at in range(5):
        if event == "arrivals":
            flow.local.committer.commands.submit(Submission("query", f"late{at}", LATE.text))
        flow.run(1)
        if event == "restart" and at < 2:
            flow.local.reopen()
            flow.attend()
    (decision,) = flow.changes()
    assert (decision.trigger, decision.batch) == ("asked", 3)
    assert {move.query for move in decision.moves} == {"sums"}
    assert decision.plan is not None
    assert decision.plan.placement.keys() == {"wide"} | {
        query for query in decision.arrived if decision.arrived[query] != EVERYWHERE
    }
    assert decision.predicted is not None
    assert decision.moved_bytes > 0
    _, _, (outcome,) = read_history(str(tmp_path))
    assert (outcome.decision, outcome.batch) == (3, 5)
    moved = {(move.query, move.before, move.after) for move in decision.moves}
    assert {(state.query, state.before, state.after) for state in outcome.handed} == moved
    assert outcome.handed_bytes == sum(state.bytes for state in outcome.handed) > 0
    assert outcome.duration_seconds is not None


def test_a_pin_and_the_way_back_are_on_record(tmp_path: Path) -> None:
    flow = Recorded(tmp_path, Balancing.off(), ("wide", "dear"))
    flow.run(2)
    before = flow.plan().placement["wide"]
    pinned = (before + 1) % 3
    flow.local.committer.commands.submit(PinQuery("wide", pinned))
    flow.run(3)
    (decision,) = flow.changes()
    assert decision.message == f"pins wide to worker {pinned}"
    assert [(move.query, move.before, move.after) for move in decision.moves] == [
        ("wide", before, pinned)
    ]
    (outcome,) = flow.balancer.outcomes
    assert (outcome.decision, outcome.handed_bytes > 0) == (decision.batch, True)
    flow.local.committer.commands.submit(PinQuery("wide", None))
    flow.local.committer.commands.submit(LATE)
    flow.run(1)
    flow.local.committer.commands.request_rollback()
    flow.run(4)
    back = flow.changes()[-1]
    assert [(move.query, move.after) for move in back.moves] == [("wide", before)]
    assert [outcome.decision for outcome in flow.balancer.outcomes] == [2, back.batch]


def test_arrivals_are_on_record_with_their_workers(tmp_path: Path) -> None:
    flow = Recorded(tmp_path, Balancing(keys="off", operators="off"), ("wide", "sums"))
    flow.run(2)
    flow.local.committer.commands.submit(LATE)
    flow.run(2)
    _, decisions, _ = read_history(str(tmp_path))
    (placed,) = [decision for decision in decisions if decision.arrived]
    assert placed.arrived == {"late": flow.plan().placement["late"]}
    assert placed.trigger == "arrival"
    assert f"placed late on worker {placed.arrived['late']}" in placed.message


def test_a_plan_that_no_longer_fits_is_told_as_refused(tmp_path: Path) -> None:
    flow = Recorded(tmp_path, Balancing.off(), ("wide", "dear"))
    flow.run(1)
    flow.local.committer.commands.request_plan(
        Plan(3, {"wide": (flow.plan().placement["wide"] + 1) % 3})
    )
    flow.local.committer.commands.submit(CancelQuery("wide"))
    flow.run(1)
    (verdict,) = flow.balancer.decisions[-1].verdicts
    assert verdict.code == "plan_refused"
    assert "wide" in verdict.message
    assert flow.changes() == []


def test_a_controller_of_its_own_is_told_when_its_plan_is_refused(tmp_path: Path) -> None:
    flow = Recorded(tmp_path, Balancing.off(), ("wide",))
    flow.balancer.controller = lambda batch: Plan(3, {"unknown": 1})
    flow.run(1)
    (verdict,) = flow.balancer.decisions[-1].verdicts
    assert (verdict.code, "unknown" in verdict.message) == ("plan_refused", True)
    assert list(flow.local.committer.commands.refused) == [verdict.message]


def test_a_controller_of_its_own_and_a_pin_are_followed_at_one_border(tmp_path: Path) -> None:
    flow = Recorded(tmp_path, Balancing.off(), ("wide", "dear"))
    flow.run(1)
    wanted = {name: (worker + 1) % 3 for name, worker in flow.plan().placement.items()}
    called: list[int] = []

    def controller(batch: CompletedBatch) -> Plan | None:
        called.append(batch.number)
        return Plan(3, {"wide": wanted["wide"]}) if batch.number == 1 else None

    flow.balancer.controller = controller
    flow.local.committer.commands.submit(PinQuery("dear", wanted["dear"]))
    flow.run(3)
    assert called == [1, 2, 3]
    assert flow.plan().placement == wanted
    (decision,) = flow.changes()
    assert {move.query for move in decision.moves} == {"wide", "dear"}
    pin = f"pins dear to worker {wanted['dear']}"
    assert decision.message == f"requested by the flow's controller; {pin}"


def test_workers_are_drained_beside_a_controller_of_its_own(tmp_path: Path) -> None:
    flow = Recorded(tmp_path, Balancing.off(), ("wide", "sums"))
    flow.balancer.controller = lambda batch: None
    flow.run(2)
    flow.local.committer.commands.submit(DrainWorker(1, drain=True))
    flow.run(2)
    (decision,) = flow.changes()
    assert (decision.trigger, flow.plan().drained) == ("drain", frozenset({1}))


def test_a_refused_plan_does_not_take_a_pin_with_it(tmp_path: Path) -> None:
    flow = Recorded(tmp_path, Balancing.off(), ("wide", "dear"))
    flow.run(1)
    before = flow.plan().placement
    flow.local.committer.commands.request_plan(Plan(3, {"wide": (before["wide"] + 1) % 3}))
    flow.local.committer.commands.submit(CancelQuery("wide"))
    flow.local.committer.commands.submit(PinQuery("dear", (before["dear"] + 1) % 3))
    flow.run(2)
    assert flow.plan().placement == {"dear": (before["dear"] + 1) % 3}
    (decision,) = flow.changes()
    assert [verdict.code for verdict in decision.verdicts] == ["plan_refused"]


def test_a_pin_and_a_drain_at_one_border_are_one_plan(tmp_path: Path) -> None:
    flow = Recorded(tmp_path, Balancing(), ("wide", "dear"))
    flow.run(2)
    before = flow.plan().placement
    pinned = (before["dear"] + 1) % 3
    flow.local.committer.commands.submit(PinQuery("dear", pinned))
    flow.local.committer.commands.submit(DrainWorker((before["dear"] + 2) % 3, drain=True))
    flow.run(2)
    decision = flow.changes()[0]
    assert decision.trigger == "drain"
    assert f"pins dear to worker {pinned}" in decision.message
    assert decision.plan is not None
    assert (decision.plan.placement["dear"], len(decision.plan.drained)) == (pinned, 1)


def test_a_plan_made_beside_the_batches_is_followed_and_a_stale_one_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = ROWS.schema
    streams = {name: StreamSpec(schema, "ts", 5 * SECOND) for name in ("one", "two")}
    queries = [
        Submission("query", f"{stream}{at}", f"SELECT ts, qty FROM {stream} WHERE qty > {at}")
        for stream in streams
        for at in range(3)
    ]
    local = Local(tmp_path, streams, queries, workers=2)
    config = Balancing(
        keys="off", operators="off", repair="partition", max_imbalance=3.0, slack=0.8, cooldown=3
    )
    balancer = Balancer(config)
    balancer.open(local.committer.checkpoint.ledger)
    crossed = {query.name: at % 2 for at, query in enumerate(queries)}
    local.committer.commands.request_plan(Plan(2, crossed))
    local.attend(balancer)

    def batch() -> Decision:
        at = local.committer.checkpoint.head().batch
        local.batch({name: ROWS.slice(at * 5, 5) for name in streams})
        balancer._planner_thread.submit(int).result()  # after what it plans
        return balancer.decisions[-1]

    made = [batch() for _ in range(40)]
    followed = [one for one in made if one.trigger == "traffic" and one.plan is not None]
    assert followed, [one.message for one in made]
    places = local.committer.commands.next_registry_and_plan()[1].placement
    assert len({places[f"one{at}"] for at in range(3)}) == 1, "a stream goes to one worker"
    assert len({places[f"two{at}"] for at in range(3)}) == 1
    refused = [one for one in made if one.reason == "gain_too_small" and one.trigger == "traffic"]
    assert refused, "a plan that saves nothing more is told"
    monkeypatch.setattr(
        "evenflow.spark.driver.balancer.plan_traffic_repair",
        lambda *_: Plan(2, places, drained=frozenset({1})),
    )
    late = [batch() for _ in range(40)]
    assert "stale" in {one.reason for one in late}
