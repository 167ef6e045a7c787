"""Settings of the whole test run."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

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

HERE = Path(__file__).parent
SPARK = {HERE / "spark", HERE / "sql/test_spark.py"}


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep what needs Spark in one process, and begin with it; a second one has the others."""
    for item in items:
        if SPARK & {item.path, *item.path.parents}:
            item.add_marker(pytest.mark.xdist_group("spark"))
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)
