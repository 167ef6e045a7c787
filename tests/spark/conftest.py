"""One Spark for all tests of the runtime."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.harness import session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of this folder in one process; a second one has those without Spark."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    found = session("local[2,4]")
    yield found
    found.stop()
