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
    Finding("-0.0 in greatest, least, min and max",
            r"value: .*(greatest|least|min|max)\(.*'-?0\.0'",
            "SELECT least(a, b) AS c FROM t", "a FLOAT, b FLOAT", ((-0.0, 1e-45),)),
    Finding("the negative of a DECIMAL of 38 digits", r"spark fails: \(-WIDE\)",
            "SELECT -a AS c FROM t", "a DECIMAL(38,6)",
            ((Decimal("99999999999999999999999999999999.999999"),),)),
    Finding("an operand fails that Spark does not evaluate",
            r"ours fails: (operand fails|(SELECT|WITH).*(214748364[78]|9223372036854775807))",
            "SELECT (a = 1) AND (1 / b > 0) AS c FROM t", "a INT, b INT", ((0, 0),)),
    Finding("an operand fails in Spark that DuckDB does not evaluate",
            r"spark fails: (operand fails|(SELECT|WITH))",
            "SELECT CAST(a AS SMALLINT) + CAST(NULL AS SMALLINT) AS c FROM t", "a DECIMAL(10,2)",
            ((Decimal("99999999.99"),),)),
    Finding("before Java 19, the text of some DOUBLEs that Spark casts is not the shortest",
            r"value: (TRY_)?CAST\(F(32|64) AS DECIMAL",
            "SELECT CAST(a AS DECIMAL(38,18)) AS c FROM t", "a DOUBLE",
            ((-9.223372174293729e17,),)),
    Finding("groups by a struct over several batches", r"ours fails: .*struct or union below",
            "SELECT a AS c, count(*) AS n FROM t GROUP BY window(ts, '7 seconds', '2 seconds'), a",
            "a STRUCT<x: INT, z: STRUCT<v: DOUBLE>>",
            tuple(({"x": 1, "z": {"v": 1.5}} if at % 5 else None,) for at in range(8)), batches=3),
)  # fmt: skip
