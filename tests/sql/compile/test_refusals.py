"""Refused queries: each message names the problem and what to write instead."""

import pytest
from tests.support.sql_oracle import CATALOG

from evenflow.errors import InputError
from evenflow.sql import compile_query

JOIN = "SELECT a.qty FROM trades a JOIN trades b ON "

REFUSED = {
    # not one SELECT
    "DROP TABLE trades": "a query must be a SELECT",
    "INSERT INTO trades SELECT * FROM quotes": "a query must be a SELECT",
    "SELECT qty FROM trades; SELECT 1": "expected one SELECT, got 2 statements",
    "": "expected one SELECT, got 0 statements",
    "SELEKT qty FROM trades": r"cannot be read|must be a SELECT",
    "SELECT 'open FROM trades": "cannot be read",
    "SELECT 1 AS one": "does not read a stream",
    f"SELECT {'(' * 500}qty{')' * 500} AS q FROM trades": "nested too deeply",
    f"SELECT qty FROM trades WHERE {' + '.join(['qty'] * 9000)} > 1": "the limit is 20000",
    # clauses without end
    "SELECT qty FROM trades ORDER BY venue": "`venue` is not a column of the result; select it",
    "SELECT qty FROM trades LIMIT 5": "for the first of each window, write QUALIFY row_number",
    "SELECT * EXCEPT (nope) FROM trades": "leaves out 'nope', which is not a column",
    "SELECT qty FROM trades QUALIFY qty > 1": "QUALIFY needs a function with OVER",
    # hints
    "SELECT /*+ UPDATE_MODE */ qty FROM trades": "needs GROUP BY in the outermost SELECT",
    "SELECT /*+ UPDATE_MODE */ count(*) AS n FROM trades": "add for how long without a row",
    "SELECT /*+ UPDATE_MODE */ count(*) AS n FROM trades GROUP BY window(ts, '1 second'), venue": (
        "2 of the groups are missing in SELECT"
    ),
    "SELECT /*+ UPDATE_MODE */ to_date(window.start) AS day, count(*) AS n FROM trades "
    "GROUP BY window(ts, '1 second')": "1 of the groups is missing in SELECT",
    "SELECT /*+ UPDATE_MODE, TTL('soon') */ count(*) AS n FROM trades": "is not a span of time",
    "SELECT /*+ UPDATE_MODE, TTL('1 hour') */ ts, count(*) AS n FROM trades GROUP BY ts": (
        "TTL is for groups without a window"
    ),
    "SELECT /*+ UPDATE_MODE */ ts, count(*) AS n FROM trades GROUP BY ts HAVING count(*) > 1": (
        "once HAVING no longer holds"
    ),
    "SELECT /*+ UPDATE_MODE */ ts, count(*) AS version FROM trades GROUP BY ts": "rename yours",
    "SELECT /*+ UPDATE_MODE */ session_window.end AS e, count(*) AS n FROM trades "
    "GROUP BY session_window(ts, '1 second')": "two sessions can become one",
    "SELECT /*+ TTL('1 hour') */ count(*) AS n FROM trades": "write /\\*\\+ UPDATE_MODE",
    "SELECT * FROM (SELECT /*+ UPDATE_MODE */ ts FROM trades)": "belongs to the outermost SELECT",
    "SELECT /*+ LATE_ROWS */ count(*) AS n FROM trades GROUP BY ts": "LATE_ROWS needs one stream",
    "SELECT DISTINCT symbol FROM trades": "would keep all rows forever; select the event time",
    "SELECT symbol FROM trades UNION SELECT sym FROM quotes": "would keep all rows forever",
    "SELECT window(ts, '4 seconds', '2 seconds') AS w FROM trades": "into several windows; group",
    "SELECT symbol FROM trades EXCEPT SELECT sym FROM quotes": "must be a SELECT",
    "SELECT symbol, count(*) AS n FROM trades GROUP BY symbol": "has no window, so it would never",
    "SELECT count(*) AS n FROM trades": "add window\\(ts, '10 seconds'\\) to GROUP BY",
    "SELECT sum(qty) OVER (PARTITION BY symbol) AS s FROM trades": "add the time to all PARTITION",
    "SELECT rank() OVER (PARTITION BY ts) AS s FROM trades": "needs ORDER BY inside OVER",
    "SELECT row_number() AS s FROM trades": "needs OVER",
    "SELECT median(qty) OVER (PARTITION BY ts) AS s FROM trades": "cannot have OVER here",
    "SELECT qty FROM trades WHERE rank() OVER (PARTITION BY ts ORDER BY qty) = 1": "belongs in SEL",
    "SELECT last_value(qty) OVER (PARTITION BY ts ORDER BY fee) AS s FROM trades": "add ROWS BETW",
    "SELECT count(*) AS n FROM trades GROUP BY ROLLUP(symbol)": "has no window, so it would never",
    "WITH RECURSIVE r AS (SELECT qty FROM trades) SELECT qty FROM r": "RECURSIVE is refused",
    "SELECT x FROM trades LATERAL VIEW explode(qty) t AS x": "needs an ARRAY or MAP, got BIGINT",
    "SELECT x FROM trades LATERAL VIEW json_tuple(symbol, symbol) t AS x": "names of fields as con",
    "SELECT x FROM trades LATERAL VIEW stack(2, 1, 2, 3) t AS x": "as many values for each",
    "SELECT x FROM trades LATERAL VIEW explode(array(1)) t AS x, y": "names 2 columns; explode mak",
    "SELECT x FROM trades LEFT JOIN LATERAL explode(array(1)) AS l(x) ON x > 1": "then WHERE",
    "SELECT x FROM trades JOIN LATERAL explode(array(1)) AS l(x) USING (qty)": "then WHERE",
    "SELECT x FROM trades RIGHT JOIN LATERAL explode(array(1)) AS l(x)": "then WHERE",
    "SELECT upper(explode(array(symbol))) AS x FROM trades": "makes several rows; write LATERAL",
    "SELECT * FROM trades TABLESAMPLE (10 PERCENT)": "cannot be used in FROM; write a name",
    # windows
    "SELECT count(*) AS n FROM trades GROUP BY window(qty, '1 second')": "needs the event-time col",
    "SELECT count(*) AS n FROM trades GROUP BY window(ts, '1 month')": "months vary in length",
    "SELECT count(*) AS n FROM trades GROUP BY window(ts, '1 second', '2 seconds')": "slide",
    "SELECT count(*) AS n FROM trades GROUP BY window(ts, 'soon')": "'soon' is not a span of time",
    "SELECT count(*) AS n FROM trades GROUP BY window(ts, '1 day', '1 second')": "86,400 windows",
    "SELECT count(*) AS n FROM trades GROUP BY window(ts, '90001 ms', '90000 ms')": "unit 'ms'",
    "SELECT qty, count(*) AS n FROM trades GROUP BY window(ts, '1 second')": "neither grouped nor",
    "SELECT sum(-qty) FROM trades GROUP BY window(ts, '1 second')": "needs a name; write",
    "SELECT count(*) AS n FROM trades GROUP BY session_window(ts, '-1 second')": "above zero|not",
    "SELECT session_window(ts, '1 second') AS w FROM trades": "depends on other rows",
    # joins
    JOIN + "a.symbol = b.symbol": "no bound on their times.* add AND b.ts BETWEEN a.ts - INTERVAL",
    JOIN + "a.symbol = b.symbol AND a.ts <= b.ts": "no bound on their times",
    JOIN + "a.ts = b.ts + INTERVAL 1 SECOND AND a.qty < b.qty": "",  # equality of times is enough
    JOIN + "b.ts BETWEEN a.ts - INTERVAL 1 SECOND AND a.ts": "no column of b must be equal",
    JOIN.replace("JOIN", "LEFT JOIN") + "a.symbol = b.symbol": "no bound on their times",
    JOIN.replace("JOIN", "FULL OUTER JOIN") + "a.qty = b.qty AND a.ts > b.ts": "no bound on their",
    f"{JOIN.replace('JOIN', 'LEFT JOIN')}a.ts = b.ts JOIN quotes q ON q.qt = a.ts": (
        "take two streams; join two of them in a subquery"
    ),
    "SELECT t.ts FROM sectors s RIGHT JOIN trades t ON t.symbol = s.symbol": "take two streams",
    "SELECT t.ts FROM trades t FULL JOIN sectors s ON t.symbol = s.symbol": "write LEFT JOIN",
    JOIN.replace("a.qty", "b.qty").replace("JOIN", "LEFT SEMI JOIN") + "a.ts = b.ts": (
        "there is no column 'b'"
    ),
    "SELECT count(*) AS n FROM (SELECT b.ts FROM trades a LEFT JOIN trades b ON a.ts = b.ts) "
    "GROUP BY window(ts, '1 second')": "needs the event-time column",
    "SELECT qty FROM trades JOIN sectors USING (qty)": "the column must be once on each side",
    "SELECT sector FROM sectors": "reads reference tables only",
    # names and types
    "SELECT nothing FROM trades": "there is no column 'nothing'; there are",
    "SELECT t.nothing FROM trades t": "t has no column 'nothing'",
    "SELECT qty FROM nowhere": "there is no stream or table 'nowhere'; there are",
    "SELECT symbol FROM trades, sectors": "column 'symbol' is in trades and in sectors",
    "SELECT qty, qty FROM trades": "two columns are named 'qty'",
    "SELECT qty AS _t FROM trades": "the column name '_t' is reserved",
    "SELECT -qty FROM trades": "needs a name; write -qty AS name",
    "SELECT qty + 1e3 FROM trades": "needs a name; write qty \\+ 1e3 AS name",
    "SELECT qty + 01 FROM trades": "needs a name",
    "SELECT qty FROM trades WHERE symbol = 1": "mixes STRING and INT; cast one side",
    "SELECT qty FROM trades WHERE qty": "is BIGINT where a condition is needed",
    "SELECT symbol + 1 AS x FROM trades": "needs numbers, got STRING",
    "SELECT ts - ts AS x FROM trades": r"is an INTERVAL; write datediff\(a, b\)",
    "SELECT CAST(symbol AS FLOAT) AS x FROM trades": "casts STRING to FLOAT.*`select:` of the",
    "SELECT symbol RLIKE '(?=a)' AS x FROM trades": "such as lookahead",
    # arguments that Spark does not cast by itself, or casts in a way that differs
    "SELECT CAST(qty AS TIMESTAMP) AS x FROM trades": "write timestamp_seconds",
    "SELECT unix_date(ts) AS x FROM trades": "needs DATE, got TIMESTAMP",
    "SELECT sin(qty > 1) AS x FROM trades": "needs DOUBLE, got BOOLEAN",
    "SELECT left(symbol, price) AS x FROM trades": "needs INT, got DOUBLE",
    "SELECT timestamp_seconds(price) AS x FROM trades": "needs BIGINT, got DOUBLE",
    "SELECT try_add(qty, '1') AS x FROM trades": "needs a number, got STRING",
    "SELECT soundex(qty) AS x FROM trades": "needs STRING, got BIGINT",
    "SELECT to_utc_timestamp(CAST(ts AS DATE), CAST(qty AS TINYINT)) AS x FROM trades": (
        "needs STRING, got TINYINT"
    ),
    "SELECT array_join(array(CAST(qty AS DECIMAL(9,2))), ',') AS x FROM trades": (
        "joins other values than STRING; cast them"
    ),
    "SELECT mask(symbol, 'ab') AS x FROM trades": "needs one character, or NULL",
    "SELECT mask(symbol, 'a', '') AS x FROM trades": "needs one character, or NULL",
    "SELECT format_number(price, 400) AS x FROM trades": "needs a number of at most 340",
    "SELECT greatest(qty) AS x FROM trades": "has 1 argument; greatest takes at least 2",
    "SELECT mod(qty, 2, 3) AS x FROM trades": "has 3 arguments; mod takes 2",
    "SELECT array(NULL) AS x FROM trades": "has a NULL without a type",
    "SELECT qty,\n nope(qty) AS x, missing + 1 AS y FROM trades WHERE gone = 1": (
        r"3 problems: .*'gone'.*line 2, column 53.*calls nope.*line 2, column 2.*'missing'"
    ),
    "SELECT histogram_numeric(qty, 3) AS h FROM trades GROUP BY window(ts, '1 second')": (
        "calls histogram_numeric, which is not supported"
    ),
    "SELECT listagg(symbol, ',') WITHIN GROUP (ORDER BY symbol, qty) AS s FROM trades "
    "GROUP BY window(ts, '1 second')": "ordered by the same expression, and no other",
    "SELECT qty FROM trades WHERE median(qty) > 1": "an aggregate belongs in SELECT or HAVING",
    "SELECT symbol, ts FROM trades UNION ALL SELECT sym FROM quotes": "different numbers of col",
    "SELECT symbol FROM trades UNION ALL SELECT bid FROM quotes": "is STRING on one side and INT",
    # results that change from run to run
    "SELECT rand() AS x FROM trades": "its result changes from run to run",
    "SELECT current_timestamp() AS x FROM trades": "use the event-time column",
    "SELECT uuid() AS x FROM trades": "its result changes from run to run",
    "SELECT qty FROM trades WHERE qty IN (SELECT v FROM quotes)": "is not a reference table",
    "SELECT qty FROM trades WHERE EXISTS (SELECT 1 FROM quotes)": "is not a reference table",
    "SELECT (SELECT symbol, sector FROM sectors) AS x FROM trades": "selects several columns",
    "SELECT (SELECT symbol FROM sectors LIMIT 1) AS x FROM trades": "write SELECT x FROM table",
    "SELECT qty FROM trades WHERE qty > :limit": "parameters belong in WHERE of a template",
}


