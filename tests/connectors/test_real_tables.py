"""Sinks with real connectors and databases hold each row once, whatever crashes.

Iceberg and Delta's connector exist for Spark 4.1: `make test-spark VERSION=4.1` runs them.
"""

import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pyspark
import pytest
from scripts.postgres_server import postgres_server
from scripts.services import UnavailableError, sink_jars
from tests.support.connector_check import CRASHES

IS_SPARK_4_1 = pyspark.__version__.startswith("4.1.")
needs_4_1 = pytest.mark.skipif(not IS_SPARK_4_1, reason="its connector is for Spark 4.1")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["jdbc", pytest.param("iceberg", marks=needs_4_1), pytest.param("delta", marks=needs_4_1)],
)
def test_a_delivery_repeated_after_a_crash_changes_nothing(name: str, tmp_path: Path) -> None:
    try:
        sink_jars(name)
        with postgres_server() if name == "jdbc" else nullcontext("") as url:
            command = [sys.executable, "-m", "tests.support.connector_check", name, str(tmp_path)]
            done = subprocess.run(
                [*command, url] if url else command,
                capture_output=True, text=True, timeout=300, check=False,
            )  # fmt: skip
    except UnavailableError as error:
        pytest.skip(str(error))
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["missing"] == found["duplicates"] == 0
    assert found["delivered"] == found["expected"] > 100
    assert found["crashes"] == sum(CRASHES)
