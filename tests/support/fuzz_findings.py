"""Differences from Spark that the fuzzer found: those that are left, and those that were mended.

Each case must still differ: remove a finding once it is mended. The fuzzer's tests tolerate
exactly what matches the pattern of a finding: `category: shape` of the innermost expression, or
`category: SQL: our answer` of a query.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from tests.support.differential import Difference

from evenflow.sql import read_schema

NAN = float("nan")
_INSTANT = datetime(2024, 3, 31)
_FIRST_DAY = date(1, 1, 1)


@dataclass(frozen=True)
class Finding:
    """A class of differences with the smallest case: SQL over the rows of `t`."""

    reason: str
    pattern: str
    sql: str
    schema: str = ""
    rows: tuple[tuple[Any, ...], ...] = ((),)
    batches: int = 1
    is_known: Callable[[Difference], bool] = lambda difference: True  # besides the pattern

    @property
    def table(self) -> pa.Table:
        schema = read_schema(", ".join(filter(None, ["ts TIMESTAMP", self.schema])))
        lines = [dict(zip(schema.names, (_INSTANT + timedelta(seconds=4 * at), *row), strict=True))
                 for at, row in enumerate(self.rows)]  # fmt: skip
        return pa.Table.from_pylist(lines, schema=schema)


def find_known(difference: Difference) -> Finding | None:
    """Return the finding that a difference belongs to."""
    text = f"{difference.category}: {difference.shape}: {difference.ours}"
    return next((f for f in FINDINGS if re.match(f.pattern, text) and f.is_known(difference)), None)


def differ_in_zeros(difference: Difference) -> bool:
    """Tell whether the answers are equal but for the signs of zeros."""
    ours, spark = (sorted(re.split(r"[\s,()\[\]]+", answer.replace("'-0.0'", "'0.0'")))
                   for answer in (difference.ours, difference.spark))  # fmt: skip
    return ours == spark


def is_end_of_range(difference: Difference) -> bool:
    """Tell whether Spark answers a DATE or TIMESTAMP of the first or last days."""
    ends = [int(number) for number in re.findall(r"-?[0-9]+", difference.spark)]
    return any(2**31 - 3 <= abs(n) <= 2**31 or abs(n) > 2**63 - 2 * 10**13 for n in ends)


def has_equal_number(difference: Difference) -> bool:
    """Tell whether both answers are texts of one number, up to 15 digits or a FLOAT's 7."""
    pair = [re.search(r"-?[0-9.]+(E-?[0-9]+)?", a) for a in (difference.ours, difference.spark)]
    ours, spark = (float(found[0]) if found else NAN for found in pair)
    digits = 7 if "F32" in difference.shape else 15
    return abs(ours - spark) <= 10.0**-digits * abs(ours)


FINDINGS: tuple[Finding, ...] = (
    Finding("which zero min and max of 0.0 and -0.0 return, by the order of rows in Spark too",
            r"value: .*\b(min|max)\(",
            "SELECT max(a) AS c FROM t GROUP BY window(ts, '1 minute')", "a DOUBLE",
            ((-0.0,), (0.0,)), batches=2, is_known=differ_in_zeros),
    Finding("before Java 19, the text of some DOUBLEs that Spark casts is not the shortest",
            r"value: (TRY_)?CAST\(F(32|64) AS (DECIMAL|STRING)",
            "SELECT CAST(a AS DECIMAL(38,18)) AS c, CAST(a AS STRING) AS d FROM t", "a DOUBLE",
            ((-9.223372174293729e17,),), is_known=has_equal_number),
    Finding("sequence makes at most 10,000 values", r"ours fails: .*sequence\(.*: sequence makes",
            "SELECT sequence(a, -1) AS c FROM t", "a INT", ((1_000_003,),)),
    Finding("days beyond the range of DATE fail; Spark's number wraps around",
            r"ours fails: (date_?add|date_sub)\(DATE, \w+\): a number is out of range",
            "SELECT date_add(a, -2147483648) AS c FROM t", "a DATE", ((date(1582, 10, 15),),)),
    Finding("the ends of the range of TIMESTAMP and DATE fail: they are infinity to DuckDB",
            r"ours fails: (timestamp_micros\(I64|date_from_unix_date\(I32)",
            "SELECT timestamp_micros(a) AS c FROM t", "a BIGINT", ((2**63 - 1,),),
            is_known=is_end_of_range),
)  # fmt: skip

