"""Hostile SQL: statements that try to escape, to explode in size or time, or to break an answer.

Every statement is over `CATALOG`. It is refused or accepted, and neither may cost more than
`MAX_SECONDS` of CPU and `MAX_BYTES` of memory to compile. An accepted one may fail when it runs, or
be stopped by a limit, but it must not harm another query. `statements()` lists those that compile.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from evenflow.errors import InputError
from evenflow.sql import Catalog, Program, Stream, compile_query, compile_template, read_schema

MAX_SECONDS = 1.0
MAX_BYTES = 100_000_000
SCHEMA = read_schema(
    "ts TIMESTAMP, symbol STRING, price DOUBLE, volume BIGINT, note STRING, amount DECIMAL(10,2), "
    "small INT, big DECIMAL(38,0), ok BOOLEAN, day DATE, seen TIMESTAMP_NTZ, "
    "pair STRUCT<x: INT, y: STRING>"
)
CATALOG = Catalog(
    {"trades": Stream(SCHEMA, "ts"), "quotes": Stream(SCHEMA, "ts")},
    {"names": read_schema("symbol STRING, name STRING, factor DOUBLE")},
)
Kind = Literal["escape", "size", "time", "memory", "bounds", "values", "text"]


@dataclass(frozen=True)
class HostileSql:
    """A statement and what it attacks; `accepted` tells whether it compiles."""

    name: str
    kind: Kind
    sql: str
    accepted: bool = False
    is_template: bool = False

    def compile(self) -> Program:
        """Compile it over `CATALOG`."""
        compile_ = compile_template if self.is_template else compile_query
        return compile_("hostile", self.sql, CATALOG)


def nest(template: str, depth: int, inner: str = "price") -> str:
    """Put an expression into itself: `nest("sqrt({})", 2)` is `sqrt(sqrt(price))`."""
    for _ in range(depth):
        inner = template.replace("{}", inner)
    return inner


def column(expression: str, where: str = "") -> str:
    return f"SELECT ts, {expression} AS c FROM trades {where}"


def repeated(part: str, count: int, by: str = ", ") -> str:
    return by.join(part.replace("{n}", str(at)) for at in range(count))


def chain(inputs: int, bound: str = "BETWEEN a0.ts AND a0.ts + INTERVAL 1 SECOND") -> str:
    """Join a stream with itself, each with the first."""
    joins = "".join(
        f" JOIN trades a{n} ON a0.symbol = a{n}.symbol AND a{n}.ts {bound}"
        for n in range(1, inputs)
    )
    return f"SELECT a0.ts, a0.symbol FROM trades a0{joins}"


def levels(body: str, depth: int, inner: str = "trades") -> str:
    """Nest subqueries: `body` has `{}` in FROM."""
    for at in range(depth):
        source = inner if at == 0 else f"({inner}) q{at}"
        inner = body.replace("{}", source)
    return inner


def windowed(window: str, items: str = "count(*) AS n", more: str = "") -> str:
    return f"SELECT {items} FROM trades GROUP BY window(ts, {window}){more}"


DIGITS = "9" * 5000
_LONG_SUM = " + ".join(["sum(price)"] * 1200)

_NESTED = (
    ("sqrt", "sqrt({})"),
    ("round", "round({}, 2)"),
    ("divide", "({} / {})"),
    ("divide-chain", "(1 / {})"),
    ("try-divide", "try_divide(1, {})"),
    ("remainder", "({} % 7)"),
    ("integer-division", "(CAST({} AS BIGINT) div 7)"),
    ("pmod", "pmod(CAST({} AS BIGINT), 7)"),
    ("power", "power({}, 2)"),
    ("ln", "ln({})"),
    ("floor", "floor({})"),
    ("case-operand", "CASE {} WHEN 1 THEN 2 ELSE 3 END"),
    ("case-branches", "CASE WHEN {} > 1 THEN {} ELSE 1 END"),
    ("between", "CASE WHEN {} BETWEEN 1 AND 2 THEN 1 ELSE 2 END"),
    ("nullif", "nullif({}, 1)"),
    ("nvl2", "nvl2({}, 1, 2)"),
    ("in-list", "CASE WHEN {} IN (1, 2, 3) THEN 1 ELSE 2 END"),
    ("coalesce", "coalesce({}, 1.5D)"),
    ("greatest", "greatest({}, 1, 2)"),
    ("cast-int-double", "CAST(CAST({} AS BIGINT) AS DOUBLE)"),
    ("cast-decimal", "CAST(CAST({} AS DECIMAL(38,6)) AS DOUBLE)"),
    ("cast-float", "CAST(CAST({} AS FLOAT) AS DOUBLE)"),
    ("cast-text", "CAST(CAST(CAST({} AS BIGINT) AS STRING) AS BIGINT)"),
    ("abs-neg", "abs(-{})"),
)

CASES: tuple[HostileSql, ...] = (
    # Rules that use an operand several times.
    *(HostileSql(f"nested-{name}-{depth}", "size", column(nest(t, depth)),
                 depth == 8 or t.count("{}") == 1)
      for name, t in _NESTED for depth in (8, 16)),
    HostileSql("nested-upper-16", "size", column(nest("upper(lower({}))", 16, "note")), True),
    HostileSql("nested-date-16", "size",
               column(nest("CAST(CAST({} AS DATE) AS STRING)", 16, "note")), True),
    HostileSql("nested-sqrt-60", "size", column(nest("sqrt({})", 60)), True),
    HostileSql("nested-sqrt-1000", "size", column(nest("sqrt({})", 1000))),
    HostileSql("nested-parens", "size", column(nest("({})", 5000))),
    HostileSql("nested-not", "size", column("NOT " * 3000 + "ok")),
    HostileSql("nested-case-60", "size", column(nest("CASE WHEN ok THEN {} ELSE 1 END", 60)), True),
    HostileSql("nested-case-operand-60", "size",
               column(nest("CASE {} WHEN 1 THEN 2 ELSE 3 END", 60)), True),
    HostileSql("long-sum", "size", column(" + ".join(["price"] * 150)), True),
    HostileSql("longer-sum", "size", column(" + ".join(["price"] * 3000))),
    HostileSql("long-or", "size",
               column("1", "WHERE " + " OR ".join(f"volume = {n}" for n in range(900)))),
    HostileSql("long-in", "size",
               column("1", f"WHERE volume IN ({repeated('{n}', 3000)})"), True),
    HostileSql("many-columns", "size",
               f"SELECT ts, {repeated('price AS c{n}', 1000)} FROM trades", True),
    HostileSql("many-conditions", "size",
               column("1", "WHERE " + " AND ".join(f"volume > {n}" for n in range(150))), True),
    HostileSql("having-alias", "size",
               f"SELECT {' + '.join(['sum(price)'] * 100)} AS s FROM trades "
               f"GROUP BY window(ts, '1 second') HAVING {' + '.join(['s'] * 100)} > 0"),
    HostileSql("having-alias-squared", "size",
               f"SELECT {' + '.join(['sum(price)'] * 150)} AS s FROM trades "
               f"GROUP BY window(ts, '1 second') HAVING greatest({', '.join(['s'] * 3000)}) > 0"),
    HostileSql("group-alias", "size",
               f"SELECT {' || '.join(['note'] * 150)} AS k, count(*) AS n FROM trades "
               f"GROUP BY window(ts, '1 second'), {', '.join(['k'] * 2000)}"),
    HostileSql("many-aggregates", "size",
               windowed("'1 second'", repeated("sum(price + {n}) AS c{n}", 400)), True),
    HostileSql("distinct-aggregates", "memory",
               windowed("'1 day'", repeated("count(DISTINCT volume + {n}) AS c{n}", 100)), True),
    HostileSql("long-aggregate-sum", "size", windowed("'1 second'", f"{_LONG_SUM} AS s")),
    HostileSql("too-long", "text", column("1", "WHERE note = '" + "x" * 30_000 + "'")),
    HostileSql("long-string", "text", column("1", "WHERE note = '" + "x" * 19_000 + "'"), True),
    HostileSql("long-name", "text", f"SELECT ts, price AS {'c' * 15_000} FROM trades"),
    HostileSql("long-unknown", "text", column("y" * 15_000)),
    # Subqueries, unions and joins.
    HostileSql("subqueries-30", "time", levels("SELECT ts, symbol FROM {}", 30), True),
    HostileSql("subqueries-300", "time", levels("SELECT * FROM {}", 300)),
    HostileSql("wide-subqueries", "time",
               f"SELECT * FROM (SELECT * FROM (SELECT *, {repeated('price AS c{n}', 800)} "
               "FROM trades) q1) q2", True),
    HostileSql("with-doubling", "time",
               "WITH a0 AS (SELECT * FROM trades)" + "".join(
                   f", a{n} AS (SELECT * FROM a{n - 1} UNION ALL SELECT * FROM a{n - 1})"
                   for n in range(1, 30)) + " SELECT * FROM a29"),
    HostileSql("union-60", "time", " UNION ALL ".join(["SELECT ts, price FROM trades"] * 60), True),
    HostileSql("union-600", "time", " UNION ALL ".join(["SELECT ts, price FROM trades"] * 600)),
    HostileSql("union-clocks", "time",
               f"SELECT a.t0 FROM (SELECT symbol, {repeated('ts AS t{n}', 300)} FROM trades "
               f"UNION ALL SELECT symbol, {repeated('ts AS t{n}', 300)} FROM trades) a "
               "JOIN trades b ON a.symbol = b.symbol AND a.t0 = b.ts"),
    HostileSql("join-4", "memory", chain(4, "BETWEEN a0.ts AND a0.ts + INTERVAL 1 DAY"), True),
    HostileSql("join-12", "time", chain(12), True),
    HostileSql("join-60", "time", chain(60)),
    HostileSql("join-all-pairs", "time",
               chain(14) + " WHERE " + " AND ".join(
                   f"a{x}.symbol = a{y}.symbol" for x in range(1, 14) for y in range(1, x)), True),
    HostileSql("join-of-joins", "time",
               "SELECT a.ts FROM (SELECT x.ts, x.symbol FROM trades x JOIN trades y ON x.symbol = "
               "y.symbol AND x.ts = y.ts) a JOIN (SELECT x.ts, x.symbol FROM trades x JOIN trades "
               "y ON x.symbol = y.symbol AND x.ts = y.ts) b ON a.symbol = b.symbol AND a.ts = b.ts",
               True),
    HostileSql("cross-join", "memory", "SELECT a.ts FROM trades a CROSS JOIN trades b"),
    HostileSql("join-constant-key", "memory",
               "SELECT a.ts, b.price FROM trades a JOIN trades b ON (a.volume * 0) = (b.volume * 0)"
               " AND b.ts BETWEEN a.ts - INTERVAL 30 DAYS AND a.ts + INTERVAL 30 DAYS", True),
    HostileSql("join-tables", "memory",
               "SELECT t.ts, " + repeated("n{n}.name AS c{n}", 6) + " FROM trades t"
               + "".join(f" CROSS JOIN names n{n}" for n in range(6)), True),
    HostileSql("join-forever", "memory",
               "SELECT a.ts FROM trades a JOIN trades b ON a.symbol = b.symbol AND b.ts > a.ts"),
    HostileSql("join-36000-days", "memory",
               "SELECT a.ts FROM trades a JOIN trades b ON a.symbol = b.symbol AND b.ts BETWEEN "
               "a.ts - INTERVAL 36000 DAYS AND a.ts + INTERVAL 36000 DAYS", True),
    HostileSql("text-doubling", "memory",
               levels("SELECT ts, note || note AS note FROM {}", 28), True),
    HostileSql("text-doubling-inline", "memory", column(nest("({} || {})", 9, "note")), True),
    HostileSql("struct-levels", "memory",
               levels("SELECT window AS w, count(*) AS n FROM {} GROUP BY window(ts, '1 second')",
                      1) + ", note", True),
    # Windows, intervals and literals out of bounds.
    HostileSql("window-109500000-days", "bounds", windowed("'109500000 days'")),
    HostileSql("window-huge", "bounds", windowed(f"'{DIGITS} days'")),
    HostileSql("window-tiny", "bounds", windowed("'1 microsecond'"), True),
    HostileSql("window-zero", "bounds", windowed("'0 seconds'")),
    HostileSql("window-negative", "bounds", windowed("'-5 seconds'")),
    HostileSql("window-many-slides", "bounds", windowed("'10000 seconds', '1 second'")),
    HostileSql("window-3600-slides", "bounds", windowed("'1 hour', '1 second'"), True),
    HostileSql("window-many-panes", "bounds", windowed("'7 days', '13 microseconds'")),
    HostileSql("window-odd-panes", "bounds", windowed("'86399 seconds', '86398 seconds'")),
    HostileSql("window-far-start", "bounds",
               windowed("'10 seconds', '5 seconds', '99999999999999 days'")),
    HostileSql("window-3650-days", "bounds", windowed("'3650 days'"), True),
    HostileSql("interval-huge", "bounds",
               column("ts + INTERVAL 99999999999999999999 DAYS")),
    HostileSql("interval-digits", "bounds", column(f"ts + INTERVAL {DIGITS} SECONDS")),
    HostileSql("interval-text", "bounds", column(f"ts + INTERVAL '{DIGITS} days'")),
    HostileSql("interval-sum", "bounds",
               column("ts" + " + INTERVAL 36000 DAYS" * 150)),
    HostileSql("interval-month", "bounds", column("ts + INTERVAL 1 MONTH"), accepted=True),
    HostileSql("number-5000-digits", "bounds", column(DIGITS)),
    HostileSql("negative-5000-digits", "bounds", column(f"-{DIGITS}")),
    HostileSql("fraction-5000-digits", "bounds", column(f"0.{DIGITS}")),
    HostileSql("exponent", "bounds", column("1e400")),
    HostileSql("exponent-5000-digits", "bounds", column(f"1e{DIGITS}")),
    HostileSql("round-5000-digits", "bounds", column(f"round(price, {DIGITS})")),
    HostileSql("substring-5000-digits", "bounds", column(f"substring(note, 1, {DIGITS})")),
    HostileSql("decimal-5000-digits", "bounds", column(f"CAST(price AS DECIMAL({DIGITS}, 2))")),
    HostileSql("decimal-negative", "bounds", column("CAST(price AS DECIMAL(10, -2))")),
    HostileSql("group-by-5000-digits", "bounds",
               windowed("'1 second'", more=f", {DIGITS}")),
    HostileSql("group-by-fraction", "bounds", windowed("'1 second'", more=", 1.5")),
    HostileSql("year-1-zone", "bounds", column("1", "WHERE ts > '0001-01-01 00:00:00+14:00'")),
    HostileSql("year-9999-zone", "bounds", column("1", "WHERE ts > '9999-12-31 23:59:59-14:00'")),
    HostileSql("zone-99", "bounds", column("1", "WHERE ts > '2024-01-01 00:00:00+99:99'")),
    HostileSql("date-99999", "bounds", column("CAST('99999-01-01' AS DATE)"), True),
    HostileSql("json-path", "bounds", column("get_json_object(note, '$[')")),
    HostileSql("json-colon", "bounds", column("note:a.b[*]['")),
    HostileSql("date-unit", "bounds", column(f"date_trunc('{'x' * 9000}', ts)")),
    # Functions that take long on some rows.
    HostileSql("like-many-percent", "time", column(f"note LIKE '{'%a' * 30}b'"), True),
    HostileSql("like-percent-long", "time", column(f"note LIKE '{'%_' * 2000}'"), True),
    HostileSql("rlike", "time", column("note RLIKE '(a+)+b'"), accepted=True),
    HostileSql("md5-chain", "time", column(nest("md5({})", 40, "note")), True),
    # Values that fail when they run.
    HostileSql("divide-by-zero", "values", column("price / 0"), True),
    HostileSql("overflow", "values", column("volume * 9223372036854775807"), True),
    HostileSql("text-to-int", "values", column("CAST(note AS INT)"), True),
    HostileSql("double-to-decimal", "values", column("CAST(price AS DECIMAL(3,3))"), True),
    HostileSql("secret-in-error", "values", column("CAST(note AS DECIMAL(5,2))"), True),
    HostileSql("having-fails", "values",
               windowed("'1 second'", "sum(volume * 4611686018427387904) AS s"), True),
    # Ways out of the sandbox.
    *(HostileSql(f"escape-{name}", "escape", sql) for name, sql in (
        ("file", "SELECT * FROM '/etc/passwd'"),
        ("read-csv", "SELECT * FROM read_csv('/etc/passwd')"),
        ("backtick-file", "SELECT * FROM `/etc/passwd`"),
        ("parquet", "SELECT * FROM parquet.`/tmp/x`"),
        ("getenv", column("getenv('HOME')")),
        ("setting", column("current_setting('memory_limit')")),
        ("attach", "ATTACH '/tmp/x.db'"),
        ("copy", "COPY trades TO '/tmp/x'"),
        ("set", "SET memory_limit = '100GB'"),
        ("pragma", "PRAGMA database_list"),
        ("install", "INSTALL httpfs"),
        ("two-statements", "SELECT ts FROM trades; DROP TABLE trades"),
        ("comment", "SELECT ts FROM trades -- \n; DROP TABLE trades"),
        ("internal-table", "SELECT * FROM kept_0"),
        ("information-schema", "SELECT * FROM information_schema.tables"),
        ("duckdb-functions", "SELECT * FROM duckdb_settings()"),
        ("control-character", "SELECT ts FROM trades WHERE note = '\x01rows'"),
        ("nul", "SELECT ts\0 FROM trades"),
        ("reflect", column("reflect('java.lang.System', 'exit', 1)")),
        ("java-method", column("java_method('java.lang.Runtime', 'getRuntime')")),
        ("transform", "SELECT TRANSFORM(symbol) USING 'cat' FROM trades"),
        ("rand", column("rand()")),
        ("now", column("now()")),
        ("subquery", column("(SELECT max(price) FROM trades)")),
        ("exists", column("1", "WHERE EXISTS (SELECT 1 FROM quotes)")),
        ("lateral", "SELECT * FROM trades LATERAL VIEW read_csv(array('/etc/passwd')) x"),
        ("sequence", column("sequence(1, 1000000000)")),
        ("repeat", column("repeat('x', 1000000000)")),
        ("range", "SELECT * FROM range(1000000000)"),
        ("error", column("raise_error('x')")),
        ("recursive", "WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT * FROM r) SELECT * FROM r"),
        ("hint", "SELECT /*+ UPDATE_MODE, TTL('9999999 days') */ count(*) AS n FROM trades"),
        ("tablesample", "SELECT ts FROM trades TABLESAMPLE (10 PERCENT)"),
    )),
    HostileSql("planner-hint", "escape", "SELECT /*+ BROADCAST(trades) */ ts FROM trades", True),
    HostileSql("quote-in-name", "escape", 'SELECT ts, price AS `a"; DROP TABLE x; --` FROM trades',
               True),
    HostileSql("quote-in-string", "escape", column("note", "WHERE note = ''' OR 1=1 --'"), True),
    HostileSql("internal-names", "escape",
               "SELECT ts AS _t, price AS _n, symbol AS _ws FROM trades"),
    HostileSql("internal-groups", "escape",
               windowed("'1 second'", "count(*) AS _n, symbol AS p0", ", symbol"), True),
    HostileSql("half-character", "text", column("'\ud800'")),
    HostileSql("having-alone", "escape", "SELECT ts FROM trades HAVING price > 1"),
    HostileSql("alias-of-kept-table", "escape", "SELECT kept_1.ts FROM trades AS kept_1", True),
    HostileSql("alias-of-two-lines", "escape", "SELECT `a\nb`.ts FROM trades AS `a\nb`", True),
    HostileSql("shadowed-stream", "escape",
               "WITH trades AS (SELECT * FROM trades) SELECT ts FROM trades", True),
    HostileSql("cube-30", "size",
               windowed("'1 second'", more=f", CUBE({repeated('price + {n}', 30)})")),
    HostileSql("group-500", "size",
               windowed("'1 second'", more=f", {repeated('volume + {n}', 500)}"), True),
    HostileSql("case-700", "size",
               column(f"CASE {repeated('WHEN volume = {n} THEN {n}', 700, ' ')} END"), True),
    HostileSql("concat-2000", "size", column(f"concat({repeated('note', 2000)})"), True),
    HostileSql("with-chain-60", "size",
               "WITH a0 AS (SELECT ts, price FROM trades)" + "".join(
                   f", a{n} AS (SELECT ts, price + price AS price FROM a{n - 1})"
                   for n in range(1, 60)) + " SELECT * FROM a59", True),
    HostileSql("distinct-3650-days", "memory",
               windowed("'3650 days'", "count(DISTINCT note) AS n"), True),
    HostileSql("texts-in-3600-slides", "memory",
               windowed("'1 hour', '1 second'", "note, count(*) AS n", ", note"), True),
    HostileSql("join-on-texts", "memory",
               "SELECT a.note || b.note AS x FROM trades a JOIN trades b ON a.note = b.note AND "
               "b.ts BETWEEN a.ts - INTERVAL 3600 DAYS AND a.ts + INTERVAL 3600 DAYS", True),
    HostileSql("window-of-the-future", "bounds",
               windowed("'1 second'").replace("ts,", "ts + INTERVAL 36500 DAYS,"), True),
    HostileSql("text-for-padding", "memory", column("lpad(note, 2147483647, 'x')")),
    HostileSql("over-40", "size", "SELECT " + repeated(
        "rank() OVER (PARTITION BY ts, volume + {n} ORDER BY price) AS r{n}", 40) +
        " FROM trades", True),
    HostileSql("over-ties-100", "size", "SELECT *, " + repeated(
        "lag(price + {n}) OVER (PARTITION BY ts ORDER BY price) AS r{n}", 100) +
        " FROM trades", True),
    HostileSql("distinct-30", "size", nest("SELECT DISTINCT * FROM ({})", 30,
                                           "SELECT ts, price FROM trades"), True),
    # Templates.
    HostileSql("template-case-twins", "bounds", column("1", "WHERE price > :x AND volume > :X"),
               is_template=True),
    HostileSql("template-own-name", "bounds", column("1", "WHERE price > :Subscription"),
               is_template=True),
    HostileSql("template-untyped", "bounds", column("1", "WHERE :a = :b"), is_template=True),
    HostileSql("template-many", "size",
               column("1", "WHERE " + " AND ".join(f"volume > :p{n}" for n in range(100))),
               True, is_template=True),
    HostileSql("template-everything", "memory", column("symbol", "WHERE price > :low"), True,
               is_template=True),
)  # fmt: skip


def statements() -> Iterator[tuple[HostileSql, Program]]:
    """Yield the statements that compile, with their programs."""
    for case in CASES:
        try:
            yield case, case.compile()
        except InputError:
            continue
