"""Every example runs, small: its rows arrive, its results are those of the same rows at once."""

import importlib.util
import sys
import threading
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from evenflow.cli.run_spec import RunOptions, run_spec_on
from evenflow.spec import CheckedSpec, load_spec
from evenflow.spec.datasets import build_dataset

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = {
    "01_market": (
        "datasets.market.batches=4",
        "datasets.market.rows=500",
        "datasets.market.symbols=100",
        "workers=3",
    ),
    "02_flights": ("datasets.nyc.batches=4", "workers=3"),
    "03_words": ("datasets.text.batches=3", "datasets.text.rows=4000", "workers=3"),
    "04_tpch_q5": (
        "datasets.tpch.batches=6",
        "datasets.tpch.seconds=240",
        "datasets.tpch.scale=0.005",
        "workers=3",
    ),
    "06_operator": ("datasets.market.batches=3", "workers=2"),
}


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EVENFLOW_RUNS", str(tmp_path))
    return tmp_path


def rows(checked: CheckedSpec, dataset: str, part: str) -> pa.Table:
    data = build_dataset(checked.spec.datasets[dataset])
    return (
        pa.concat_tables(data.stream_batches(part))
        if part in data.streams
        else data.table_rows(part)
    )


def delivered(folder: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in folder.rglob("*.parquet"))


def answer(spark: SparkSession, checked: CheckedSpec, dataset: str, sql: str) -> Counter[object]:
    """Spark's own answer over all rows at once."""
    data = build_dataset(checked.spec.datasets[dataset])
    for part in (*data.streams, *data.tables):
        made = rows(checked, dataset, part).combine_chunks()
        frame = spark.createDataFrame(made)
        assert frame.count() == len(made)
        frame.createOrReplaceTempView(part)
    return Counter(tuple(row) for row in spark.sql(sql).collect())


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_example_runs(spark: SparkSession, runs: Path, name: str) -> None:
    checked = load_spec(EXAMPLES / f"{name}.yaml", SMALL[name])
    summary = run_spec_on(spark, checked, RunOptions(), threading.Event())
    assert (summary["exit_code"], summary["failure"], summary["late"]) == (0, None, {})
    title = name[3:]
    for query, count in summary["results"].items():
        folder = runs / f"{title}-results" / query
        assert delivered(folder) == count
    if name == "01_market":
        (hashed,) = summary["compare"].values()
        assert hashed["results"] == summary["results"]
        assert (
            hashed["rows"]
            == summary["rows"]
            == len(rows(checked, "market", "trades"))
            + len(rows(checked, "market", "quotes"))
            + len(rows(checked, "market", "news"))
        )
        sql = checked.spec.queries["swings"].sql
        assert summary["results"]["swings"] == answer(spark, checked, "market", sql).total() > 0
    if name == "02_flights":
        for query in ("cascades", "storms"):
            sql = checked.spec.queries[query].sql
            wanted = answer(spark, checked, "nyc", sql)
            assert summary["results"][query] == wanted.total() > 0
    if name == "03_words":
        found = pq.read_table(runs / "words-results/counts")
        said = rows(checked, "text", "words")
        complete = pc.max(found["ts"]).cast(said["ts"].type)
        before = said.filter(pc.less(said["ts"], complete))
        assert pc.sum(found["n"]).as_py() == len(before) > 0
    if name == "04_tpch_q5":
        sql = checked.spec.queries["joined"].sql
        assert summary["results"]["joined"] == answer(spark, checked, "tpch", sql).total() > 0
        assert summary["results"]["revenue"] > 0
    if name == "06_operator":
        assert summary["results"]["runs"] == ended_runs(rows(checked, "market", "trades")) > 0


def ended_runs(trades: pa.Table) -> int:
    """Count runs of four or more rising prices that a trade has ended."""
    prices: dict[str, list[float]] = {}
    for row in trades.sort_by("ts").to_pylist():
        prices.setdefault(row["symbol"], []).append(row["price"])
    count = 0
    for series in prices.values():
        length = 1
        for before, now in pairwise(series):
            count += now <= before and length >= 4
            length = length + 1 if now > before else 1
    return count


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.mark.slow
def test_own_dataframe(
    spark: SparkSession,
    runs: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["05_dataframe.py", "1"])
    module("05_dataframe").main(str(runs / "flow"))
    shown = capfd.readouterr().out.splitlines()
    assert next(line for line in shown if "digit" in line).split() == ["at", "digit", "n"]
    assert len(shown) > 10, "a second has ten digits"


@pytest.mark.slow
@pytest.mark.parametrize("time_column", [None, "at"])
def test_your_csv(
    spark: SparkSession,
    tmp_path: Path,
    time_column: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    example = module("00_your_csv")
    monkeypatch.setattr(example, "BATCHES", 2)
    file = tmp_path / "visits.csv"
    hours = [f"2024-05-01 {hour:02d}:00:00" for hour in range(21)]
    lines = [f"{page},{hour}" for hour in reversed(hours) for page in ("home", "home", "help")]
    file.write_text("\n".join(["page,at", *lines]))
    (tmp_path / "folder").mkdir()
    example.main(tmp_path / "folder", str(file), "page", time_column)
    shown = capfd.readouterr().out
    assert "63 rows" in shown
    if time_column:
        assert "2024-05-01 00:00:00+00:00 home 2" in " ".join(shown.split())
    assert shown.index("  home: ") < shown.index("  help: "), "heaviest first"
