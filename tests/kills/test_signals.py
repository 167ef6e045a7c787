"""SIGTERM to the whole process group ends a run as Ctrl-C does: after its batch, in order.

PySpark sets a handler of its own for Ctrl-C, which would cancel the batch.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.poll import until

SPEC = """
workers: 2
checkpoint: run
sources:
  ticks: {format: rate, options: {rowsPerSecond: 50}, time: timestamp, watermark: 1 second}
queries:
  all: SELECT timestamp, value FROM ticks
"""


def newest_entry(folder: Path) -> str:
    return max((path.name for path in (folder / "run/ledger").glob("0*")), default="")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_process_group_stops_after_the_batch(
    tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC)
    command = "from evenflow.cli.app import main; main()"
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-c", command, "run", "spec.yaml", "--no-page"],
            cwd=tmp_path, stdout=out, stderr=err, start_new_session=True,
        )  # fmt: skip
    try:
        # The first batch of this source is empty: wait for one that has results, and its commit.
        until(lambda: any((tmp_path / "run/results/data").rglob("0*")), seconds=180)
        batch = newest_entry(tmp_path)
        until(lambda: newest_entry(tmp_path) > batch, seconds=180)
        os.killpg(process.pid, number)
        assert process.wait(180) == 130
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    error, shown = (tmp_path / "err").read_text(), (tmp_path / "out").read_text()
    assert "stopping after the current batch" in error
    assert "Traceback" not in error
    assert "nanobind" not in error
    assert "newest results of all" in shown
    assert "failed" not in shown
