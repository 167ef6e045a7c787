"""Differences from Spark that the fuzzer found and that are not mended yet.

Each case must still differ: remove a finding once it is mended. The fuzzer's tests tolerate
exactly what matches the pattern of a finding: `category: shape` of the innermost expression, or
`category: SQL: our answer` of a query.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from tests.support.differential import Difference

from evenflow.sql import read_schema

NAN = float("nan")
_INSTANT = datetime(2024, 3, 31)


@dataclass(frozen=True)
class Finding:
    """A class of differences with the smallest case: SQL over the rows of `t`."""

    reason: str
    pattern: str
    sql: str
    schema: str = ""
    rows: tuple[tuple[Any, ...], ...] = ((),)
    batches: int = 1

    @property
    def table(self) -> pa.Table:
        schema = read_schema(", ".join(filter(None, ["ts TIMESTAMP", self.schema])))
        lines = [dict(zip(schema.names, (_INSTANT + timedelta(seconds=4 * at), *row), strict=True))
                 for at, row in enumerate(self.rows)]  # fmt: skip
        return pa.Table.from_pylist(lines, schema=schema)


def find_known(difference: Difference) -> Finding | None:
    """Return the finding that a difference belongs to."""
    text = f"{difference.category}: {difference.shape}: {difference.ours}"
    return next((known for known in FINDINGS if re.match(known.pattern, text)), None)


FINDINGS: tuple[Finding, ...] = (
    Finding("NOT LIKE answers LIKE", r"value: \(STR NOT LIKE", "SELECT a NOT LIKE 'a%' AS c FROM t",
            "a STRING", (("b",),)),
    Finding("substring with a negative length", r"value: substring\(STR, 2, -1\)",
            "SELECT substring(a, 2, -1) AS c FROM t", "a STRING", (("abc",),)),
    Finding("FLOAT or DOUBLE to DECIMAL through binary digits",
            r"value: (TRY_)?CAST\(F(32|64) AS DECIMAL",
            "SELECT CAST(a AS DECIMAL(10,2)) AS c FROM t", "a DOUBLE", ((1.005,),)),
    Finding("NaN or infinity to DECIMAL is NULL in Spark",
            r"ours fails: CAST\(F(32|64) AS DECIMAL", "SELECT CAST(a AS DECIMAL(10,2)) AS c FROM t",
            "a DOUBLE", ((NAN,),)),
    Finding("DOUBLE beyond FLOAT is infinite in Spark",
            r"(ours fails|value): (TRY_)?CAST\(F64 AS FLOAT", "SELECT CAST(a AS FLOAT) AS c FROM t",
            "a DOUBLE", ((1e308,),)),
    Finding("FLOAT or DOUBLE of 2^63 is the largest BIGINT in Spark",
            r"(ours fails|value): (TRY_)?CAST\(F(32|64) AS (BIGINT|INT)",
            "SELECT TRY_CAST(a AS BIGINT) AS c FROM t", "a FLOAT", ((9.223372036854775807e18,),)),
    Finding("floor and ceil of BIGINT go through DOUBLE",
            r"(value|ours fails): (floor|ceil)\(I64\)",
            "SELECT floor(a) AS c FROM t", "a BIGINT", ((2**53 + 1,),)),
    Finding("floor and ceil of NaN and infinity", r"ours fails: .*(floor|ceil)\(.*(nan|inf)",
            "SELECT floor(a) AS c FROM t", "a DOUBLE", ((NAN,),)),
    Finding("round of FLOAT", r"value: round\(F32", "SELECT round(a, 1) AS c FROM t",
            "a FLOAT", ((4.35,),)),
    Finding("text to DATE: other formats than Spark's",
            r"(ours fails|spark fails|value): ((TRY_)?CAST\(STR AS DATE|to_date\(STR)",
            "SELECT CAST(a AS DATE) AS c FROM t", "a STRING", (("2024",),)),
    Finding("text to DECIMAL: underscores", r"(spark fails|value): (TRY_)?CAST\(STR AS DECIMAL",
            "SELECT CAST(a AS DECIMAL(10,2)) AS c FROM t", "a STRING", (("1_000",),)),
    Finding("text to integers: tabs and line ends",
            r"(ours fails|value): (TRY_)?CAST\(STR AS (TINYINT|SMALLINT|INT|BIGINT)",
            "SELECT TRY_CAST(a AS INT) AS c FROM t", "a STRING", (("\t42\n",),)),
    Finding("upper and lower of letters that become several", r"value: (upper|lower)\(STR",
            "SELECT upper(a) AS c FROM t", "a STRING", (("ß",),)),
    Finding("the product of DECIMALs overflows before it is widened",
            r"ours fails: \((DEC|WIDE|I8|I32) \* (DEC|WIDE|I32|I8)\)", "SELECT a * b AS c FROM t",
            "a DECIMAL(10,2), b INT", ((Decimal("99999999.99"), 2147483647),)),
    Finding("the smallest integer % -1", r"ours fails: .*(% I|pmod)", "SELECT a % b AS c FROM t",
            "a TINYINT, b TINYINT", ((-128, -1),)),
    Finding("pmod overflows with a large divisor", r"ours fails: .*pmod\(",
            "SELECT pmod(a, b) AS c FROM t", "a INT, b INT", ((-13, -(2**31)),)),
    Finding("NULL divided by zero fails", r"ours fails: .*division by zero",
            "SELECT a / b AS c FROM t", "a INT, b INT", ((None, 0),)),
    Finding("TIMESTAMP_NTZ to BIGINT does not exist in Spark",
            r"spark refuses: (TRY_)?CAST\(NTZ AS BIGINT", "SELECT CAST(a AS BIGINT) AS c FROM t",
            "a TIMESTAMP_NTZ", ((_INSTANT,),)),
    Finding("date_trunc of TIMESTAMP_NTZ is a TIMESTAMP in Spark", r"type: date_trunc",
            "SELECT date_trunc('day', a) AS c FROM t", "a TIMESTAMP_NTZ", ((_INSTANT,),)),
    Finding("-0.0 in greatest, least, min and max",
            r"value: .*(greatest|least|min|max)\(.*'-?0\.0'",
            "SELECT least(a, b) AS c FROM t", "a FLOAT, b FLOAT", ((-0.0, 1e-45),)),
    Finding("a group of -0.0 is one of 0.0 in Spark", r"value: .*GROUP BY .*'-?0\.0'",
            "SELECT a AS c, count(*) AS n FROM t GROUP BY window(ts, '1 day'), a",
            "a DOUBLE", ((-0.0,),)),
    Finding("max and min of structs with NULL fields", r"value: .*(max|min)\(.*\bst\b",
            "SELECT max(a) AS c FROM t GROUP BY window(ts, '1 day')", "a STRUCT<x: INT>",
            (({"x": None},), ({"x": 1},))),
    Finding("the negative of a DECIMAL of 38 digits", r"spark fails: \(-WIDE\)",
            "SELECT -a AS c FROM t", "a DECIMAL(38,6)",
            ((Decimal("99999999999999999999999999999999.999999"),),)),
    Finding("an overflow is simplified away, so that ours does not fail",
            r"spark fails: (operand fails|(SELECT|WITH).*(214748364[78]|9223372036854775807))",
            "SELECT -CAST(-32768 AS SMALLINT) IS NULL AS c FROM t"),
    Finding("an operand fails that Spark does not evaluate",
            r"ours fails: (operand fails|(SELECT|WITH).*(214748364[78]|9223372036854775807))",
            "SELECT (a = 1) AND (1 / b > 0) AS c FROM t", "a INT, b INT", ((0, 0),)),
    Finding("groups by a struct over several batches", r"ours fails: .*struct or union below",
            "SELECT a AS c, count(*) AS n FROM t GROUP BY window(ts, '7 seconds', '2 seconds'), a",
            "a STRUCT<x: INT, z: STRUCT<v: DOUBLE>>",
            tuple(({"x": 1, "z": {"v": 1.5}} if at % 5 else None,) for at in range(8)), batches=3),
    Finding("power of 1 and infinity is NaN in Java", r"value: power\(",
            "SELECT power(a, b) AS c FROM t", "a DOUBLE, b DOUBLE", ((1.0, float("inf")),)),
)  # fmt: skip