@pytest.mark.parametrize("sql", REFUSED, ids=lambda sql: sql[:60])
def test_a_refusal_names_the_problem_and_what_to_write(sql: str) -> None:
    if not REFUSED[sql]:
        compile_query("q", sql, CATALOG)
        return
    with pytest.raises(InputError, match=REFUSED[sql]) as refused:
        compile_query("q", sql, CATALOG)
    assert str(refused.value).startswith("query 'q'")
    assert "\n" not in str(refused.value)


KEYS: dict[str, tuple[str, object, object]] = {
    "inferred from GROUP BY": (
        "SELECT symbol, venue, count(*) AS n FROM trades "
        "GROUP BY window(ts, '1 second'), symbol, venue",
        None,
        {"trades": ("symbol", "venue")},
    ),
    "given, part of the group": (
        "SELECT symbol, venue, count(*) AS n FROM trades "
        "GROUP BY window(ts, '1 second'), symbol, venue",
        "venue",
        {"trades": ("venue",)},
    ),
    "inferred from a join": (
        JOIN + "a.symbol = b.symbol AND b.ts BETWEEN a.ts - INTERVAL 1 SECOND AND a.ts",
        None,
        {"trades": ("symbol",)},
    ),
    "two streams, other names": (
        "SELECT t.qty FROM trades t JOIN quotes q ON t.symbol = q.sym AND t.ts = q.qt",
        None,
        {"trades": ("symbol", "ts"), "quotes": ("sym", "qt")},
    ),
    "grouped by less than joined by": (
        "SELECT a.venue, count(*) AS n FROM trades a JOIN trades b ON a.symbol = b.symbol "
        "AND b.ts BETWEEN a.ts - INTERVAL 1 SECOND AND a.ts "
        "GROUP BY window(a.ts, '1 second'), a.venue",
        None,
        None,
    ),
    "a self-join over two columns": (
        JOIN + "a.venue = b.qty AND b.ts BETWEEN a.ts - INTERVAL 1 SECOND AND a.ts",
        None,
        None,
    ),
    "no group but the window": (
        "SELECT count(*) AS n FROM trades GROUP BY window(ts, '1 second')", None, None,
    ),
    "stateless, any column": ("SELECT qty FROM trades", "symbol", {"trades": ("symbol",)}),
    "refused: not in the join": (
        JOIN + "a.symbol = b.symbol AND b.ts BETWEEN a.ts - INTERVAL 1 SECOND AND a.ts",
        "venue",
        "cannot be the key: .* split it by \\{'trades': \\('symbol',\\)\\}",
    ),
    "refused: not in the group": (
        "SELECT count(*) AS n FROM trades GROUP BY window(ts, '1 second')",
        "symbol",
        "cannot be the key: .* leave the key out",
    ),
    "refused: no such column": ("SELECT qty FROM trades", "x", "key column 'x' is not in 'trades'"),
    "refused: not one for each stream": (
        "SELECT t.qty FROM trades t JOIN quotes q ON t.symbol = q.sym AND t.ts = q.qt",
        {"trades": "symbol"},
        "has no column of stream 'quotes'",
    ),
    "refused: a stream it does not read": (
        "SELECT qty FROM trades", {"quotes": "sym"}, "which the query does not read",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", KEYS, ids=str)
def test_keys_are_inferred_and_checked(case: str) -> None:
    sql, key, wanted = KEYS[case]
    if isinstance(wanted, str):
        with pytest.raises(InputError, match=wanted):
            compile_query("q", sql, CATALOG, key=key)  # type: ignore[arg-type]
        return
    program = compile_query("q", sql, CATALOG, key=key)  # type: ignore[arg-type]
    assert program.key == wanted
    assert program.keyable == (wanted is not None)
