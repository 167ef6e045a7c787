"""`evenflow replay` and `evenflow whatif` as users call them, on a recorded run."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.flows import run, zipf_flow
from typer.testing import CliRunner

from evenflow.cli.app import app
from evenflow.planning.controller import Balancing
from evenflow.research.synthetic_flow import QueryDemand
from evenflow.storage.file_store import FileStore
from evenflow.storage.history import HistoryWriter


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve batches of a skewed keyed query and two whole ones, not balanced."""
    import numpy as np

    folder = tmp_path_factory.mktemp("recorded")
    flow = zipf_flow(1000, 1.2, workers=4)
    for at in range(2):
        flow.add_query(f"q{at}", QueryDemand(lambda batch: np.array([0.1])), at)
    run(flow, 12, Balancing.off())
    history = HistoryWriter(FileStore(str(folder)))
    for snapshot, decision in zip(flow.snapshots, flow.decisions, strict=True):
        history.append(snapshot, [decision])
    return folder


def call(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def asked(*arguments: object) -> Any:
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_replay_shows_the_effect_of_balancing(recorded: Path) -> None:
    before = files(recorded)
    result = asked("replay", recorded)
    assert result["batches"] == 12
    assert result["replayed"]["plans"] == 1
    assert result["replayed"]["mean_imbalance"] < result["recorded"]["mean_imbalance"]
    assert len(result["decisions"]) == 12
    off = asked("replay", recorded, "--algorithm", "off")
    assert off["replayed"]["plans"] == 0
    assert off["replayed"]["worst_imbalance"] == pytest.approx(off["recorded"]["worst_imbalance"])
    assert asked("replay", recorded, "--workers", 8)["workers"] == 8
    assert "state moved" in call("replay", recorded, "--algorithm", "mixed").stdout
    assert files(recorded) == before
    spec = recorded.parent / "recorded.yaml"
    spec.write_text(f"checkpoint: {recorded}")
    assert asked("replay", spec) == result


def test_whatif_does_not_change_the_checkpoint(recorded: Path) -> None:
    before = files(recorded)
    more = asked("whatif", recorded, "--add", 2)
    assert more["workers"] == 6
    assert more["after"]["max_load"] < more["before"]["max_load"]
    assert "times the mean" in more["message"]
    fewer = asked("whatif", recorded, "--drop", 3)
    assert fewer["workers"] == 3
    assert fewer["after"]["mean_load"] == pytest.approx(fewer["before"]["mean_load"] * 4 / 3)
    faster = asked("whatif", recorded, "--rate", 3)
    assert faster["after"]["mean_load"] == pytest.approx(3 * faster["before"]["mean_load"])
    assert "overload" in {verdict["code"] for verdict in faster["verdicts"]}
    pinned = asked("whatif", recorded, "--pin", "q0=3")
    assert pinned["moved_queries"]["q0"] == 3
    assert "moves" in call("whatif", recorded, "--drop", 0).stdout
    assert files(recorded) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["whatif"], "no change given"),
        (["whatif", "--drop", 9], "worker 9 cannot be dropped; active workers are 0, 1, 2, 3"),
        (["whatif", "--pin", "q7=1"], "'q7' cannot be pinned; whole queries are q0, q1"),
        (["whatif", "--pin", "q0=9"], "workers are 0..3, got 9"),
        (["whatif", "--pin", "q0"], "--pin must be QUERY=WORKER, got 'q0'"),
        (["whatif", "--rate", 0], "positive number, got 0"),
        (["replay", "--algorithm", "best"], "unknown 'best'; keys: hash"),
        (["replay", "--algorithm", "exact"], "write keys=exact or operators=exact"),
        (["replay", "--workers", 0], "at least one worker, got 0"),
    ],
)
def test_bad_arguments_are_rejected(recorded: Path, arguments: list[Any], message: str) -> None:
    result = call(arguments[0], recorded, *arguments[1:])
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_a_folder_without_history_is_rejected(tmp_path: Path) -> None:
    result = call("replay", tmp_path)
    assert result.exit_code == 2
    assert "no recorded history" in result.stderr


def test_any_setting_can_be_given(recorded: Path) -> None:
    usual = asked("replay", recorded)
    strict = asked("replay", recorded, "--set", "min_gain=50", "--set", "max_owners=1")
    assert usual["replayed"]["moves"] > 0
    assert strict["replayed"]["moves"] == 0
    for wrong, message in (
        ("beta", "needs NAME=VALUE with one of absolute_slack, beta"),
        ("speed=1", "got 'speed=1'"),
        ("beta=much", "--set beta needs a number, true, false or null, got 'much'"),
        ("theta=7", "theta must lie in -1..1, got 7"),
    ):
        result = call("replay", recorded, "--set", wrong)
        assert result.exit_code == 2
        assert message in result.stderr.replace("\n", " ")
