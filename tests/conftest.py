"""Settings of the whole test run."""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler.loadscope import LoadScopeScheduling

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


class SparkTogether(LoadScopeScheduling):  # type: ignore[misc]
    """Keeps all tests with Spark in one process, as a Spark each would only compete.

    The others go by file to whoever is free. (Groups of xdist have no effect with pytest 9.)
    """

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.startswith(SPARK) else nodeid.partition("::")[0]


SPARK = ("tests/spark/", "tests/sql/test_spark.py")
PROGRAMS = "tests/programs/"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that no process is left with it in the end."""
    items.sort(key=lambda item: (not item.nodeid.startswith(SPARK),
                                 not item.nodeid.startswith(PROGRAMS)))  # fmt: skip


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SparkTogether:
    config.option.loadscopereorder = False
    return SparkTogether(config, log)
