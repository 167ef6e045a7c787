"""Rows of adversarial values: extremes, NaN, -0.0, NULL, unicode, instants at clock changes."""

import math
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from evenflow.sql import read_schema

# kind of the grammar -> Spark type of its columns
KINDS = {
    "BOOL": "BOOLEAN",
    "I8": "TINYINT",
    "I16": "SMALLINT",
    "I32": "INT",
    "I64": "BIGINT",
    "F32": "FLOAT",
    "F64": "DOUBLE",
    "DEC": "DECIMAL(10,2)",
    "WIDE": "DECIMAL(38,6)",
    "STR": "STRING",
    "DATE": "DATE",
    "TS": "TIMESTAMP",
    "NTZ": "TIMESTAMP_NTZ",
    "STRUCT": "STRUCT<x: INT, y: STRING, z: STRUCT<v: DOUBLE>>",
}
COLUMNS = {
    "BOOL": ("b1", "b2"),
    "I8": ("t1", "t2"),
    "I16": ("h1",),
    "I32": ("i1", "i2"),
    "I64": ("l1", "l2"),
    "F32": ("f1", "f2"),
    "F64": ("d1", "d2"),
    "DEC": ("n1", "n2"),
    "WIDE": ("w1",),
    "STR": ("s1", "s2"),
    "DATE": ("day1", "day2"),
    "TS": ("at1", "at2"),
    "NTZ": ("z1",),
    "STRUCT": ("st",),
}
SCHEMA = read_schema(
    "id INT, ts TIMESTAMP, "
    + ", ".join(f"{name} {KINDS[kind]}" for kind, names in COLUMNS.items() for name in names)
)
_INSTANTS = [
    datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime(1970, 1, 1),
    datetime(2024, 2, 29, 12, 0, 0, 1),
    datetime(2024, 3, 31, 0, 59, 59, 999_999),  # summer time begins in Europe
    datetime(2024, 3, 31, 1),
    datetime(2024, 10, 27, 0, 30),  # and ends
    datetime(2024, 11, 3, 6, 30),
    datetime(1900, 1, 1),
    datetime(2199, 12, 31, 23, 59, 59, 999_999),
    datetime(2024, 12, 30, 3, 4, 5, 678_901),  # ISO week 1 of the next year
]
_TINY = 5e-324
_FLOATS = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, -1.5, 2.5, 0.1, 3.4028234663852886e38]
POOLS: dict[str, list[Any]] = {
    "BOOL": [True, False],
    "I8": [0, 1, -1, 127, -128, 7],
    "I16": [0, 1, -1, 32767, -32768, 300],
    "I32": [0, 1, -1, 2, 7, -13, 2**31 - 1, -(2**31), 1_000_003],
    "I64": [0, 1, -1, 3, -10, 2**63 - 1, -(2**63), 2**53 + 1, 10**12],
    "F32": [*_FLOATS, 1e-45, 0.3, 4.35, 16777217.0],
    "F64": [*_FLOATS, _TINY, 1.7976931348623157e308, 1.005, 0.145, 2.675, 1e22,
            9.007199254740993e15, -2.5, 4.35, 123456789.125],
    "DEC": [Decimal(text) for text in ("0.00", "0.01", "-0.01", "99999999.99", "-99999999.99",
                                       "1.50", "2.45", "-2.55", "10.00")],
    "WIDE": [Decimal(text) for text in ("0.000000", "0.000001", "9" * 32 + ".999999",
                                        "-12345.678901", "1.000000", "0.145000")],
    "STR": ["", " ", "a", "A", "abc", "ß", "İ", "ǆ", "日本語", "e\u0301", "😀x", "a%b_c", "\\",
            "it's", "12", " 12 ", "\t42\n", "-0", "+7", "1_000", "1e3", "1.5", ".5", "5.", "NaN",
            "true", "2024-02-29", "2024-2-9", "2024", "2024/01/05", "2023-02-29", "epoch", "0x1F",
            "9223372036854775808", "ΑΣ", "ﬁ", "x" * 40],
    "DATE": [date(1970, 1, 1), date(2024, 2, 29), date(1969, 12, 31), date(2024, 12, 30),
             date(1900, 3, 1), date(2199, 12, 31), date(1582, 10, 4), date(1, 1, 1),
             date(9999, 12, 31)],
    "TS": [moment.replace(tzinfo=UTC) for moment in _INSTANTS],
    "NTZ": [*_INSTANTS, datetime(1582, 10, 4, 1)],
    "STRUCT": [{"x": 1, "y": "a", "z": {"v": 1.5}}, {"x": None, "y": "", "z": {"v": math.nan}},
               {"x": -1, "y": None, "z": None}, {"x": 0, "y": "ß", "z": {"v": -0.0}},
               {"x": 0, "y": "ß", "z": {"v": None}}],
}  # fmt: skip
# Small numbers, so that whole queries seldom overflow and sums do not depend on the order.
TAME: dict[str, list[Any]] = {
    **POOLS,
    "I8": [0, 1, -1, 5],
    "I16": [0, 1, -1, 30],
    "I32": [0, 1, 2, 3, -4],
    "I64": [0, 1, 2, 3, -10],
    "F32": [0.0, -0.0, math.nan, 0.5, -2.0],
    "F64": [0.0, -0.0, 1.0, 0.5, -2.25, 1024.0],
    "DEC": [Decimal("0.00"), Decimal("1.50"), Decimal("-2.55")],
    "WIDE": [Decimal("0.000001"), Decimal("-3.500000")],
    "STR": ["", "a", "b", "ß", "日本", "A"],
    "DATE": POOLS["DATE"][:4],
}


def rows(seed: int, count: int = 24, *, tame: bool = False) -> pa.Table:
    """Draw rows in the order of their event times, so that none is late."""
    rng = random.Random(seed)  # noqa: S311
    pools = TAME if tame else POOLS
    bases = rng.sample(_INSTANTS[:7], 2)
    moments = sorted(
        rng.choice(bases).replace(tzinfo=UTC) + timedelta(milliseconds=500 * rng.randrange(80))
        for _ in range(count)
    )
    lines = []
    for at, moment in enumerate(moments):
        line: dict[str, Any] = {"id": at, "ts": moment}
        for kind, names in COLUMNS.items():
            for name in names:
                line[name] = None if rng.random() < 0.12 else rng.choice(pools[kind])
        lines.append(line)
    return pa.Table.from_pylist(lines, schema=SCHEMA)
