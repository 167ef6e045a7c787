"""Kafka as a source and a sink, with a real broker."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from scripts.services import UnavailableError, kafka_connector_jars, kafka_server_jars
from tests.support.kafka_check import MAX_PER_BATCH, ROWS

ROOT = Path(__file__).parents[2]
TIMEOUT_SECONDS = 800


def run_program(*command: str, **environment: str) -> Mapping[str, Any]:
    """Run a program; return the JSON of its last line."""
    try:
        kafka_server_jars(), kafka_connector_jars()
    except UnavailableError as error:
        pytest.skip(str(error))
    process = subprocess.Popen(
        command, env={**os.environ, **environment}, cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        out, problems = process.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        process.terminate()  # it ends what it has started
    assert process.returncode == 0, (out + problems)[-3000:]
    found: Mapping[str, Any] = json.loads(out.splitlines()[-1])
    return found


@pytest.mark.slow
def test_avro_rows_of_a_topic_that_grows_reach_another_topic(tmp_path: Path) -> None:
    found = run_program(sys.executable, "-m", "tests.support.kafka_check", str(tmp_path))
    assert found["errors"] == {}
    assert found["expected"] == ROWS
    assert found["ids"], "the results are not those of the rows"
    assert found["missing"] == found["duplicates"] == 0
    assert found["headers"], "the headers do not name the batches"
    assert 0 < found["largest_batch"] <= MAX_PER_BATCH + 16  # Spark rounds up for each partition


@pytest.mark.slow
def test_the_example_is_killed_three_times_and_loses_nothing(tmp_path: Path) -> None:
    program = str(ROOT / "examples/08_kafka/run")
    here = str(Path(sys.executable).parent)
    found = run_program(program, "8000", str(tmp_path), EVENFLOW_BIN=here)
    assert found["produced"] == 8_001
    assert found["delivered"] == found["expected"] > 1_000
    assert found["missing"] == found["duplicates"] == 0
