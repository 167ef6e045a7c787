"""The commands around a specification, as far as they need no Spark."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from evenflow.cli.app import app
from evenflow.cli.run import seconds_of
from evenflow.cli.tally import Tally
from evenflow.cli.view import panel, sentence
from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.spark.batch import Batch
from evenflow.spark.bundle import Ref
from evenflow.spark.progress import Progress
from evenflow.spark.registry import Registry
from evenflow.spark.report import QueryStats, Report

runner = CliRunner()


def test_init_writes_what_validate_takes(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    assert runner.invoke(app, ["init", str(path)]).exit_code == 0
    done = runner.invoke(app, ["validate", str(path)])
    assert (done.exit_code, "fine" in done.stdout) == (0, True)
    again = runner.invoke(app, ["init", str(path)])
    assert (again.exit_code, "is there already" in again.stderr) == (2, True)


def test_problems_are_lines_or_json(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("workers: none\ncheckpoint: x\nsources: {}\n")
    for command in ("validate", "run"):
        done = runner.invoke(app, [command, str(path)])
        assert done.exit_code == 2
        lines = done.stderr.strip().splitlines()
        assert [line.split(": ")[2] for line in lines] == ["workers", "sources"]
    done = runner.invoke(app, ["validate", str(path), "--json"])
    found = json.loads(done.stdout)
    assert done.exit_code == 2
    assert [(p["line"], p["field"]) for p in found["problems"]] == [(1, "workers"), (3, "sources")]
    assert runner.invoke(app, ["run", str(tmp_path / "none.yaml")]).exit_code == 2


def test_time_to_run() -> None:
    assert seconds_of("2m 30s") == 150
    for odd in ("5", "soon", "5 parsecs"):
        with pytest.raises(InputError):
            seconds_of(odd)


def batch(number: int, *cpu: float) -> Batch:
    reports = tuple(
        Report(
            slot,
            queries={"q@1": QueryStats(rows_in=10, cpu_seconds=seconds)},
            shipped={"trades": 100},
            results={"q@1": (Ref("f", 0, 1), 5)},
            poison={"trades": (Ref("f", 0, 1), 1)},
        )
        for slot, seconds in enumerate(cpu)
    )
    plan = Plan(len(cpu))
    return Batch(
        number=number,
        at=0.0,
        seconds=1.0,
        reports=reports,
        watermarks={},
        registry=Registry(),
        plan=plan,
        following=plan,
        drain=frozenset(),
    )


def test_a_tally_counts_each_batch_once() -> None:
    tally = Tally(2)
    batches = [batch(0, 3.0, 1.0), batch(1, 1.0, 1.0)]
    progress = {n: Progress(n, 20, 2.0) for n in (0, 1, 2)}
    for _ in range(2):
        tally.add(batches, progress)
    figures = tally.figures()
    assert (figures["batches"], figures["rows"], figures["shipped_bytes"]) == (2, 60, 400)
    assert (tally.results, figures["poison"]) == ({"q": 20}, {"trades": 4})
    assert figures["imbalance"] == pytest.approx(4 / 3, abs=1e-4)
    assert tally.imbalance(0, 1) == 1.5
    assert figures["busiest_worker_cpu_seconds"] == 4
    assert figures["rows_per_second"] == 10
    assert np.allclose(tally.recent(), [2.0, 1.0])


def test_the_view_shows_workers_and_copes_with_nothing() -> None:
    empty, full = Tally(2), Tally(2)
    assert sentence(empty) == "starting"
    full.add([batch(4, 3.0, 1.0)], {4: Progress(4, 20, 2.0)})
    console = Console(width=100, record=True, file=io.StringIO())
    for tally in (empty, full):
        console.print(panel("mine", tally))
    text = console.export_text()
    assert "batch 4, 20 rows, 10 rows/s, 10 results, imbalance 1.50, last batch 2.00 s" in text
    assert text.count("█") > 50
