"""Spark's own answers, types and failures on edge values, expression by expression."""

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.sql.test_spark_semantics import engine, spark  # noqa: F401 - fixtures

from evenflow.errors import InputError
from evenflow.sql import Catalog, Engine, Stream, compile_query
from evenflow.sql.failures import QueryFailed

pytestmark = pytest.mark.slow

INF, NAN = math.inf, math.nan
DOUBLES = [
    None, 0.0, -0.0, NAN, INF, -INF, 1.005, 0.145, 0.285, -0.145, 2.675, 4.35, 2.5, -2.5, -0.4,
    0.5, 1e-300, 5e-324, 4.5e-5, 99999999.994, 1e15 + 0.5, 2.0**52 - 0.5, 12320695864979990.0, -1.0,
]  # fmt: skip
TEXTS = [
    None, "", " ", "1_000", "\t42\n", "\x0142\x7f", "\u00a042", "+42", "-42", "- 42", "+", "1.0",
    "1.5",
    "4_2", "128", "-128", "-129", "00000000000000000000000042", "9223372036854775808",
    "-9223372036854775808", "0x10", "1e3", "1E-2", "5e-400", "1e400", "0e400", "1e", ".5", "5.",
    ".",
    "1.005", "-1.005", "1.00499999999999999999999999999999999999999999", "123456789012", "1d",
    "NaN", "Infinity", "2024", "2024-1", "2024-1-5", " 2024-01-05\t", "2024-01-05 junk\nmore",
    "2024-01-05Tjunk", "2024-01-05junk", "2024/01/05", "20240105", "epoch", "now", "2024-02-29",
    "2023-02-29", "2024-02-30", "24-02-03", "12024-02-03", "-2024-02-03", "+2024-02-03",
    "0000-01-01",
    "2024-", "2024-01-", "2024-01 x", "2024-001-05", "2024-13-05", "2024-00-05", "99999999-01-01",
    "straße", "İstanbul", "ΑΣ", "ΑΣΑ Σ", "Α.Σ", "ŉ", "ΐ",  # noqa: RUF001
    "ﬁ", "a😀b", "ABC", "àéÎ", "a%b", "a\\b", "a_b",
]  # fmt: skip
MIN_INT, MIN_LONG = -(1 << 31), -(1 << 63)
STRUCT = pa.struct([("a", pa.int32()), ("x", pa.float64())])
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("ntz", pa.timestamp("us")),
        ("d", pa.float64()),
        ("f", pa.float32()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("b", pa.int8()),
        ("s", pa.string()),
        ("m", pa.decimal128(10, 2)),
        ("w", pa.decimal128(38, 6)),
        ("st", STRUCT),
    ]
)
CATALOG = Catalog({"edges": Stream(SCHEMA, "ts")})


def _edges() -> pa.Table:
    count = len(TEXTS)

    def cycle(values: list[Any]) -> list[Any]:
        return [values[at % len(values)] for at in range(count)]

    times = ["1969-12-31T23:59:59.999999", "2026-01-31T12:00:00", "2099-06-01T00:00:00.000001"]
    moments = [datetime.fromisoformat(text) for text in times]
    far = datetime.fromisoformat("9999-12-01T23:59:59.999999")
    big = Decimal("12345678901234567890123456789012.345678")
    columns = {
        "id": list(range(count)),
        "ts": [moment.replace(tzinfo=UTC) for moment in cycle(moments)],
        "ntz": cycle([*moments, far, None]),
        "d": cycle(DOUBLES),
        "f": cycle([*DOUBLES, 3.4e38]),
        "i": cycle([None, 0, 1, -1, -7, 7, MIN_INT, -MIN_INT - 1]),
        "l": cycle([None, 0, 1, -1, -7, 7, MIN_LONG, -MIN_LONG - 1]),
        "b": cycle([None, 0, 1, -1, -128, 127]),
        "s": TEXTS,
        "m": cycle([None, Decimal("99999999.99"), Decimal("-99999999.99"), Decimal("0.05")]),
        "w": cycle([big, -big, Decimal("12320695864979990.000000"), None, Decimal("0.1")]),
        "st": cycle([{"a": 1, "x": -0.0}, {"a": 1, "x": 0.0}, {"a": None, "x": NAN}, None]),
    }
    return pa.table({name: pa.array(v, SCHEMA.field(name).type) for name, v in columns.items()})


