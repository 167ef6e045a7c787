"""Commands for specifications that do not need Spark."""

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from evenflow.cli.app import app
from evenflow.cli.live_view import status_line, status_panel
from evenflow.cli.run import parse_seconds
from evenflow.cli.run_stats import KEPT_BATCHES, KEPT_CHANGES, RunStats
from evenflow.errors import InputError
from evenflow.model import (
    BalanceMetrics,
    Decision,
    Plan,
    QueryLoad,
    Reason,
    Snapshot,
    Transfer,
    Trigger,
    moves_between,
)
from evenflow.model.progress import BatchProgress
from evenflow.spark.driver.completed_batch import CompletedBatch
from evenflow.spark.protocol.registry import Registry
from evenflow.spark.protocol.report import QueryStats, Report, SetAsideCount
from evenflow.storage.bundle import PartRef

runner = CliRunner()


def test_init_writes_a_valid_specification(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    assert runner.invoke(app, ["init", str(path)]).exit_code == 0
    done = runner.invoke(app, ["validate", str(path)])
    assert (done.exit_code, "valid" in done.stdout) == (0, True)
    again = runner.invoke(app, ["init", str(path)])
    assert (again.exit_code, "already exists" in again.stderr) == (2, True)


def test_problems_are_printed_as_lines_or_json(tmp_path: Path) -> None:
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


def test_parse_seconds() -> None:
    assert parse_seconds("2m 30s") == 150
    for odd in ("5", "soon", "5 parsecs"):
        with pytest.raises(InputError):
            parse_seconds(odd)


def batch(number: int, *cpu: float) -> CompletedBatch:
    reports = tuple(
        Report(
            worker,
            query_stats={"q@1": QueryStats(rows_in=10, cpu_seconds=seconds)},
            shipped_bytes={"trades": 100},
            results={"q@1": (PartRef("f", 0, 1, ""), 5)},
            set_aside={"trades": SetAsideCount(invalid=1)},
        )
        for worker, seconds in enumerate(cpu)
    )
    plan = Plan(len(cpu))
    return CompletedBatch(
        number=number,
        at=0.0,
        seconds=1.0,
        reports=reports,
        watermarks={},
        registry=Registry(),
        plan=plan,
        next_plan=plan,
        drain=frozenset(),
    )


def snapshot(number: int, *load: float) -> Snapshot:
    zeros, plan = np.zeros(len(load)), Plan(len(load), {"q": 0})
    rows = np.zeros(len(load), dtype=np.int64)
    query = QueryLoad(("trades",), rows, rows, np.array(load), np.array(load), zeros)
    shipped = {"trades": np.array([100.0, *zeros[1:]])}
    return Snapshot(number, 0.0, 1.0, plan, plan, queries={"q": query}, shipped_bytes=shipped)


def decision(number: int, plan: Plan | None) -> Decision:
    moved = () if plan is None else moves_between(Plan(2, {"q": 0}), plan)
    judged = BalanceMetrics(1.5, 3.0, 2.0)
    return Decision(
        number, 0.0, Trigger.IMBALANCE, Reason.QUERIES, "one query", judged, plan=plan, moves=moved
    )


def test_run_stats_count_each_batch_once() -> None:
    stats = RunStats(2)
    batches = [batch(n, 3.0, 1.0) for n in range(2)] + [batch(n, 1.0, 1.0) for n in (2, 3)]
    snapshots = [snapshot(n, 3.0, 1.0) for n in range(2)] + [snapshot(n, 1.0, 1.0) for n in (2, 3)]
    progress = {n: BatchProgress(n, 20, 2.0) for n in range(4)}
    decided = [decision(0, Plan(2, {"q": 1})), decision(1, None)]
    given = (Transfer("q", 0, 1, 600), Transfer("r", 1, 0, 100))
    snapshots[1] = replace(snapshots[1], transfers=given)
    for _ in range(2):
        stats.add_batches(progress, batches)
        # What the checkpoint recorded of an earlier run is not this one's.
        stats.add_decisions([snapshot(-9, 5.0, 0.0), *snapshots], decided)
    figures = stats.to_json()
    assert (figures["batches"], figures["rows"], figures["rows_per_second"]) == (4, 80, 10)
    assert (figures["shipped_bytes"], figures["round_robin_bytes"]) == (400, 400)
    assert (stats.result_rows, figures["poison"]) == ({"q": 40}, {"trades": 8})
    assert (figures["plans"], figures["moves"], figures["handed_bytes"]) == (1, 1, 700)
    assert (figures["imbalance_before"], figures["imbalance_after"]) == (1.5, 1.0)
    assert figures["imbalance"] == pytest.approx(8 / 6, abs=1e-4)
    assert figures["busiest_worker_cpu_seconds"] == 8
    assert np.allclose(stats.window_loads(), [2.0, 1.0])


def test_status_panel_with_and_without_batches() -> None:
    empty, full = RunStats(2), RunStats(2)
    assert status_line(empty) == "starting"
    full.add_batches({4: BatchProgress(4, 20, 2.0)}, [batch(4, 3.0, 1.0)])
    full.add_decisions([], [decision(4, Plan(2, {"q": 1}))])
    console = Console(width=100, record=True, file=io.StringIO())
    for stats in (empty, full):
        console.print(status_panel("mine", stats))
    text = console.export_text()
    assert "batch 4, 20 rows, 10 rows/s, 10 results, 1 moves, imbalance 1.50" in text
    assert "batch 4: whole queries move, because a worker had too much load; one query" in text
    assert text.count("█") > 50


def test_status_panel_fits_a_terminal_with_64_workers() -> None:
    stats = RunStats(64)
    for number in range(8):
        stats.cpu_seconds[number] = np.arange(64.0)
        stats.plan_changes[number] = replace(decision(number, Plan(2)), message="m" * 300)
    stats.drained, stats.last_decision = frozenset(range(32)), decision(9, None)
    console = Console(width=100, height=30, record=True, file=io.StringIO())
    console.print(status_panel("mine", stats))
    lines = console.export_text().rstrip().splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 100
    assert [line.split()[0] for line in lines[3:6]] == ["63", "62", "61"]
    assert lines[3].endswith(f"{63 / 47.5:.2f}")  # the mean of the active ones
    assert "48 more: 0.000 to 47.000" in "".join(lines)


def test_run_stats_of_many_batches_stay_small_and_their_sums_exact() -> None:
    stats, count = RunStats(2), KEPT_BATCHES + 500
    for number in range(count):
        stats.add_batches({number: BatchProgress(number, 20, 2.0)}, [batch(number, 3.0, 1.0)])
        change = Plan(2, {"q": number % 2}) if number % 10 == 0 else None
        stats.add_decisions([snapshot(number, 3.0, 1.0)], [decision(number, change)])
    assert stats.changes_after(stats.sums["plans"] - 1) == [stats.plan_changes[count - 10]]
    assert stats.changes_after(stats.sums["plans"]) == []
    kept = (stats.cpu_seconds, stats.batch_seconds, stats.rows)
    assert {len(values) for values in kept} == {KEPT_BATCHES}
    assert len(stats.plan_changes) == KEPT_CHANGES
    figures = stats.to_json()
    assert (figures["batches"], figures["rows"]) == (count, 20 * count)
    assert (figures["plans"], figures["rows_per_second"]) == (count // 10, 10)
    assert figures["cpu_seconds"] == 4 * count
    assert (figures["imbalance_before"], figures["imbalance_after"]) == (1.5, 1.5)
