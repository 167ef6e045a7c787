"""Event times in microseconds since the epoch: the valid range, and the lowest watermark."""

import pyarrow as pa
import pyarrow.compute as pc

MIN_EVENT_TIME_US = -2_208_988_800_000_000  # 1900-01-01, the first valid time
MAX_EVENT_TIME_US = 7_258_118_400_000_000  # 2200-01-01, the first time that is invalid again
NO_WATERMARK_US = -(1 << 62)


def event_times_us(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a timestamp column as microseconds; nanoseconds are truncated."""
    return times.cast(pa.timestamp("us", times.type.tz), safe=False).cast(pa.int64())


def valid_time_mask(times_us: pa.ChunkedArray) -> pa.ChunkedArray:
    """Mark the times that are not NULL and within the valid range.

    A time outside the range is an error in the data that the watermark would not recover from.

    >>> valid_time_mask(pa.chunked_array([[0, MAX_EVENT_TIME_US, None]])).to_pylist()
    [True, False, False]
    """
    inside = pc.and_(
        pc.greater_equal(times_us, MIN_EVENT_TIME_US), pc.less(times_us, MAX_EVENT_TIME_US)
    )
    return pc.fill_null(inside, False)