EDGES = _edges()
ANSWERS = [
    "s LIKE 'a%'", "s NOT LIKE 'a%'", "NOT s LIKE '%b'", "s LIKE 'a\\\\%b'", "s NOT LIKE 'a\\\\_b'",
    "s LIKE '%\\\\\\\\%'", "s LIKE 'A%'",
    "TRY_CAST(d AS DECIMAL(10,2))", "TRY_CAST(d AS DECIMAL(38,6))", "TRY_CAST(f AS DECIMAL(20,9))",
    "CAST(1.005D AS DECIMAL(10,2))", "CAST(0.285D AS DECIMAL(10,2))", "CAST(1e22 AS DECIMAL(38,6))",
    "CAST(d / 8 AS DECIMAL(38,3))", "TRY_CAST(1.2320695656644608e38 AS DECIMAL(38,0))",
    "TRY_CAST('1.2320695656644608e38' AS DECIMAL(38,0))",
    "TRY_CAST('1.2345678901e9' AS DECIMAL(10,2))",
    "round(d)", "round(d, 1)", "round(d, 2)", "round(f)", "round(f, 1)", "round(f, 2)",
    "round(f, 9)",
    "round(w, 2)", "CAST(w AS DOUBLE)", "CAST(w AS FLOAT)", "w > d", "CAST(m AS DOUBLE)",
    "substring(s, 2, -1)", "substring(s, 2, 0)", "substring(s, 2, 1)", "substring(s, 2)",
    "TRY_CAST(s AS TINYINT)", "TRY_CAST(s AS INT)", "TRY_CAST(s AS BIGINT)",
    "TRY_CAST(s AS DECIMAL(10,0))", "TRY_CAST(s AS DECIMAL(10,2))", "TRY_CAST(s AS DECIMAL(38,10))",
    "TRY_CAST(s AS DATE)", "CAST('2024' AS DATE)", "CAST(' 2024-1 ' AS DATE)",
    "to_date('2024-1-5')",
    "CAST('2024-01-05 x' AS DATE)", "year(TRY_CAST(s AS DATE))",
    "upper(s)", "lower(s)", "lower(upper(s))",
    "NULL / 0", "NULL % 0", "CAST(NULL AS INT) div 0", "pmod(CAST(NULL AS INT), 0)",
    "try_divide(d, 0)",
    "if(i IS NULL, i / 0, 1.0D)", "if(i IS NULL, i % 0, 1)", "if(l IS NULL, l div 0, 1)",
    "m * m", "m * CAST(99999999.99 AS DECIMAL(10,2))", "m * 3", "m * CAST(7 AS DECIMAL(20,3))",
    "i % -1", "l % -1", "b % CAST(-1 AS TINYINT)", "i % 3", "l % 3", "d % 0.3D", "7 % -3",
    "pmod(i, -1)", "pmod(l, -1)", "pmod(i, 3)", "pmod(l, -3)", "pmod(i, -2147483648)",
    "pmod(l, 7L)",
    "floor(if(abs(d) < 1e18 OR isnan(d), d, 0D))", "ceil(if(abs(d) < 1e18 OR isnan(d), d, 0D))",
    "floor(if(abs(f) < 1e18 OR isnan(f), f, CAST(0 AS FLOAT)))", "floor(b)", "ceil(l)",
    "CAST(1e308 AS FLOAT)", "CAST(-1e308 AS FLOAT)", "CAST(3.4028235677973365e38 AS FLOAT)",
    "CAST(3.40282356e38 AS FLOAT)", "CAST(1e-320 AS FLOAT)", "CAST(d AS FLOAT)",
    "CAST(9.223372036854775808e18 AS BIGINT)", "TRY_CAST(d AS BIGINT)", "TRY_CAST(f AS INT)",
    "-d", "abs(d)", "sqrt(d)", "d * 1e308", "f + f", "isnan(f)", "-CAST(7 AS TINYINT)",
    "power(1, d)", "power(-1, d)", "power(d, 0)", "power(0, -1)", "ln(0)", "ln(-1)", "ln(1)",
    "exp(0)",
    "d = 0", "d > 1", "d <=> -0.0D", "d IN (0D, 1.005D)", "greatest(d, 1D)", "least(d, 1D)",
    "d = f",
    "nullif(d, 0D)", "st = st", "st.x", "st <=> st",
    "ntz", "CAST(ntz AS TIMESTAMP)", "CAST(ntz AS DATE)", "CAST(ts AS TIMESTAMP_NTZ)", "ntz = ts",
    "ntz > TIMESTAMP_NTZ '2026-01-31 11:00:00'", "ntz > '2026-01-31 11:00:00'", "hour(ntz)",
    "TIMESTAMP_NTZ '2026-01-31 12:00:00+01:00'", "TIMESTAMP '2026-01-31 12:00:00+01:00'",
    "ntz + INTERVAL 1 DAY", "ntz - INTERVAL 90 MINUTES", "date_trunc('hour', ntz)",
    "unix_micros(ntz)",
    "coalesce(ntz, ts)", "coalesce(ntz, DATE '2026-01-31')", "second(ntz)", "year(ntz)",
    "to_date(ntz)",
    "unix_seconds(ts)", "unix_millis(ts)", "CAST(ts AS BIGINT)", "unix_seconds(ntz)", "ntz IS NULL",
    "CAST(DATE '2026-01-31' AS TIMESTAMP_NTZ)", "ntz BETWEEN ts AND ts", "ntz IN (ts)",
]  # fmt: skip
FAILURES = [
    "CAST('1_000' AS DECIMAL(10,0))", "CAST('x' AS INT)", "CAST('' AS INT)", "CAST('1.5' AS INT)",
    "CAST('2024/01/05' AS DATE)", "to_date('2024/01/05')", "CAST(s AS DATE)",
    "CAST('20240105' AS DATE)",
    "CAST('2023-02-29' AS DATE)", "CAST('2024-01-05junk' AS DATE)", "CAST('' AS DATE)",
    "1 / 0", "1 % 0", "1 div 0", "pmod(1, 0)", "d / 0", "5.5D % 0D", "CAST('128' AS TINYINT)",
    "CAST(99999999.995D AS DECIMAL(10,2))", "CAST(1e300 AS DECIMAL(10,2))", "floor(1e19)",
    "ceil(CAST(1e30 AS FLOAT))", "floor(9.223372036854775808e18)",
    "CAST(9.223372036854777856e18 AS BIGINT)",
    "CAST(d AS INT)", "-i", "-l", "abs(i)", "-b", "l div -1", "i + i",
    "CAST(ntz AS BIGINT)", "s LIKE 'a\\\\b'", "s LIKE 'a\\\\'", "TIMESTAMP '20260131'",
    "DATE '2026-W05-6'", "ts > '2026-01-31 12:00:00,5'", "TIMESTAMP '2026-01-31 24:00:00'",
]  # fmt: skip


