"""`evenflow query`, called as users call it."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner, Result

from evenflow.cli.app import app

COUNT = """SELECT window.start AS s, symbol, count(*) AS n, sum(qty) AS qty
FROM trades GROUP BY window(ts, '10 seconds'), symbol"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["query", *map(str, arguments)])


@pytest.fixture
def trades(tmp_path: Path) -> Path:
    path = tmp_path / "trades.csv"
    path.write_text(
        "ts,symbol,qty\n2026-01-01 00:00:01,a,1\n2026-01-01 00:00:02,a,2\n2026-01-01 00:00:12,b,4\n"
    )
    return path


def test_a_csv_file_is_a_stream_with_times_in_utc(trades: Path) -> None:
    result = run(COUNT, "--stream", f"trades={trades}", "--time", "ts", "--json")
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["columns"] == {"s": "TIMESTAMP", "symbol": "STRING", "n": "BIGINT",
                                 "qty": "BIGINT"}  # fmt: skip
    assert sorted(row["qty"] for row in answer["rows"]) == [3, 4]
    assert {row["s"] for row in answer["rows"]} == {
        "2026-01-01 00:00:00+00:00",
        "2026-01-01 00:00:10+00:00",
    }


def test_without_options_a_table_is_printed(trades: Path) -> None:
    result = run(COUNT, "--stream", f"trades={trades}", "--time", "ts", "--workers", 3)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.split("\n")[0].split() == ["s", "symbol", "n", "qty"]
    assert "2 rows" in result.stderr


def test_tables_join_and_results_are_written(trades: Path, tmp_path: Path) -> None:
    sectors, out = tmp_path / "sectors.jsonl", tmp_path / "out.parquet"
    sectors.write_text('{"symbol": "a", "sector": "x"}\n')
    sql = "SELECT t.qty, s.sector FROM trades t JOIN sectors s ON t.symbol = s.symbol"
    arguments = ("--stream", f"trades={trades}", "--time", "trades=ts", "--batches", 2)
    result = run(sql, *arguments, "--table", f"sectors={sectors}", "--out", out)
    assert result.exit_code == 0, result.stderr
    assert pa.parquet.read_table(out).to_pydict() == {"qty": [1, 2], "sector": ["x", "x"]}
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("sql", "more", "message"),
    [
        (COUNT, ["--stream", "trades"], "write NAME=FILE"),
        (COUNT, ["--stream", "x=no.csv"], "no such file"),
        (COUNT, ["--time", "other"], "write NAME=COLUMN"),
        (COUNT, ["--time", "x=ts"], "streams: trades"),
        (COUNT, ["--out", "x.txt"], "must end in"),
        ("SELECT nothing FROM trades", [], "no column 'nothing'"),
        ("SELECT qty / 0 AS x FROM trades", [], "failed on a row: .*division by zero"),
        (
            "SELECT window, count(*) AS n FROM trades GROUP BY window(ts, '1 minute')",
            ["--out", "x.csv"],
            "select its fields",
        ),
    ],
)
def test_errors_are_one_line_with_exit_code_2(
    trades: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str, more: list[str],
    message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    result = run(sql, "--stream", f"trades={trades}", "--time", "ts", *more)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert re.search(message, " ".join(result.stderr.split()))
    assert not list(tmp_path.glob("x.*"))
