"""A specification on Spark: run, delivered once, gone on with, summed up."""

import os
import shutil
import signal
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from evenflow.cli.run_spec import RunOptions, delete_checkpoint, interrupt_event, run_spec_on
from evenflow.cli.run_summary import print_run_summary
from evenflow.errors import InputError
from evenflow.spec import CheckedSpec, load_spec
from evenflow.spec.datasets import build_dataset

STARTER = Path(__file__).parents[2] / "src/evenflow/spec/starter.yaml"
SMALL = ("datasets.market.batches=3", "datasets.market.rows=400", "workers=3")


def rows_in(folder: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in folder.rglob("*.parquet"))


def starter(folder: Path, *overrides: str) -> CheckedSpec:
    path = folder / "starter.yaml"
    shutil.copy(STARTER, path)
    return load_spec(path, [*SMALL, *overrides])


def test_the_starter_runs_and_is_delivered_once(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checked = starter(tmp_path)
    summary = run_spec_on(spark, checked, RunOptions(), threading.Event())
    assert (summary["exit_code"], summary["failure"]) == (0, None)
    assert (summary["rows"], summary["late"], summary["poison"]) == (1200, {}, {})
    results = tmp_path / "starter-results"
    delivered = {query: rows_in(results / query) for query in summary["results"]}
    assert delivered == summary["results"]
    trades = pa.concat_tables(
        build_dataset(checked.spec.datasets["market"]).stream_batches("trades")
    )
    assert delivered["bargains"] == sum(price < 20 for price in trades["price"].to_pylist())
    print_run_summary(summary)
    assert "1,200" in capsys.readouterr().out

    # A crash may come between a delivery and the note of it: the batches are delivered again.
    for note in (tmp_path / "starter-run/sinks/files").rglob("*"):
        if note.is_file():
            note.unlink()
    more = starter(tmp_path, "queries.more=SELECT ts, qty FROM trades WHERE qty < 0")
    again = run_spec_on(spark, more, RunOptions(), threading.Event())
    assert (again["exit_code"], again["rows"], sum(again["results"].values())) == (0, 0, 0)
    assert {query: rows_in(results / query) for query in delivered} == delivered

    delete_checkpoint(checked, str(tmp_path / "starter-run"))
    assert not (tmp_path / "starter-run").exists()
    assert {query: rows_in(results / query) for query in delivered} == dict.fromkeys(delivered, 0)


def test_failures_are_summed_up(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text("1;2026-01-01T00:00:00Z;4\n2;2026-01-01T00:00:01Z;0\n")
    (tmp_path / "blocked").write_text("")
    spec = tmp_path / "spec.yaml"
    spec.write_text("""
workers: 2
checkpoint: run
available_now: true
sources:
  events:
    format: csv
    path: in
    options: {sep: ;}
    schema: n INT, at STRING, part INT
    time: at
queries:
  fine: {sql: "SELECT at, n FROM events"}
  ratio: {sql: "SELECT at, n div part AS whole FROM events"}
sinks:
  lost: {format: parquet, path: "blocked/{query}"}
  shown: {format: console, queries: fine, select: [n + 40 AS answer]}
""")
    with pytest.raises(InputError, match="event-time column 'at' is string"):
        load_spec(spec)
    said = "n INT, at TIMESTAMP, part INT"
    checked = load_spec(spec, [f"sources.events.schema={said}"])
    summary = run_spec_on(spark, checked, RunOptions(), threading.Event())
    assert summary["exit_code"] == 1
    assert "ratio" in summary["quarantined"]
    assert summary["results"] == {"fine": 2, "ratio": 0}
    assert "lost" in summary["sink_errors"]
    assert summary["where"]["fine"] == "console"


def test_ctrl_c_ends_after_the_batch_under_way(spark: SparkSession, tmp_path: Path) -> None:
    checked = starter(tmp_path, "available_now=false")  # it would run until it is stopped
    index = tmp_path / "starter-run/results/index"

    def interrupt() -> None:
        until = time.monotonic() + 300
        while not (index.is_dir() and any(index.iterdir())) and time.monotonic() < until:
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    with interrupt_event() as ending:
        threading.Thread(target=interrupt, daemon=True).start()
        summary = run_spec_on(spark, checked, RunOptions(), ending)
    assert (summary["exit_code"], summary["failure"]) == (130, None)
    assert summary["batches"] >= 1
    results = tmp_path / "starter-results"
    assert {q: rows_in(results / q) for q in summary["results"]} == summary["results"]


def test_forget_spares_what_is_not_ours(tmp_path: Path) -> None:
    checked = starter(tmp_path)
    (tmp_path / "starter-run").mkdir()
    (tmp_path / "starter-run/mine").write_text("")
    with pytest.raises(InputError, match="is not a checkpoint"):
        delete_checkpoint(checked, str(tmp_path / "starter-run"))
    with pytest.raises(InputError, match="is not a local folder"):
        delete_checkpoint(checked, "s3://bucket/run")