@pytest.fixture(scope="module")
def session(spark: Any) -> Iterator[Any]:  # noqa: F811 - a fixture
    frame = spark.createDataFrame(EDGES)  # Spark reads every Arrow timestamp as TIMESTAMP
    frame = frame.withColumn("ntz", frame.ntz.cast("timestamp_ntz"))
    frame.createOrReplaceTempView("edges")
    yield spark


def answer(engine: Engine, sql: str) -> pa.Table:  # noqa: F811
    task = compile_query("q", sql, CATALOG).open(engine)
    first = task.step({"edges": EDGES}, -(1 << 62)).rows
    return pa.concat_tables([first, task.step({}, 1 << 62).rows])


def plain(column: pa.ChunkedArray) -> list[str]:
    """Write values exactly; days as numbers, since Python has no year above 9999."""
    if column.type == pa.date32():
        column = column.cast(pa.int32())
    return [repr(value) for value in column.to_pylist()]


def test_edge_values_have_sparks_answers_and_types(session: Any, engine: Engine) -> None:  # noqa: F811
    differences: list[tuple[Any, ...]] = []
    names = ", ".join(f"{text} AS c{at}" for at, text in enumerate(ANSWERS))
    wanted = session.sql(f"SELECT id, {names} FROM edges").toArrow().sort_by("id")
    for at, text in enumerate(ANSWERS):
        column = wanted.column(f"c{at}")
        try:
            got = answer(engine, f"SELECT id, {text} AS c FROM edges").sort_by("id").column("c")
        except (QueryFailed, InputError) as error:
            differences.append((text, str(error)))
            continue
        if got.type != column.type:
            differences.append((text, f"{got.type}, not {column.type}"))
        rows = zip(EDGES.to_pylist(), plain(got), plain(column), strict=True)
        differences += [(text, mine, theirs, row) for row, mine, theirs in rows if mine != theirs]
    assert not differences, "\n".join(map(str, differences[:40]))


