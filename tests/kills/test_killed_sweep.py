"""A killed sweep keeps its finished points."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from evenflow.research.experiments.registry import EXPERIMENTS
from evenflow.research.sweep_folder import SweepFolder

FIGURE = EXPERIMENTS["borealis-fig1"]


@pytest.mark.slow
def test_a_killed_sweep_resumes(tmp_path: Path) -> None:
    out, total = tmp_path / "out", len(FIGURE.points("small"))
    command = [str(Path(sys.executable).with_name("evenflow")), "reproduce", FIGURE.id,
               "--out", str(out), "--master", "local[2]", "--json"]  # fmt: skip
    killed = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while len(list(out.glob("points/*/*.parquet"))) < 3:
        assert killed.poll() is None, killed.communicate()
        time.sleep(0.02)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert not (out / "report.md").exists()
    before = SweepFolder(out, [FIGURE]).finished_points(FIGURE.id)
    assert 3 <= len(before) < total

    again = subprocess.run([*command, "--resume"], capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    printed = json.loads(again.stdout)
    assert printed["points_run"] == total - len(before)
    after = SweepFolder(out, [FIGURE]).finished_points(FIGURE.id)
    assert len(after) == total
    assert all(after[name] == result for name, result in before.items())
    rows = pq.read_table(out / f"{FIGURE.id}.parquet")
    assert len(rows) == total
    for suffix in ("png", "svg"):
        assert (out / f"{FIGURE.id}.{suffix}").stat().st_size > 2_000
