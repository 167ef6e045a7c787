"""Settings of the whole test run."""

from hypothesis import HealthCheck, settings

# Timing is never tested: machines are shared and kernels compile on first use.
settings.register_profile(
    "evenflow", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("evenflow")
