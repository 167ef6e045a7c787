"""Kills the driver between the write of a sink and the note of it, in a real run."""

import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

SPEC = """
workers: 2
checkpoint: run
available_now: true
datasets:
  market: {kind: market, batches: 6, rows: 100}
sources:
  trades: {dataset: market, time: ts, watermark: 2 seconds}
queries:
  bargains: SELECT ts, symbol, price, qty FROM trades WHERE price < 200
sinks:
  files: {format: parquet, path: "files/{query}"}
  shown: {format: console, options: {numRows: 100000}}
"""


def run(folder: Path, point: str) -> tuple[int, Counter[str]]:
    """Run the specification; return the exit code and the rows on the console."""
    environment = {"EVENFLOW_CRASH": point, "EVENFLOW_CRASH_MARK": str(folder / "mark")}
    command = "from evenflow.cli.app import main; main()"
    with (folder / "out").open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", command, "run", "spec.yaml", "--no-page"], cwd=folder,
            env={**os.environ, **environment}, stdout=out, start_new_session=True,
        )  # fmt: skip
    try:
        process.wait(timeout=200)
    finally:  # the JVM outlives its driver
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    output = (folder / "out").read_text()
    lines = [line for line in output.splitlines() if line.startswith("bargains: ts=")]
    return process.returncode, Counter(lines)


@pytest.mark.slow
def test_files_have_each_row_once_and_the_console_repeats_one_range(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC)
    code, first = run(tmp_path, "sink.delivered.shown:1")
    assert code == -signal.SIGKILL
    code, second = run(tmp_path, "")
    assert code == 0
    files = (tmp_path / "files/bargains").rglob("*.parquet")
    rows = sum(pq.read_metadata(file).num_rows for file in files)
    assert rows > 0
    assert second.total() == rows, "the console had noted nothing before the kill"
    assert first <= second, "the range that was shown is shown again"
    assert first.total() > 0
