"""Runs examples/07_cluster.sh, which starts a standalone cluster."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples/07_cluster.sh"


@pytest.mark.slow
def test_cluster(tmp_path: Path) -> None:
    """A master, two workers and a driver: four JVMs."""
    variables = {"EVENFLOW_BIN": str(Path(sys.executable).parent), "EVENFLOW_RUNS": str(tmp_path)}
    done = subprocess.run(
        [EXAMPLE, "--json", "--set", "datasets.market.batches=2"],
        env={**os.environ, **variables}, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert '"rows": 4000' in done.stdout
    files = (tmp_path / "cluster-results/jumps").rglob("*.parquet")
    assert sum(pq.read_metadata(file).num_rows for file in files) > 0
