"""Settings of the whole test run."""

import os

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