@pytest.mark.parametrize("text", FAILURES)
def test_what_fails_in_spark_fails_here(session: Any, engine: Engine, text: str) -> None:  # noqa: F811
    sql = f"SELECT {text} AS c FROM edges"
    with pytest.raises(Exception, match=r"\["):
        session.sql(sql).toArrow()
    with pytest.raises((QueryFailed, InputError)):
        answer(engine, sql)


GROUPED = [
    "SELECT d, count(*) AS n FROM edges GROUP BY window(ts, '90000 days'), d",
    "SELECT f, count(*) AS n FROM edges GROUP BY window(ts, '90000 days'), f",
    "SELECT st, count(*) AS n FROM edges GROUP BY window(ts, '90000 days'), st",
    "SELECT count(DISTINCT d) AS n FROM edges GROUP BY window(ts, '90000 days')",
    "SELECT i IS NULL AS k, sum(if(i IS NULL, NULL, 1)) / count(i) AS a FROM edges "
    "GROUP BY window(ts, '90000 days'), i IS NULL",
    "SELECT max(ntz) AS a, min(ntz) AS b FROM edges GROUP BY window(ts, '90000 days')",
    "SELECT ntz, count(*) AS n FROM edges GROUP BY window(ts, '90000 days'), ntz",
    "SELECT max(d) AS a, min(s) AS b, max(m * m) AS c FROM edges GROUP BY window(ts, '90000 days')",
    "SELECT max(st.a) AS a FROM edges GROUP BY window(ts, '90000 days')",
]  # fmt: skip


@pytest.mark.parametrize("sql", GROUPED)
def test_groups_of_edge_values_are_sparks(session: Any, engine: Engine, sql: str) -> None:  # noqa: F811
    wanted, got = session.sql(sql).toArrow(), answer(engine, sql)
    assert [f.type for f in got.schema] == [f.type for f in wanted.schema]
    rows = [sorted(map(repr, table.to_pylist())) for table in (got, wanted)]
    assert rows[0] == rows[1]


REFUSED = [
    ("CAST('epoch' AS DATE)", "write DATE '2026-01-31'"),
    ("to_date('today')", "write DATE '2026-01-31'"),
    ("st < st", "use the fields"),
    ("greatest(st, st)", "use the fields"),
    ("max(st)", "use the fields"),
    ("-w", "cast it to fewer"),
    ("i IN (1, 1 / i)", "write = and OR"),
    ("window(ntz, '1 day')", "TIMESTAMP_NTZ; cast the column to TIMESTAMP"),
]


@pytest.mark.parametrize(("text", "advice"), REFUSED)
def test_what_cannot_be_equal_is_refused(text: str, advice: str) -> None:
    group = "GROUP BY window(ts, '1 day')" if text.startswith("max") else ""
    if text.startswith("window"):
        group = f"GROUP BY {text}"
    with pytest.raises(InputError, match=advice.replace("(", r"\(")):
        compile_query("q", f"SELECT {text} AS c FROM edges {group}", CATALOG)
