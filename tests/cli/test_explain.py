"""`evenflow explain`: decisions in words, and the history of a key or query."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.service_world import World, decision
from typer.testing import CliRunner

from evenflow.cli.app import app
from evenflow.cli.inspect import _move_rows, _print_decision
from evenflow.cli.replay import what_if_sentence
from evenflow.model import BalanceMetrics, Move, Outcome, Reason, Trigger, hash_keys
from evenflow.model.words import reason_words, trigger_words
from evenflow.service import present
from evenflow.storage.file_store import FileStore
from evenflow.storage.history import HistoryWriter


def route(query: str, before: int, after: int, **more: Any) -> dict[str, Any]:
    return {"query": query, "before": before, "after": after, **more}


def test_a_split_key_is_listed_with_all_its_workers() -> None:
    move = route("sums", 1, 1, key="a", owners_before=[1], owners_after=[1, 4, 6])
    decision = {"moves": [move], "measured": None}
    assert list(_move_rows(decision, complete=True)) == [("sums", "a", "1 -> 1, 4, 6", "", "")]


def test_state_is_listed_once_per_route_and_for_light_keys() -> None:
    decision = {
        "moves": [
            route("sums", 0, 1, key="a", load=0.25),
            route("sums", 0, 1, key="b", load=None),
            route("wide", 2, 0, key=None),
        ],
        "measured": {
            "handed": [
                route("sums", 0, 1, bytes=1500),
                route("wide", 2, 0, bytes=20),
                route("sums", 2, 0, bytes=300),
            ]
        },
    }
    rows = [
        ("sums", "a", "0 -> 1", "0.2500", "1.5 kB"),
        ("sums", "b", "0 -> 1", "", ""),
        ("wide", "whole query", "2 -> 0", "", "20 B"),
    ]
    light = ("sums", "light keys", "2 -> 0", "", "300 B")
    assert list(_move_rows(decision, complete=True)) == [*rows, light]
    assert list(_move_rows(decision, complete=False)) == rows
    unmeasured = {**decision, "measured": None}
    assert [row[-1] for row in _move_rows(unmeasured, complete=True)] == ["", "", ""]


def test_the_heaviest_moves_come_first_in_words_and_units(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = World()
    hot, cold = int(hash_keys(pa.array(["hot"]))[0]), 7
    moves = (*(Move("k", 1, 0, cold + n) for n in range(12)), Move("k", 1, 2, hot), Move("a", 0, 1))
    made = decision(3, plan=world.plan, moves=moves)
    info = present.decision_info(made, None, {}, {("k", hot): "hot"}, world.snapshot(3))
    assert [(move.query, move.key, move.load) for move in info.moves[:2]] == [
        ("a", None, 1.0), ("k", "hot", 0.5),
    ]  # fmt: skip
    _print_decision(info.model_dump())
    shown = capsys.readouterr().out
    assert "because a worker had too much load" in shown
    assert "imbalance" not in shown, "a code"
    assert "CPU seconds per batch" in shown
    assert "and 4 lighter moves" in shown
    assert shown.index("whole query") < shown.index("hot") < shown.index("#0000")


def test_every_code_has_words() -> None:
    for code in (*Reason, *Trigger):
        words = (reason_words if isinstance(code, Reason) else trigger_words)(code)
        assert words != code.replace("_", " "), code


def history(folder: Path) -> str:
    """Two moves of a key, one of a query, recorded as a run does."""
    world, store = World(), FileStore(str(folder))
    hot = int(hash_keys(pa.array(["hot"]))[0])
    writer = HistoryWriter(store)
    moved = {2: (Move("k", 0, 1, hot), Move("a", 1, 0)), 5: (Move("k", 1, 2, hot),)}
    for batch in range(7):
        made = [decision(batch, plan=world.plan, moves=moved[batch])] if batch in moved else []
        balance = BalanceMetrics(1.1, 1.0, 0.9)
        outcomes = [Outcome(2, batch, balance, 10, 0.0)] if batch == 4 else []
        writer.append(world.snapshot(batch), made, outcomes)
    writer.close(7)
    store.write_record("meta", {"identity": "x"})
    return str(folder)


def test_the_history_of_a_key_and_of_a_query(tmp_path: Path) -> None:
    place = history(tmp_path)

    def moves(*options: str) -> list[dict[str, Any]]:
        done = CliRunner().invoke(app, ["explain", "--run", place, *options, "--json"])
        assert done.exit_code == 0, done.output
        found: list[dict[str, Any]] = json.loads(done.stdout)["moves"]
        return found

    of_key = moves("--key", "hot")
    assert [(m["batch"], m["before"], m["after"], m["load"]) for m in of_key] == [
        (5, 1, 2, 0.5), (2, 0, 1, 0.5),
    ]  # fmt: skip
    assert [m["measured"] for m in of_key] == [None, 1.1]
    assert moves("--key", "hot", "--query", "a") == moves("--key", "cold") == []
    assert [(m["query"], m["key"]) for m in moves("--query", "a")] == [("a", None)]
    shown = CliRunner().invoke(app, ["explain", "--run", place, "--query", "k"]).stdout
    assert "1 -> 2" in shown
    none = CliRunner().invoke(app, ["explain", "--run", place, "--key", "cold"])
    assert "key cold has not moved" in none.stdout


def test_the_decisions_of_a_run_that_has_ended(tmp_path: Path) -> None:
    place = history(tmp_path / "flow")
    spec = tmp_path / "flow.yaml"
    spec.write_text("checkpoint: flow")

    def answer(*arguments: str) -> Any:
        done = CliRunner().invoke(app, [*arguments, "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    for run in (place, str(spec)):
        listed = answer("moves", "--run", run)["decisions"]
        assert [decision["number"] for decision in listed] == [5, 2]
        assert [decision["move_count"] for decision in listed] == [1, 2]
        assert answer("explain", "--run", run) == listed[0]
        assert answer("explain", "2", "--run", run) == listed[1]
    assert listed[1]["measured"]["judgement"]["imbalance"] == 1.1
    assert [(m["query"], m["key"]) for m in listed[1]["moves"]] == [("a", None), ("k", "hot")]
    assert answer("moves", "--run", place, "--limit", "1")["decisions"] == listed[:1]
    unknown = CliRunner().invoke(app, ["explain", "3", "--run", place])
    assert (unknown.exit_code, "the numbers are 2 to 5" in unknown.stderr) == (2, True)
    refused = CliRunner().invoke(app, ["ps", "--run", str(spec)])
    assert (refused.exit_code, "is not served" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("after", "says"),
    [(0.5, "50% less than now"), (1.0, "as long as now"), (2.0, "100% longer than now")],
)
def test_what_if_ends_with_a_sentence(after: float, says: str) -> None:
    result = {
        "workers": 4,
        "moves": 1,
        "moved_bytes": 1500.0,
        "before": {"max_load": 1.0, "imbalance": 1.5},
        "after": {"max_load": after, "imbalance": 1.05},
    }
    sentence = what_if_sentence(result)
    assert says in sentence
    assert "1 move and 1.5 kB of state" in sentence
