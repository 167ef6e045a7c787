"""Event times of datasets: microseconds since 1970; generated ones begin at START_US."""

import pyarrow as pa

SECOND_US = 1_000_000
START_US = 1_767_225_600 * SECOND_US  # 2026-01-01 00:00 UTC
TIMESTAMP = pa.timestamp("us", "UTC")
