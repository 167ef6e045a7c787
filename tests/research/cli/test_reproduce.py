"""`evenflow reproduce` as users call it; the sweep itself is tested with Spark."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from evenflow.research import sweep_folder
from evenflow.research.cli import register
from evenflow.research.experiment import PointResult, measure_point, point_name
from evenflow.research.experiments.registry import EXPERIMENTS
from evenflow.research.sweep_folder import SweepFolder

TABLE = EXPERIMENTS["borealis-table1"]


def call(*arguments: object) -> Any:
    from evenflow.cli.app import app

    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def test_register_adds_the_commands() -> None:
    own = typer.Typer()
    register(own)
    names = {name for name, _ in typer.main.get_command(own).commands.items()}  # type: ignore[attr-defined]
    assert names == {"reproduce", "simulate"}
    help_text = CliRunner().invoke(own, ["simulate", "operators", "--help"]).output
    assert "Simulate operators on a cluster" in help_text


def refused(*arguments: object) -> str:
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1
    return str(result.stderr)


@pytest.fixture(scope="module")
def results() -> list[PointResult]:
    """One measured point, its rows copied to the others: these tests are about files."""
    names = [point_name(point) for point in TABLE.points("small")]
    first = measure_point(TABLE, names[0])
    return [replace(first, point=name) for name in names]


@pytest.fixture
def finished(tmp_path: Path, results: list[PointResult]) -> Path:
    """A folder with every point of an experiment finished, in files of three."""
    with SweepFolder(tmp_path / "out", [TABLE]).locked() as folder:
        for at in range(0, len(results), 3):
            folder.append_results(results[at : at + 3])
    return tmp_path / "out"


def test_list_shows_every_experiment() -> None:
    listed = json.loads(call("--list", "--json").stdout)["experiments"]
    assert [row["id"] for row in listed] == list(EXPERIMENTS)
    assert all(row["shows"] and row["cost"] and row["points"]["small"] for row in listed)
    assert "borealis-fig3" in call("--list").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name experiments, or all"),
        (["borealis-fig2"], "unknown experiment 'borealis-fig2'; known: borealis-fig1,"),
        (["all", "--scale", "big"], "--scale must be one of small, paper; got big"),
    ],
)
def test_bad_calls_are_refused(arguments: list[str], message: str) -> None:
    assert message in refused(*arguments)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        assert f"--out {out}: cannot be written (" in refused(TABLE.id, "--out", out)


def test_finished_points_are_not_run_again(finished: Path) -> None:
    result = call(TABLE.id, "--out", finished, "--resume", "--json")
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    count = len(TABLE.points("small"))
    assert (printed["points_run"], printed["points_kept"], printed["points_failed"]) == (
        0,
        count,
        0,
    )
    [experiment] = printed["experiments"]
    fields = {"text", "measured", "holds", "why", "seeds", "decided", "verdict"}
    assert all(set(claim) == fields for claim in experiment["claims"])
    rows = pq.read_table(experiment["results"])
    assert len(rows) == experiment["rows"] == count
    assert {"workers", "algorithm", "seed", "plan_seconds"} == set(rows.column_names)
    assert "| COR-GLB" in (finished / "report.md").read_text()
    assert "<td>COR-GLB" in (finished / "report.html").read_text()
    assert len(list((finished / "points" / TABLE.id).iterdir())) == 1, "many files become one"
    assert call(TABLE.id, "--out", finished, "--resume").exit_code == 0


def test_finished_points_are_not_overwritten_without_resume(finished: Path) -> None:
    count = len(TABLE.points("small"))
    message = f"holds {count} finished points of these experiments; continue with --resume"
    assert message in refused(TABLE.id, "--out", finished)


def test_one_sweep_a_folder(finished: Path) -> None:
    with SweepFolder(finished, [TABLE]).locked():
        assert "another sweep is writing there" in refused(TABLE.id, "--out", finished, "--resume")


def test_a_damaged_file_is_named(finished: Path) -> None:
    damaged = next((finished / "points" / TABLE.id).iterdir())
    damaged.write_bytes(b"PAR1")
    assert f"{damaged}: cannot be read" in refused(TABLE.id, "--out", finished, "--resume")


def test_points_of_other_code_are_not_finished(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SweepFolder(finished, [TABLE]).finished_points(TABLE.id)
    monkeypatch.setattr("evenflow.research.sweep_folder.code_digest", lambda live: "other")
    assert not SweepFolder(finished, [TABLE]).finished_points(TABLE.id)


def test_the_digest_covers_the_code_that_measures() -> None:
    root = Path(sweep_folder.__file__).parents[1]
    packages = sweep_folder.DIGEST_PACKAGES + sweep_folder.LIVE_PACKAGES
    assert all(any((root / package).rglob("*.py")) for package in packages)
    named = sweep_folder.PRESENTATION_FILES | sweep_folder.LIVE_FILES
    assert all((root / name).is_file() for name in named)
    assert sweep_folder.code_digest(live=True) != sweep_folder.code_digest(live=False)
