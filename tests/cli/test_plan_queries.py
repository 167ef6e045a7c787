"""`evenflow plan queries`: files in, files out, one line per error."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner, Result

from evenflow.cli.app import app
from evenflow.planning.queries import ALGORITHMS

FIELDS = [
    "algorithm", "workers", "queries", "query_types", "sources", "feasible", "traffic",
    "replication_factor", "lower_bound", "max_over_mean_load", "moved_queries", "plan_seconds",
    "queries_per_second", "verdicts",
]  # fmt: skip
ROWS: list[dict[str, Any]] = [
    {"query": "alerts", "sources": ["trades", "news"]},
    {"query": "pairs", "sources": ["trades"]},
    {"query": "late", "sources": ["weather", "flights", "weather"]},
    {"query": "storm", "sources": ["weather"]},
]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["plan", "queries", *map(str, arguments)])


def planned(*arguments: object) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout, parse_constant=pytest.fail))


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    return write(tmp_path / "queries.jsonl", ROWS)


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("algorithm", sorted(set(ALGORITHMS) - {"single-source", "repair"}))
def test_every_algorithm_prints_the_same_fields(algorithm: str, queries: Path) -> None:
    answer = planned(queries, "--workers", 2, "--algorithm", algorithm)
    assert list(answer) == FIELDS
    assert answer["algorithm"] == algorithm
    assert (answer["queries"], answer["query_types"], answer["sources"]) == (4, 4, 4)
    assert answer["lower_bound"] <= answer["traffic"]
    assert answer["plan_seconds"] > 0


def test_parquet_in_parquet_out_and_back_as_the_current_placement(
    queries: Path, tmp_path: Path
) -> None:
    table = pa.Table.from_pylist(ROWS)
    pa.parquet.write_table(table, tmp_path / "queries.parquet")
    out = tmp_path / "placement.parquet"
    planned(tmp_path / "queries.parquet", "--workers", 2, "--placement-out", out)
    placement = pa.parquet.read_table(out)
    assert placement["query"].to_pylist() == ["alerts", "pairs", "late", "storm"]
    answer = planned(queries, "--workers", 2, "--current", out)
    assert answer["moved_queries"] == 0


def test_repair_respects_max_moves(queries: Path, tmp_path: Path) -> None:
    """Both groups of queries are split; one move reunites one of them."""
    current = tmp_path / "current.csv"
    current.write_text("query,worker\nalerts,0\npairs,1\nlate,1\nstorm,0\n")
    common = (
        queries,
        "--workers",
        2,
        "--algorithm",
        "repair",
        "--slack",
        0.5,
        "--current",
        current,
    )
    assert planned(*common, "--max-moves", 0)["traffic"] == 6
    one = planned(*common, "--max-moves", 1)
    assert (one["traffic"], one["moved_queries"]) == (5, 1)
    all_moves = planned(*common)
    assert (all_moves["traffic"], all_moves["moved_queries"]) == (4, 2)


def test_rates_loads_and_pins_count(tmp_path: Path) -> None:
    rows = [
        {"query": 1, "sources": [10], "load": 3, "pinned": 1},
        {"query": 2, "sources": [10, 20], "load": 1, "pinned": None},
        {"query": 3, "sources": [30], "load": 2, "pinned": None},
    ]
    rates, out = tmp_path / "rates.csv", tmp_path / "out.csv"
    rates.write_text("source,rate\n30,1\n20,0.5\n10,8\n")
    file = write(tmp_path / "queries.jsonl", rows)
    common = (file, "--workers", 2, "--sources", rates, "--placement-out", out)
    answer = planned(*common, "--algorithm", "ic", "--slack", 0.4)
    assert answer["traffic"] == 9.5
    assert pa.csv.read_csv(out).to_pylist() == [
        {"query": 1, "worker": 1},
        {"query": 2, "worker": 1},
        {"query": 3, "worker": 0},
    ]


def test_what_does_not_fit_is_a_verdict_not_an_error(tmp_path: Path) -> None:
    rows = [{"query": q, "sources": ["s"], "load": load} for q, load in (("a", 1), ("b", 99))]
    answer = planned(write(tmp_path / "q.jsonl", rows), "--workers", 2, "--algorithm", "mms")
    assert answer["feasible"] is False
    assert {verdict["code"] for verdict in answer["verdicts"]} == {"no_room", "over_bound"}


def test_lists_and_names_of_any_arrow_kind(tmp_path: Path) -> None:
    """Fixed-size lists, large lists, dictionaries and large strings give the same plan."""
    out, plans = tmp_path / "out.csv", []
    names = pa.array(["a", "b", "c"])
    lists = pa.array([["x", "y"], ["y", "z"], ["x", "z"]])
    for query, sources in (
        (names, lists),
        (names.dictionary_encode(), lists.cast(pa.list_(pa.string(), 2))),
        (names.cast(pa.large_string()), lists.cast(pa.large_list(pa.large_string()))),
    ):
        file = tmp_path / "queries.parquet"
        pa.parquet.write_table(pa.table({"query": query, "sources": sources}), file)
        planned(file, "--workers", 2, "--placement-out", out)
        plans.append(out.read_text())
    assert plans[0] == plans[1] == plans[2]


def test_default_output_is_a_table(queries: Path) -> None:
    result = run(queries, "--workers", 2)
    assert result.exit_code == 0
    assert "replication factor" in result.stdout


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"sources": []}, "query bad (row 5) has no sources"),
        ({"sources": None}, "query bad (row 5) has no sources"),
        ({"sources": ["news", None]}, "query bad (row 5) has an empty source name"),
        ({"sources": ["moon"]}, "query bad reads unknown source moon"),
        ({"sources": ["news"], "load": 0}, "load must be positive, got 0 for query bad"),
        ({"sources": ["news"], "pinned": 2}, "unknown worker 2"),
        ({"sources": ["news"], "query": "pairs"}, "query pairs appears twice"),
    ],
)
def test_bad_queries(row: dict[str, Any], message: str, tmp_path: Path) -> None:
    rates = tmp_path / "rates.csv"
    rates.write_text("source,rate\ntrades,1\nnews,1\nweather,2\nflights,1\n")
    file = write(tmp_path / "queries.jsonl", [*ROWS, {"query": "bad", **row}])
    refused(message, file, "--workers", 2, "--sources", rates)


def refused(message: str, *arguments: object) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert result.stderr.count("\n") == 1
    assert not result.stdout


def test_more_pins_than_a_worker_holds(tmp_path: Path) -> None:
    rows = [{"query": q, "sources": [0], "pinned": 0} for q in range(100)]
    file = write(tmp_path / "q.jsonl", rows)
    refused("worker 0 holds a load of at most 60", file, "--workers", 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--workers", 0), "--workers must be 1 to 100,000, got 0"),
        (("--workers", 2, "--algorithm", "best"), "--algorithm must be one of mqp"),
        (("--workers", 2, "--algorithm", "repair"), "add --current PLACEMENT"),
        (("--workers", 2, "--algorithm", "ic", "--max-moves", 1), "max moves"),
        (("--workers", 2, "--slack", -1), "slack must be a number of at least 0"),
        (("--workers", 2, "--placement-out", "no/such/p.csv"), "no such folder"),
        (("--workers", 2, "--seed", -1), "--seed must not be negative"),
    ],
)
def test_bad_options(options: tuple[object, ...], message: str, queries: Path) -> None:
    refused(message, queries, *options)


@pytest.mark.parametrize(
    ("current", "message"),
    [
        ("query,worker\npairs,2\n", "unknown worker 2 in row 1; workers are 0..1"),
        ("query,worker\npairs,-1\n", "unknown worker -1"),
        ("query,worker\npairs,0\npairs,1\n", "query pairs appears twice"),
        ("query\npairs\n", "no column worker"),
    ],
)
def test_bad_placements(current: str, message: str, queries: Path, tmp_path: Path) -> None:
    file = tmp_path / "current.csv"
    file.write_text(current)
    refused(message, queries, "--workers", 2, "--current", file)


def test_columns_of_the_wrong_kind(tmp_path: Path) -> None:
    file = write(tmp_path / "q.jsonl", [{"query": "a", "sources": "x"}])
    refused("column sources must hold lists, got string", file, "--workers", 2)
    file = write(tmp_path / "q.jsonl", [{"query": "a", "sources": [[1]]}])
    refused("sources must be strings or integers", file, "--workers", 2)
    file = write(tmp_path / "q.jsonl", [{"query": "a"}])
    refused("no column sources", file, "--workers", 2)
    refused("need Parquet or JSON lines, not CSV", tmp_path / "q.csv", "--workers", 2)


def test_bad_rates(queries: Path, tmp_path: Path) -> None:
    file = tmp_path / "rates.csv"
    file.write_text("source,rate\ntrades,-2\nnews,1\n")
    refused("rate must be positive, got -2 for source trades", queries, "--workers", 2,
            "--sources", file)  # fmt: skip


def test_the_input_is_not_overwritten(queries: Path) -> None:
    before, place = queries.read_bytes(), queries.with_suffix(".csv")
    message = "is already an input or output"
    refused(message, queries, "--workers", 2, "--placement-out", place, "--current", place)
    assert queries.read_bytes() == before
