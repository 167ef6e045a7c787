"""`evenflow plan keys`, called as users call it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner, Result

from evenflow.cli.app import app
from evenflow.cli.plan_keys import KeyAlgorithm
from evenflow.model import hash_keys, jump_hash
from evenflow.planning.keys import CHOICE_PLANNERS
from evenflow.research.key_workload import zipf_costs

FIELDS = [
    "algorithm", "workers", "keys", "feasible", "imbalance_before", "imbalance", "max_over_mean",
    "table_size", "moved_keys", "moved_state", "moved_state_fraction", "plan_seconds", "loads",
    "verdicts",
]  # fmt: skip


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["plan", "keys", *map(str, arguments)])


def plan(*arguments: object) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


@pytest.fixture
def stats(tmp_path: Path) -> Path:
    """Two thousand skewed integer keys in Parquet."""
    rng = np.random.default_rng(5)
    cost = zipf_costs(2000, 0.85, rng)
    path = tmp_path / "stats.parquet"
    state = cost * rng.uniform(0.5, 2, 2000)
    pa.parquet.write_table(pa.table({"key": np.arange(2000), "cost": cost, "state": state}), path)
    return path


@pytest.mark.parametrize("algorithm", [algorithm.value for algorithm in KeyAlgorithm])
def test_json_fields_and_files_agree(algorithm: str, stats: Path, tmp_path: Path) -> None:
    table_out, assignment_out = tmp_path / "table.csv", tmp_path / "assignment.parquet"
    answer = plan(
        stats, "--workers", 8, "--algorithm", algorithm,
        "--table-out", table_out, "--assignment-out", assignment_out,
    )  # fmt: skip
    assert list(answer) == FIELDS
    assert (answer["algorithm"], answer["workers"], answer["keys"]) == (algorithm, 8, 2000)
    given = pa.parquet.read_table(stats)
    written = pa.parquet.read_table(assignment_out)
    assert written["key"].equals(given["key"])
    before, after = written["before"].to_numpy(), written["after"].to_numpy()
    assert before.tolist() == jump_hash(hash_keys(np.arange(2000)), 8).tolist()
    cost, state = given["cost"].to_numpy(), given["state"].to_numpy()
    if algorithm not in CHOICE_PLANNERS:
        assert np.allclose(np.bincount(after, weights=cost, minlength=8), answer["loads"])
    mean = cost.sum() / 8
    assert answer["max_over_mean"] == pytest.approx(max(answer["loads"]) / mean)
    assert answer["imbalance"] == pytest.approx(
        max(abs(load - mean) for load in answer["loads"]) / mean
    )
    assert answer["moved_keys"] == (before != after).sum()
    assert answer["moved_state"] == pytest.approx(state[before != after].sum())
    entries = pa.csv.read_csv(table_out)
    assert len(set(entries["key"].to_pylist())) == answer["table_size"]
    if algorithm not in CHOICE_PLANNERS:
        assert len(entries) == (after != before).sum()
    if algorithm not in ("hash", "simple"):
        assert answer["feasible"]


def test_table_out_can_be_used_as_current(stats: Path, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    first = plan(stats, "--workers", 8, "--algorithm", "cover", "--table-out", table)
    second = plan(stats, "--workers", 8, "--algorithm", "cover", "--current", table)
    assert second["moved_keys"] == 0
    assert second["imbalance_before"] == first["imbalance"]
    assert second["table_size"] == first["table_size"] > 0


def test_keys_may_be_text_or_composite(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    count = 500
    cost = zipf_costs(count, 0.85, rng)
    texts = pa.array([f"user-{i:03d}" for i in range(count)])
    composite = pa.StructArray.from_arrays([texts, pa.array(np.arange(count) % 7)], ["a", "b"])
    for name, column in {"texts": texts, "composite": composite}.items():
        path, out = tmp_path / f"{name}.parquet", tmp_path / f"{name}-table.parquet"
        pa.parquet.write_table(pa.table({"key": column, "cost": cost, "state": cost}), path)
        first = plan(path, "--workers", 4, "--table-out", out)
        assert plan(path, "--workers", 4, "--current", out)["moved_keys"] == 0
        assert first["feasible"]


def test_csv_text_keys_keep_their_leading_zeros(tmp_path: Path) -> None:
    path, out = tmp_path / "stats.csv", tmp_path / "assignment.csv"
    path.write_text("key,cost,state\n007,1,1\n7,1,1\n")
    plan(path, "--workers", 2, "--assignment-out", out)
    assert out.read_text().splitlines()[1:][0].startswith('"007",')


def test_keys_that_only_the_table_knows_are_idle_and_stay_routed(tmp_path: Path) -> None:
    stats, table, out = (tmp_path / name for name in ("stats.csv", "table.csv", "new.csv"))
    stats.write_text("key,cost,state\na,1,1\nb,1,1\n")
    away = 1 - int(jump_hash(hash_keys(pa.array(["idle"])), 2)[0])
    table.write_text(f"key,worker\nidle,{away}\n")
    answer = plan(
        stats, "--workers", 2, "--max-imbalance", 1, "--current", table, "--table-out", out
    )
    assert (answer["keys"], answer["table_size"]) == (2, 1)
    assert out.read_text().splitlines() == ['"key","worker"', f'"idle",{away}']


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_an_empty_table_is_a_table(suffix: str, tmp_path: Path) -> None:
    stats, table = tmp_path / "stats.csv", tmp_path / f"table.{suffix}"
    stats.write_text("key,cost,state\na,1,1\nb,1,1\n")
    first = plan(stats, "--workers", 2, "--max-imbalance", 1, "--table-out", table)
    again = plan(stats, "--workers", 2, "--max-imbalance", 1, "--current", table)
    assert first["table_size"] == again["table_size"] == again["moved_keys"] == 0


def test_parquet_text_keys_are_text_even_if_they_are_digits(tmp_path: Path) -> None:
    stats, out = tmp_path / "stats.parquet", tmp_path / "out.parquet"
    digits = pa.array([str(number) for number in range(100, 140)])
    pa.parquet.write_table(
        pa.table({"key": digits, "cost": [1.0] * 40, "state": [1.0] * 40}), stats
    )
    plan(stats, "--workers", 4, "--assignment-out", out)
    written = pa.parquet.read_table(out)
    assert written["key"].type == pa.string()
    assert written["before"].to_pylist() == jump_hash(hash_keys(digits), 4).tolist()


def test_null_is_a_key_and_survives_csv(tmp_path: Path) -> None:
    stats, table = tmp_path / "stats.csv", tmp_path / "table.csv"
    stats.write_text('key,cost,state\n,100,1\n"",1,1\nx,90,1\ny,80,1\n"a\nb",70,1\n')
    first = plan(stats, "--workers", 4, "--max-imbalance", 0.3, "--table-out", table)
    again = plan(stats, "--workers", 4, "--max-imbalance", 0.3, "--current", table)
    assert first["table_size"] == again["table_size"] > 0
    assert again["moved_keys"] == 0


@pytest.mark.parametrize(
    ("table_out", "assignment_out", "message"),
    [
        ("one.csv", "./one.csv", "is already an input or output"),
        ("stats.parquet", None, "is already an input or output"),
        ("x" * 300 + ".csv", None, "cannot be written"),
    ],
)
def test_outputs_do_not_overwrite_each_other_or_the_input(
    table_out: str, assignment_out: str | None, message: str, stats: Path, tmp_path: Path
) -> None:
    before = stats.read_bytes()
    more = [] if assignment_out is None else ["--assignment-out", tmp_path / assignment_out]
    result = run(stats, "--workers", 2, "--table-out", tmp_path / table_out, *more)
    assert result.exit_code == 2
    assert message in result.stderr
    assert stats.read_bytes() == before


def test_keys_that_csv_cannot_hold_are_rejected_before_planning(tmp_path: Path) -> None:
    stats = tmp_path / "stats.parquet"
    keys = pa.array([{"a": 1}, {"a": 2}])
    pa.parquet.write_table(pa.table({"key": keys, "cost": [1.0, 1], "state": [1.0, 1]}), stats)
    result = run(stats, "--workers", 2, "--table-out", tmp_path / "out.csv")
    assert result.exit_code == 2
    assert "CSV cannot hold keys of type struct" in result.stderr


def test_default_output_is_a_table_with_bars(stats: Path) -> None:
    result = run(stats, "--workers", 4)
    assert result.exit_code == 0
    assert "imbalance after" in result.stdout
    assert "█" in result.stdout


def test_a_heavy_key_is_a_verdict_not_an_error(tmp_path: Path) -> None:
    path = tmp_path / "stats.csv"
    path.write_text("key,cost,state\nhot,100,1\na,1,1\nb,1,1\n")
    answer = plan(path, "--workers", 2)
    assert not answer["feasible"]
    (verdict,) = (v for v in answer["verdicts"] if v["code"] == "heavy_key")
    assert verdict["subject"] == "hot"
    assert verdict["reachable"] == pytest.approx(100 / 51 - 1)


GOOD = "key,cost,state\na,1,1\nb,2,2\n"


@pytest.mark.parametrize(
    ("stats", "table", "options", "message"),
    [
        ("key,cost\na,1\n", None, [], "no column state; columns: key, cost"),
        ("key,cost,state\na,-1,1\n", None, [], "cost must not be negative, got -1 in row 1"),
        ("key,cost,state\na,1,nan\n", None, [], "state must be finite, got nan in row 1"),
        ("key,cost,state\na,inf,1\n", None, [], "cost must be finite, got inf in row 1"),
        ("key,cost,state\na,x,1\n", None, [], "column cost must hold numbers"),
        ("key,cost,state\na,,1\n", None, [], "column cost"),
        ("key,cost,state\na,1,1\nb,1,1\na,2,2\n", None, [], "key a appears in rows 1 and 3"),
        ("key,cost,state\n", None, [], "has no rows"),
        ("", None, [], "Empty CSV"),
        ("key,cost,state\na,1\n", None, [], "cannot be read as csv"),
        (GOOD, "key,worker\na,2\n", [], "unknown worker 2 in row 1; workers are 0..1"),
        (GOOD, "key,worker\na,-1\n", [], "unknown worker -1"),
        (GOOD, "key,worker\na,0.5\n", [], "unknown worker 0.5"),
        (GOOD, "key,worker\na,0\na,1\n", [], "key a appears in rows 1 and 2"),
        (GOOD, "key\na\n", [], "no column worker"),
        ("key,cost,cost,state\na,1,1,1\n", None, [], "column cost is given twice"),
        ("key,cost,state\na,1e308,1\nb,1e308,1\n", None, [], "cost sums to more than a double"),
        ("key,cost,state\n7,1,1\n", "key,worker\n007,0\n", [], "keys are string, in STATS int64"),
        (
            "key,cost,state\n1,1,1\n",
            "key,worker\nx,0\n",
            [],
            "keys are string, in STATS int64",
        ),
        (GOOD, None, ["--max-imbalance", "-1"], "max-imbalance must be a number of at least 0"),
        (GOOD, None, ["--max-table", "-1"], "max-table must be a number of at least 0, got -1"),
        (GOOD, None, ["--beta", "nan"], "beta must be a number of at least 0, got nan"),
    ],
    ids=lambda value: None if isinstance(value, list) else str(value)[:40],
)
def test_bad_input_is_one_clear_line_and_nothing_is_written(
    stats: str, table: str | None, options: list[str], message: str, tmp_path: Path
) -> None:
    (tmp_path / "stats.csv").write_text(stats)
    out = tmp_path / "out.csv"
    arguments: list[object] = [tmp_path / "stats.csv", "--workers", 2, "--assignment-out", out]
    if table is not None:
        (tmp_path / "table.csv").write_text(table)
        arguments += ["--current", tmp_path / "table.csv"]
    result = run(*arguments, *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""
    assert not out.exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.csv", "no such file"),
        ("stats.txt", "expected a file ending in"),
        ("broken.parquet", "cannot be read as parquet"),
    ],
)
def test_unreadable_files_are_rejected(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "stats.txt").write_text(GOOD)
    (tmp_path / "broken.parquet").write_text(GOOD)
    result = run(tmp_path / name, "--workers", 2)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize("name", ["nowhere/out.csv", "out.xlsx"])
def test_outputs_are_checked_before_any_work(name: str, stats: Path, tmp_path: Path) -> None:
    result = run(stats, "--workers", 2, "--table-out", tmp_path / name)
    assert result.exit_code == 2
    assert name.rsplit("/", maxsplit=1)[-1] in result.stderr