# Differences that were found and mended, as the smallest case: both engines answer alike.
MENDED: tuple[Finding, ...] = (
    Finding("hour of a date", "", "SELECT hour(to_date(a)) AS c, minute(to_date(a)) AS d FROM t",
            "a TIMESTAMP_NTZ", ((datetime(2024, 3, 31, 1, 59),),)),
    Finding("tiny to DECIMAL without a digit before the point", "",
            "SELECT CAST(a AS DECIMAL(3,3)) AS c FROM t", "a FLOAT", ((1e-6,), (1e-45,), (0.5,))),
    Finding("tiny to DECIMAL, DOUBLE", "", "SELECT CAST(a AS DECIMAL(3,3)) AS c FROM t",
            "a DOUBLE", ((5e-324,), (-5.960464477539062e-07,), (6e-4,))),
    Finding("deviation of equal values", "",
            "SELECT window.start AS s, stddev_pop(a) AS c, variance(a) AS v FROM t "
            "GROUP BY window(ts, '1 minute', '2 seconds')", "a DOUBLE", ((-2.45,),) * 7, batches=3),
    Finding("arguments of rows that FILTER leaves out", "",
            "SELECT max(pmod(CAST(7 AS TINYINT), a)) FILTER (WHERE a > 0) AS c, "
            "count(*) FILTER (WHERE a > 0) AS n FROM t GROUP BY window(ts, '1 minute')",
            "a TINYINT", ((0,), (2,), (None,))),
    Finding("AND that the left side decides", "",
            "SELECT (a = 1) AND (1 / b > 0) AS c, (a = 0) OR (1 / b > 0) AS d FROM t",
            "a INT, b INT", ((0, 0),)),
    Finding("conditions of WHERE in their order", "",
            "SELECT a FROM t WHERE b <> 0 AND a div b > 0 AND 6 div (a - b) > 0", "a INT, b INT",
            tuple((a, b) for a in (0, 2, 5) for b in (0, 5, 1))),
    Finding("an operand beside NULL", "",
            "SELECT a + CAST(b AS SMALLINT) AS c, CAST(b AS SMALLINT) / a AS d, "
            "a > 1 + b AS e, a BETWEEN 1 + b AND 2 AS f, CAST(b AS SMALLINT) % a AS g FROM t",
            "a SMALLINT, b INT", ((None, 2**31 - 1), (2, 3))),
    Finding("an operand bound inside another", "",
            "SELECT round(CAST(CAST(-0.0D AS FLOAT) AS TINYINT), 2) "
            "div CAST(CAST(CAST(1 AS TINYINT) AS STRING) AS BIGINT) AS c FROM t"),
    Finding("the remainder of NULL and zero", "", "SELECT a % b AS c, a / b AS d, "
            "nullif(a, 1 / b) AS e FROM t", "a DOUBLE, b DOUBLE", ((None, 0.0), (5.0, 3.0))),
    Finding("an operand that fails beside NULL", "", "SELECT a + CAST(NULL AS SMALLINT) AS c, "
            "CAST(NULL AS INT) / a AS d FROM t", "a SMALLINT", ((7,),)),
    Finding("the first of equal zeros", "",
            "SELECT least(a, b) AS c, greatest(a, b) AS d FROM t", "a FLOAT, b FLOAT",
            ((-0.0, 1e-45), (0.0, -0.0), (-0.0, 0.0), (None, -0.0), (NAN, -0.0))),
    Finding("bround of FLOAT", "", "SELECT bround(a, 1) AS c, bround(a) AS d, round(a, 12) AS e "
            "FROM t", "a FLOAT", ((4.35,), (2.5,), (-0.25,), (1e-45,), (NAN,))),
    Finding("the width of characters beyond U+FFFF", "",
            "SELECT format_string('%5s|%-4s|%1s', a, a, a) AS c FROM t", "a STRING",
            (("\U0001f600x",), ("日本",), ("",), (None,), ("x" * 7,))),
    Finding("months before the year 1", "",
            "SELECT months_between(a, CAST(a AS TIMESTAMP) - INTERVAL 2 SECONDS) AS c, "
            "months_between(date_sub(a, 800000), a) AS d FROM t", "a DATE",
            ((_FIRST_DAY,), (date(9999, 12, 31),))),
    Finding("years of more or fewer than four digits", "",
            "SELECT CAST(TRY_CAST(a AS TIMESTAMP) AS STRING) AS c FROM t", "a STRING",
            tuple((text,) for text in ("+12345-02-29", "-0044-03-15 12:00:00", "0000-02-29",
                                       "99999-12-31 23:59:59+01:00", "2024-13-01", "999999"))),
    Finding("negative zero", "", "SELECT atan2(a, b) AS c, array_distinct(array(a, b)) AS d, "
            "array_union(array(a), array(b)) AS e FROM t", "a DOUBLE, b DOUBLE",
            ((0.0, -0.0), (-0.0, -0.0), (-0.0, None), (NAN, -1.0))),
    Finding("base 64 among other characters", "", "SELECT unbase64(a) AS c FROM t", "a STRING",
            (("yyyy-MM-dd HH:mm:ss",), ("YW Jj",), ("YQ==",), ("YWI=",), ("-",), ("YQ==\n",))),
    Finding("half a base 64", "", "SELECT unbase64(a) AS c FROM t", "a STRING", (("YWJjZ",),)),
    Finding("base 64 after its end", "", "SELECT unbase64(a) AS c FROM t", "a STRING",
            (("YQ=a",),)),
    Finding("types of nested values", "", "SELECT typeof(map(a, b)) AS c, typeof(struct(a, b)) "
            "AS d, typeof(array(b)) AS e FROM t", "a INT, b DOUBLE", ((1, 2.0),)),
    Finding("zero for NULL", "", "SELECT zeroifnull(a) AS c, zeroifnull(b) AS d, nvl(a, 1) AS e "
            "FROM t", "a SMALLINT, b FLOAT", ((None, None), (3, 2.5))),
    Finding("large numbers with commas", "", "SELECT format_number(a, 2) AS c, "
            "format_number(b, 0) AS d FROM t", "a DOUBLE, b FLOAT",
            ((1e22, 3.4028234663852886e38), (9007199254740993.0, 0.5), (1.005, -2.5))),
    Finding("seconds that wrap around", "", "SELECT from_unixtime(a) AS c FROM t", "a BIGINT",
            ((-(2**63),), (0,), (-1,), (253402300800,))),
    Finding("a bit beyond the type", "", "SELECT bit_get(a, 12) AS c FROM t", "a TINYINT",
            ((-1,),)),
    Finding("a time zone that is NULL", "", "SELECT to_utc_timestamp(a, b) AS c FROM t",
            "a TIMESTAMP, b STRING", ((_INSTANT, None), (_INSTANT, "Asia/Tokyo"))),
    Finding("years of five digits", "", "SELECT CAST(a + 1 AS STRING) AS c, "
            "CAST(date_sub(a, 3652100) AS STRING) AS d FROM t", "a DATE", ((date(9999, 12, 31),),)),
    Finding("whole DECIMALs keep their type", "", "SELECT ceil(ceil(a)) AS c, floor(floor(a)) AS d "
            "FROM t", "a DECIMAL(20,2)", ((Decimal("-1.50"),),)),
    Finding("the remainder of -0.0", "", "SELECT try_mod(a, b) AS c FROM t", "a FLOAT, b TINYINT",
            ((-0.0, -1), (float("inf"), -1), (5.5, -1), (1.0, 0))),
    Finding("moments that Python's times do not hold", "",
            "SELECT to_utc_timestamp(a, 'Europe/Berlin') AS c, "
            "from_utc_timestamp(a + 1, 'America/New_York') AS d FROM t", "a DATE",
            ((_FIRST_DAY,), (date(9999, 12, 31),))),
    Finding("names of time zones", "", "SELECT to_utc_timestamp(ts, a) AS c FROM t", "a STRING",
            tuple((name,) for name in ("PST", "EST", "IST", "+1", "+1:30", "-013000", "UTC+01:3",
                                       "GMT0", "Etc/GMT+5", "+18:00"))),
    Finding("digits after those of a number", "", "SELECT format_number(a, 20) AS c, "
            "format_number(a, 1) AS d, format_number(b, 30) AS e FROM t", "a DOUBLE, b TINYINT",
            ((0.1, 1), (0.15, -1), (0.25, 0), (-0.0, 7), (5e-324, 1), (1e22, 1))),
    Finding("a constant that fails in a branch that no row takes", "",
            "SELECT a + pmod(0L, 0L) AS c, CASE WHEN b = 1 THEN CAST(CAST(-32768 AS SMALLINT) AS "
            "TINYINT) % b ELSE b END AS d, CASE WHEN b = 0 AND 1 / 0 > 0 THEN 1 ELSE 2 END AS e "
            "FROM t", "a SMALLINT, b TINYINT", ((None, 2), (None, None))),
    Finding("coalesce that has found a value", "",
            "SELECT coalesce(xxhash64(b), ((a + a) * CAST(a AS BIGINT))) AS c FROM t",
            "a SMALLINT, b STRING", ((32767, "a"),)),
    Finding("AND that is unknown on the left, both sides evaluated", "",
            "SELECT (a > 0) AND (b + 1 > 0) AS c, (a > 0) OR (b + 1 > 0) AS d FROM t",
            "a INT, b INT", ((None, 1), (1, None), (None, -5), (0, None), (None, None), (1, 1))),
    Finding("a condition of WHERE that is unknown, before one that fails", "",
            "SELECT a FROM t WHERE a BETWEEN CAST(NULL AS INT) + a AND pmod(a, a)", "a INT",
            ((0,),)),
    Finding("an operand that fails beside a constant NULL", "",
            "SELECT contains(CAST(CAST(a AS TINYINT) AS STRING), lpad(bit_count(CAST(NULL AS INT)),"
            " 4, '0')) AS c FROM t", "a BIGINT", ((1000,),)),
    Finding("a quotient that is NULL whatever is divided", "",
            "SELECT try_divide(1 / a, a) AS c, try_mod(6 div a, a) AS d, try_divide("
            "CAST(6 div a AS DECIMAL(10,2)), CAST(a AS DECIMAL(10,2))) AS e, CAST(6 div a AS "
            "DECIMAL(10,2)) / CAST(nullif(a, 0) AS DECIMAL(10,2)) AS f FROM t", "a INT",
            ((0,), (3,), (None,))),
    Finding("the length of a vector that is unknown", "", "SELECT hypot(a, b) AS c FROM t",
            "a DOUBLE, b FLOAT", ((None, float("-inf")), (float("inf"), NAN), (3.0, 4.0))),
    Finding("the first of the zeros of an array", "", "SELECT array_min(array(a, b)) AS c, "
            "array_max(array(b, a)) AS d FROM t", "a DOUBLE, b DOUBLE",
            ((0.0, -0.0), (-0.0, 0.0), (NAN, 1.0), (None, None), (None, 2.0))),
    Finding("operands of a function after one that is NULL", "",
            "SELECT translate(b, CAST(1 div a AS STRING), 'z') AS c, left(b, a % a) AS d, "
            "date_add(CAST(b AS DATE), a % a) AS e, make_date(2024, nullif(a, 0), 1 + a % a) AS f, "
            "nanvl(c, 1 / a) AS g, bit_get(nullif(a, 0), a % a) AS h FROM t",
            "a INT, b STRING, c DOUBLE", ((0, None, 2.0), (1, "2024-01-01", NAN))),
    Finding("a start so far before a text that its end is too", "",
            "SELECT substring(a, b) AS c, substring(a, b, 2147483647) AS d FROM t",
            "a STRING, b INT", tuple((text, start) for text in ("abc", "", None) for start in
                                     (-2147483648, -2147483647, -4, -3, -1, 0, 1, 4, None))),
    Finding("lines of base 64", "",
            "SELECT base64(repeat(a, 56)) AS c, base64(repeat(a, 57)) AS d, "
            "base64(repeat(a, 58)) AS e, base64(repeat(a, 171)) AS f, "
            "unbase64(base64(repeat(a, 200))) AS g FROM t", "a STRING",
            (("x",), ("\u00fc",), ("",))),
    Finding("JSON in single quotes, with names that occur twice, with halves of characters", "",
            "SELECT get_json_object(a, '$') AS c, get_json_object(a, '$.a') AS d, "
            "get_json_object(a, '$.a.b') AS e, json_object_keys(a) AS f, json_array_length(a) AS g,"
            " from_json(a, 'a STRING').a AS h, from_json(a, 'a INT').a AS i FROM t", "a STRING",
            tuple((text,) for text in (
                '{"a":1,"a":2}', '{"a":null,"a":2}', '{"a":2,"a":null}',
                '{"a":{"c":1},"a":{"b":2}}', '{"a":{"b":1},"a":{"b":2}}', '{"a":NaN}', "[1,NaN]",
                "{'a':1}", "{'a':'x\"y'}", '{"a":"it\\\'s"}', "{'a':'it\\'s \\\\'}", "['a',\"b\"]",
                "{'a:1}", '{"a":\'b}', "'", "'a'", "{'a\\\"b':1}", '{"a":"\\ud800"}',
                '{"a":"x\\udc00y\\ud83d\\ude00"}', '{"\\ud800":1}', '{"a":{"b":"\\ud800"}}',
                '{"a":{"b":"\U0001f600"}}', '{"a":"\U0001f600"}', '\ufeff{"a":1}'))),
    Finding("a JSON null that is no field", "", "SELECT get_json_object(a, '$') AS c, "
            "get_json_object(a, '$[0]') AS d, get_json_object(a, '$.a') AS e, "
            "get_json_object(a, '$.a[0]') AS f FROM t", "a STRING",
            tuple((text,) for text in ("null", "[null]", '{"a":null}', '{"a":[null]}', "[]"))),
    Finding("a JSON number or word that does not end where it seems to", "",
            "SELECT get_json_object(a, '$') AS c, json_array_length(a) AS d FROM t", "a STRING",
            tuple((text,) for text in (
                "2024-02-30", "1 2", "01", "1.", "1,2", "1]", "-0.5\t", "1e5x", "7\n", "12", "-",
                "true", "truex", "true_", "true-", "true]", "false:", "false 1", "nullx", "null",
                '"a"b', '{"a":1}x', "[1]2", "[1]", "[01]", "[1 2]", "[truex]"))),
    Finding("a key of a URL that is not read, or NULL, or has a dot", "",
            "SELECT parse_url(a, 'HOST', 'k') AS c, parse_url(b, 'QUERY', d) AS e, "
            "parse_url(b, 'QUERY', 'x.y') AS f FROM t", "a STRING, b STRING, d STRING",
            (("\t42\n", "http://a.de?k=1&xzy=2", "k"), ("", "http://a.de?k=1&x.y=2", None))),
    Finding("a capital that is two small letters", "", "SELECT initcap(a) AS c FROM t", "a STRING",
            (("\u0130",),)),
)  # fmt: skip
