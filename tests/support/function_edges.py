"""Rows of edge values for every kind of argument, on which both engines answer."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

STRUCT = pa.struct([("x", pa.int32()), ("y", pa.string()), ("t", pa.timestamp("us", "UTC"))])
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("d", pa.float64()),
        ("e", pa.float64()),
        ("f", pa.float32()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("b", pa.bool_()),
        ("s", pa.string()),
        ("t", pa.string()),
        ("n", pa.string()),
        ("j", pa.string()),
        ("m", pa.decimal128(10, 2)),
        ("q", pa.decimal128(12, 4)),
        ("day", pa.date32()),
        ("day2", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("a", pa.list_(pa.int32())),
        ("a2", pa.list_(pa.int32())),
        ("sa", pa.list_(pa.string())),
        ("mp", pa.map_(pa.string(), pa.int32())),
        ("st", STRUCT),
    ]
)
_T = datetime(2024, 2, 29, 13, 4, 5, 678_901, tzinfo=UTC)
POOLS: dict[str, list[Any]] = {
    "d": [None, 0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, -1.0, 0.5, 2.5, -2.5, 3.5, 1e-5,
          12345678.9, 1e22, 0.001, 100.0, 1234567.891, -0.145, 5e-324, 123.456],
    "e": [2.0, None, 0.5, -3.0, 10.0, 0.25, 1e-3],
    "f": [None, 0.1, -0.0, math.nan, 1e10, 16777216.0, 3.4e38, 1e-45, 2.5],
    "i": [None, 0, 1, -1, 5, -7, 2**31 - 1, -(2**31), 13, 255],
    "l": [None, 0, 1, -1, 2**63 - 1, -(2**63), 42, 10**12],
    "b": [True, False, None],
    "s": [None, "", " ", "abc", "ABC def", "  pad  ", "ß", "日本語", "a😀b", "hello world",
          "a,b,,c", "it's", "x=1&y=2", "aXbXc", "123-456", "e\u0301", "foo.bar.baz", "%_\\",
          "tab\tnew\nline", "2024-02-29", "aaa", "ǆ", "The Quick  brown", "\r\n", "end\n"],
    "t": ["a", "", None, "b", "bc", "o", "X", "日", " "],
    "n": [None, "1", " 12 ", "-3.5", "1e3", "x", "", "true", "No", "2024-02-29 01:02:03", "0x1F",
          "2024-2-9", "2024-02-30", "Infinity", "nan", "7F", "zz", "2024-02-29T10:00:00+02:00",
          "12.30", "1d", "2024-03-01 12:00:00.123456", "2024", "YWJj", "4111111111111111"],
    "j": [None, "{}", '{"a": 1, "b": "x", "c": [1, 2.50, "z"], "d": {"e": null, "f": true}}',
          "[1, 2, 3]", "broken", '{"a": "text", "b": 5, "c": [], "d": {"f": "q\\"r"}}', '"plain"',
          '{"a": 1e3, "b": "ß\\u00e9", "g": "2024-02-29"}', "[]", '{"a": 99999999999, "b": null}'],
    "m": [None, Decimal("0.00"), Decimal("99999999.99"), Decimal("-1.55"), Decimal("10.00")],
    "q": [Decimal("3.0000"), None, Decimal("-0.3333"), Decimal("12345678.9999")],
    "day": [date(1970, 1, 1), date(2024, 2, 29), None, date(2023, 12, 31), date(2024, 1, 31),
            date(1900, 3, 1), date(2024, 12, 30), date(1582, 10, 20)],
    "day2": [date(2024, 3, 1), date(1999, 12, 31), date(2024, 2, 29), None],
    "at": [_T, datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), None,
           datetime(2024, 10, 27, 0, 30, tzinfo=UTC), datetime(2000, 1, 1, tzinfo=UTC),
           datetime(2024, 12, 30, 12, tzinfo=UTC), datetime(2023, 1, 1, 1, 2, 3, tzinfo=UTC)],
    "a": [None, [], [1, 2, 3], [3, None, 1, 3], [None], [5, 5], [-1, 0, 7, 2]],
    "a2": [[1, 2], [], None, [3, None], [9]],
    "sa": [None, [], ["a", "b"], ["x", None, ""], ["日", "a", "a"], [None]],
    "mp": [None, {}, {"a": 1, "b": None}, {"x": 5}],
    "st": [None, {"x": 1, "y": "q", "t": _T}, {"x": None, "y": None, "t": None},
           {"x": -5, "y": 'a"b\\', "t": datetime(1970, 1, 1, tzinfo=UTC)}],
}  # fmt: skip
ROWS = 60


def edge_rows() -> pa.Table:
    """Return the rows; pools have different lengths, so their values meet in many ways."""
    columns: dict[str, list[Any]] = {
        "id": list(range(ROWS)),
        "ts": [datetime(2024, 1, 1, 0, 0, at, tzinfo=UTC) for at in range(ROWS)],
    }
    for name, pool in POOLS.items():
        columns[name] = [pool[at % len(pool)] for at in range(ROWS)]
    columns["mp"] = [None if v is None else list(v.items()) for v in columns["mp"]]
    return pa.table({name: pa.array(v, SCHEMA.field(name).type) for name, v in columns.items()})
