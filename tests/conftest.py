"""Settings of the whole test run."""

import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler.loadscope import LoadScopeScheduling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from scripts.s3_server import S3Server

# Timing is never tested: machines are shared and kernels compile on first use. CI repeats the same
# examples, so that a change is judged by itself; at a desk every run tries new ones.
settings.register_profile(
    "evenflow",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("evenflow")


@pytest.fixture(scope="session", autouse=True)
def no_list_of_runs(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the runs of tests out of `evenflow list`."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """One Spark for all tests of the runtime."""
    from tests.support.spark_harness import session

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    found = session("local[2,4]")
    yield found
    found.stop()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator["S3Server"]:
    """One S3 server for all tests that need one; they are skipped where it cannot be had."""
    from scripts.s3_server import S3Server
    from scripts.services import UnavailableError

    try:
        server = S3Server(tmp_path_factory.mktemp("s3"))
    except UnavailableError as error:
        pytest.skip(str(error))
    yield server
    server.stop()


@cache
def uses_spark(file: str) -> bool:
    """Return whether a test file asks for the shared Spark."""
    text = (ROOT / file).read_text() if file.startswith("tests/") else ""
    return SPARK_ARGUMENT.search(text) is not None


class SparkTogether(LoadScopeScheduling):  # type: ignore[misc]
    """Keeps all tests with Spark in one process, as a Spark each would only compete.

    The others go by file to whoever is free. (Groups of xdist have no effect with pytest 9.)
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "spark" if uses_spark(file) else file


ROOT = Path(__file__).parent.parent
SPARK_ARGUMENT = re.compile(r"[(,]\s*spark: ")
KILLS = "tests/kills/"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that no process is left with it in the end."""

    def order(item: pytest.Item) -> tuple[bool, bool]:
        file = item.nodeid.partition("::")[0]
        return not uses_spark(file), not file.startswith(KILLS)

    items.sort(key=order)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SparkTogether:
    config.option.loadscopereorder = False
    return SparkTogether(config, log)
