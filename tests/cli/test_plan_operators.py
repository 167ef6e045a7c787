"""`evenflow plan operators` and `evenflow simulate operators` as users call them."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from evenflow.cli.app import app
from evenflow.planning.operators.registry import ALGORITHMS

FIELDS = (
    "algorithm", "workers", "operators", "samples", "mean_variance", "mean_std",
    "lower_bound_std", "mean_correlation", "imbalance", "moved_operators", "moved_load",
    "plan_seconds", "verdicts",
)  # fmt: skip


def call(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(*arguments: object) -> str:
    result = call(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1
    return str(result.stderr)


def strict(text: str) -> Any:
    def no(constant: str) -> None:
        raise ValueError(constant)

    return json.loads(text, parse_constant=no)


def planned(*arguments: object) -> Any:
    result = call("plan", "operators", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return strict(result.stdout)


@pytest.fixture
def loads(tmp_path: Path) -> Path:
    """Eight operators in two groups that burst in turn."""
    path = tmp_path / "loads.csv"
    rows = ["operator,sample,load"]
    rows += [
        f"op{o},{sample},{0.3 if (sample // 3 + o) % 2 else 0.1}"
        for o in range(8)
        for sample in range(6)
    ]
    path.write_text("\n".join(rows))
    return path


def table(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_prints_every_field(loads: Path, algorithm: str) -> None:
    result = planned(loads, "--workers", 2, "--algorithm", algorithm)
    assert tuple(result) == FIELDS
    assert result["algorithm"] == algorithm
    assert (result["workers"], result["operators"], result["samples"]) == (2, 8, 6)
    assert result["mean_std"] >= result["lower_bound_std"]


def test_placement_out_can_be_used_as_current(loads: Path, tmp_path: Path) -> None:
    out = tmp_path / "placement.csv"
    planned(loads, "--workers", 2, "--algorithm", "llf-glb", "--placement-out", out)
    assert out.read_text().splitlines()[0].replace('"', "") == "operator,worker"
    again = tmp_path / "again.parquet"
    result = planned(
        loads, "--workers", 2, "--algorithm", "cor-glb", "--current", out, "--placement-out", again
    )
    before = {r.split(",")[0].strip('"'): int(r.split(",")[1]) for r in out.read_text().split()[1:]}
    after = pa.parquet.read_table(again).to_pylist()
    moved = sum(before[row["operator"]] != row["worker"] for row in after)
    assert result["moved_operators"] == moved
    assert len(after) == 8


def test_bursts_cancel(loads: Path) -> None:
    assert planned(loads, "--workers", 2)["mean_std"] == pytest.approx(0, abs=1e-9)


def test_columns_for_movable_and_worker(tmp_path: Path) -> None:
    path = table(
        tmp_path / "loads.csv",
        "operator,sample,load,movable,worker",
        *(f"{o},{s},0.4,{o not in (0, 1)},0" for o in range(4) for s in range(2)),
    )
    out = tmp_path / "out.csv"
    result = planned(path, "--workers", 2, "--algorithm", "llf-glb", "--placement-out", out)
    rows = dict(row.split(",") for row in out.read_text().replace('"', "").split()[1:])
    assert rows["0"] == rows["1"] == "0"
    assert result["moved_operators"] == 2


def test_seeds_repeat(loads: Path) -> None:
    one, two = (
        planned(loads, "--workers", 3, "--algorithm", "rand-glb", "--seed", 5) for _ in range(2)
    )
    assert {**one, "plan_seconds": 0} == {**two, "plan_seconds": 0}


@pytest.mark.parametrize("algorithm", ["cor-se-imp", "variance", "cor-glb"])
def test_degenerate_series(tmp_path: Path, algorithm: str) -> None:
    """One sample, constant and idle series, an operator heavier than a worker."""
    one = table(tmp_path / "one.csv", "operator,sample,load", "a,0,0.5", "b,0,0.25")
    assert planned(one, "--workers", 2, "--algorithm", algorithm)["mean_correlation"] == 0.0
    rows = [f"{o},{s},{load}" for o, load in (("a", 1.5), ("b", 0), ("c", 0.2)) for s in range(3)]
    flat = table(tmp_path / "flat.csv", "operator,sample,load", *rows)
    result = planned(flat, "--workers", 2, "--algorithm", algorithm)
    assert result["mean_variance"] == 0.0
    heavy = [v for v in result["verdicts"] if v["code"] == "operator_exceeds_worker"]
    assert [v["subject"] for v in heavy] == ["a"]
    assert planned(flat, "--workers", 1, "--algorithm", algorithm)["imbalance"] == 0.0
    idle = table(tmp_path / "idle.csv", "operator,sample,load", "a,0,0", "b,0,0")
    assert planned(idle, "--workers", 2, "--algorithm", algorithm)["imbalance"] == 0.0


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["a,0,0.1", "a,1,0.1", "b,0,0.1"], "operator b has no load in sample 1"),
        (["a,0,0.1", "a,0,0.2"], "operator a has 2 loads in sample 0"),
        (["a,0,nan"], "column load must be finite, got nan in row 1"),
        (["a,0,-1"], "column load must not be negative"),
        (["a,0,much"], "column load must hold numbers"),
        ([], "has no rows"),
    ],
    ids=["ragged", "twice", "nan", "negative", "text", "empty"],
)
def test_bad_loads_are_rejected(tmp_path: Path, rows: list[str], message: str) -> None:
    path = table(tmp_path / "loads.csv", "operator,sample,load", *rows)
    assert message in refused("plan", "operators", path, "--workers", 2, "--json")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers", 0], "--workers must be 1 to 100,000, got 0"),
        (["--workers", 2, "--algorithm", "best"], "--algorithm must be one of cor-bal"),
        (["--workers", 2, "--capacity", 0], "capacity must be above 0"),
        (["--workers", 2, "--balance", -1], "balance must be a number of at least 0"),
        (["--workers", 2, "--correlation", 2], "correlation must lie in -1..1"),
        (["--workers", 2, "--seed", -1], "--seed must not be negative, got -1"),
        (["--workers", 2, "--placement-out", "no/such/out.csv"], "no such folder"),
        (["--workers", 2, "--placement-out", "out.txt"], "output files must end in"),
    ],
)
def test_bad_options_are_rejected(loads: Path, arguments: list[object], message: str) -> None:
    assert message in refused("plan", "operators", loads, *arguments)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["op0,2"], "unknown worker 2 in row 1; workers are 0..1"),
        (["op0,0", "op0,1"], "operator op0 appears twice"),
        (["other,0"], "none of its operators is in"),
    ],
)
def test_bad_placements_are_rejected(
    loads: Path, tmp_path: Path, rows: list[str], message: str
) -> None:
    current = table(tmp_path / "current.csv", "operator,worker", *rows)
    assert message in refused("plan", "operators", loads, "--workers", 2, "--current", current)


def test_contradictory_operators_are_rejected(tmp_path: Path) -> None:
    path = table(tmp_path / "l.csv", "operator,sample,load,worker", "a,0,0.1,0", "a,1,0.1,1")
    message = refused("plan", "operators", path, "--workers", 2)
    assert "operator a has several values of worker" in message
    path = table(tmp_path / "m.csv", "operator,sample,load,movable", "a,0,0.1,maybe")
    assert "movable must be true or false, got maybe" in refused(
        "plan", "operators", path, "--workers", 2
    )
    path = table(tmp_path / "n.csv", "operator,sample,load,movable", "a,0,0.1,false")
    assert "a is not movable and has no worker" in refused(
        "plan", "operators", path, "--workers", 2
    )


def test_default_output_is_a_table(loads: Path) -> None:
    result = call("plan", "operators", loads, "--workers", 2)
    assert result.exit_code == 0
    assert "mean std" in result.stdout


def test_simulate_operators() -> None:
    arguments = ("--workers", 4, "--operators", 40, "--load", 0.7, "--seconds", 5, "--seeds", 2)
    result = call(
        "simulate", "operators", *arguments, "--plan", "cor-glb", "--rebalance", "cor-se-imp",
        "--workload", "onoff", "--start", "connected", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    report = strict(result.stdout)
    assert report["latency_ratio"] >= 1
    assert [run["seed"] for run in report["runs"]] == [0, 1]
    assert report["latency_ratio"] == pytest.approx(
        sum(run["latency_ratio"] for run in report["runs"]) / 2
    )
    assert len(report["runs"][0]["timeline"]["mean_correlation"]) == 5
    shown = call("simulate", "operators", *arguments)
    assert "latency ratio p99" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", 0], "--seeds must be at least 1"),
        (["--load", 0], "load must be above 0"),
        (["--plan", "best"], "plan must be one of"),
        (["--workload", "steady"], "workload must be one of periodic, onoff"),
        (["--rebalance", "exact"], "for more than 16 operators, got 200; use fewer, or variance"),
    ],
)
def test_bad_simulations_are_rejected(arguments: list[object], message: str) -> None:
    assert message in refused("simulate", "operators", *arguments)


def test_no_output_overwrites_the_input(tmp_path: Path) -> None:
    loads = tmp_path / "loads.csv"
    loads.write_text("operator,sample,load\na,0,0.5\nb,0,0.5\n")
    before = loads.read_bytes()
    result = CliRunner().invoke(
        app, ["plan", "operators", str(loads), "--workers", "2", "--placement-out", str(loads)]
    )
    assert result.exit_code == 2
    assert "is already an input or output" in result.stderr
    assert loads.read_bytes() == before


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,0,1e200\nb,0,1e200\n", "out of range; use other units"),
        ("a,0,1\nb,1,1\n", "has no load in sample"),
        ("a,0,1\na,0,2\n", "has 2 loads in sample 0"),
    ],
)
def test_loads_that_cannot_be_planned(rows: str, message: str, tmp_path: Path) -> None:
    loads, out = tmp_path / "loads.csv", tmp_path / "out.csv"
    loads.write_text(f"operator,sample,load\n{rows}")
    command = ["plan", "operators", str(loads), "--workers", "2", "--placement-out", str(out)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not out.exists()


def test_everything_on_one_worker_is_spread_by_one_plan(tmp_path: Path) -> None:
    loads = tmp_path / "loads.csv"
    rows = "".join(f"o{i},{k},{0.1 + 0.01 * (i % 3)},0\n" for i in range(100) for k in range(2))
    loads.write_text("operator,sample,load,worker\n" + rows)
    command = ["plan", "operators", str(loads), "--workers", "10", "--algorithm", "variance"]
    result = CliRunner().invoke(app, [*command, "--json"])
    assert json.loads(result.stdout)["imbalance"] < 0.1
