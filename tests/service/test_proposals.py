"""Proposals over HTTP and on the command line."""

import json

import httpx
import pyarrow as pa
from tests.support.http_clients import served
from tests.support.service_world import FakeRun, World, decision
from typer.testing import CliRunner

from evenflow.cli.app import app
from evenflow.model import BalanceMetrics, Move, Plan, Proposal, ProposalState, hash_keys

HEADERS = {"X-Evenflow": "1", "Content-Type": "application/json"}
KEY = int(hash_keys(pa.array(["hot"]))[0])


def proposal(number: int = 1) -> Proposal:
    moves = (Move("a", 0, 2), Move("k", 1, 1, KEY, (1,), (1, 2)))
    made = decision(
        number,
        plan=Plan(3, {"a": 2, "b": 0}, World().plan.tables),
        predicted=BalanceMetrics(1.1, 2.2, 2.0),
        moves=moves,
        moved_bytes=2_000_000.0,
        move_price=0.25,
    )
    return Proposal(made)


def waiting_run() -> FakeRun:
    run = FakeRun()
    run.batch(0)
    run.batch(1)
    ended = proposal(0).end(ProposalState.EXPIRED, 1, "b is no longer hosted")
    run.waiting = proposal(), ended
    return run


def test_a_proposal_is_shown_with_its_moves_prediction_bytes_and_pause() -> None:
    with served(waiting_run()) as server:
        first, second = httpx.get(f"{server.url}/api/proposals").json()
        assert (first["number"], first["state"], first["is_open"]) == (1, "waiting", True)
        assert (first["before"]["imbalance"], first["predicted"]["imbalance"]) == (1.5, 1.1)
        assert (first["move_count"], first["split_count"]) == (2, 1)
        assert (first["moved_bytes"], first["pause_seconds"]) == (2_000_000.0, 0.5)
        assert {move["key"] for move in first["moves"]} == {None, "hot"}
        assert (second["state"], second["is_open"], second["note"], second["ended"]) == (
            "expired", False, "b is no longer hosted", 1,
        )  # fmt: skip
        summary = httpx.get(f"{server.url}/api/summary").json()
        assert (summary["proposal"], summary["proposal_state"]) == (1, "waiting")


def test_a_proposal_is_answered_by_its_number() -> None:
    run = waiting_run()
    with served(run) as server:
        path = f"{server.url}/api/proposals"
        assert httpx.post(f"{path}/1/approve", headers=HEADERS, content="{}").status_code == 200
        assert httpx.post(f"{path}/x/reject", headers=HEADERS, content="{}").status_code == 404
        done = CliRunner().invoke(app, ["reject", "1", "--url", server.url, "--json"])
        assert json.loads(done.stdout)["asked"] == "reject"
    assert run.commands == [("approve", 1), ("reject", 1)]


def test_the_command_shows_what_waits_and_what_it_costs() -> None:
    run = waiting_run()
    with served(run) as server:
        shown = CliRunner().invoke(app, ["proposals", "--url", server.url])
        assert shown.exit_code == 0, shown.output
        text = " ".join(shown.stdout.split())
        assert "proposal 1 (waiting)" in text
        assert "1.50 times the mean, predicted 1.10; 2 moves (1 of split keys)" in text
        assert "2.0 MB of state, pause about 0.50 s" in text
        assert "no longer hosted" not in text
        everything = CliRunner().invoke(app, ["proposals", "--all", "--json", "--url", server.url])
        assert [p["number"] for p in json.loads(everything.stdout)["proposals"]] == [1, 0]
