"""Rows of the hostile corpus's stream, with values at every edge."""

import random
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
from tests.support.hostile_sql import SCHEMA
from tests.support.spark_harness import BEGIN_US, SECOND

_EDGES: dict[str, list[object]] = {
    "symbol": ["a", "b", "c", "", "\x1b[31m", "ß" * 50, None],
    "price": [0.0, -0.0, 1.5, float("nan"), float("inf"), -1e308, 5e-324, None],
    "volume": [0, 1, -1, (1 << 63) - 1, -(1 << 63), None],
    "note": ["", "x" * 2_000, "1_000", "\t42\n", "'; DROP TABLE trades; --", "\u202e", None],
    "amount": [Decimal("0.00"), Decimal("99999999.99"), Decimal("-0.01"), None],
    "small": [0, 1, -(1 << 31), (1 << 31) - 1, None],
    "big": [Decimal(0), Decimal(10**38 - 1), None],
    "ok": [True, False, None],
    "day": [date(1, 1, 1), date(2024, 2, 29), date(9999, 12, 31), None],
    "seen": [datetime(1900, 1, 1), datetime(2024, 1, 1, 12), None],
    "pair": [{"x": 1, "y": "a"}, {"x": None, "y": None}, None],
}


def hostile_rows(seed: int, count: int, begin_s: int = 0, span_s: int = 8) -> pa.Table:
    """Return rows in order of time, one after the other within `span_s` seconds."""
    chance = random.Random(seed)  # noqa: S311
    times = BEGIN_US + begin_s * SECOND + np.linspace(0, span_s * SECOND, count, dtype=np.int64)
    columns = {"ts": pa.array(times).cast(SCHEMA.field("ts").type)}
    for field in SCHEMA:
        if field.name != "ts":
            values = [chance.choice(_EDGES[field.name]) for _ in range(count)]
            columns[field.name] = pa.array(values, field.type)
    return pa.table(columns, schema=SCHEMA)
