"""One Spark for all tests of the runtime."""

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.spark.harness import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    found = session("local[2,4]")
    yield found
    found.stop()
