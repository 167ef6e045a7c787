"""One query of every class: name -> (SQL, the batch SQL of the same answer if it differs)."""


def bucket(time: str, size_s: int, origin_s: int = 0) -> str:
    """Write the start of the tumbling window of a time, for the batch query."""
    start = f"TIMESTAMPTZ '1970-01-01 00:00:{origin_s:02}+00'"
    return f"time_bucket(INTERVAL {size_s} SECONDS, {time}, {start})"


TUMBLING = bucket("ts", 10)
SLIDING = "(SELECT *, unnest([{b}, {b} - INTERVAL 5 SECONDS]) AS w FROM trades)".format(
    b=bucket("ts", 5)
)
PAIRS = """SELECT a.ts AS ats, b.ts AS bts, a.symbol, a.price AS ap, b.qty AS bq
FROM trades a JOIN trades b ON a.symbol = b.symbol
AND b.ts BETWEEN a.ts - INTERVAL 20 SECONDS AND a.ts + INTERVAL 3 SECONDS WHERE a.qty < b.qty"""
MIXED = """SELECT t.ts, q.qt, t.symbol, t.venue, q.bid FROM trades t, quotes q
WHERE t.symbol = q.sym AND t.venue = q.v AND q.qt > t.ts - INTERVAL 10 SECONDS AND q.qt <= t.ts"""
THREE = """SELECT a.ts AS ats, q.qt, c.ts AS cts, a.venue, q.bid, c.qty
FROM trades a JOIN quotes q ON a.symbol = q.sym JOIN trades c ON q.v = c.venue
WHERE q.qt BETWEEN a.ts - INTERVAL 4 SECONDS AND a.ts + INTERVAL 4 SECONDS
AND c.ts BETWEEN q.qt - INTERVAL 6 SECONDS AND q.qt + INTERVAL 2 SECONDS AND c.qty > 4"""
JOINED_COUNT = """SELECT {w} AS s, a.symbol, count(*) AS n, sum(b.qty) AS q
FROM trades a JOIN trades b ON a.symbol = b.symbol
AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS GROUP BY {g}, a.symbol"""
HOT = """WITH counts AS (SELECT {w} AS s, symbol, count(*) AS n FROM trades GROUP BY {g}, symbol),
most AS (SELECT s, max(n) AS top FROM counts GROUP BY s)
SELECT counts.s, counts.symbol, n FROM counts JOIN most ON counts.s = most.s WHERE n >= top"""

CASES: dict[str, tuple[str, str | None]] = {
    "stateless": (
        "SELECT ts, symbol, price * 2 AS p, qty + venue AS q FROM trades WHERE qty > 2",
        None,
    ),
    "table": (
        "SELECT t.ts, t.symbol, s.sector FROM trades t JOIN sectors s ON t.symbol = s.symbol",
        None,
    ),
    "left table": (
        "SELECT t.ts, t.qty, s.sector FROM trades t LEFT JOIN sectors s ON t.symbol = s.symbol",
        None,
    ),
    "union": (
        "SELECT ts, symbol, qty FROM trades WHERE qty > 5 UNION ALL SELECT qt, sym, v FROM quotes",
        None,
    ),
    "tumbling": (
        """SELECT window.start AS s, symbol, count(*) AS n, count(price) AS np, sum(qty) AS q,
        min(price) AS lo, max(ts) AS hi, avg(price) AS mean, count(DISTINCT venue) AS venues,
        sum(fee) AS fees, stddev(price) AS sd, count_if(qty > 3) AS many,
        sum(qty) FILTER (WHERE venue = 1) AS first
        FROM trades GROUP BY window(ts, '10 seconds'), symbol""",
        f"""SELECT {TUMBLING}, symbol, count(*), count(price), sum(qty), min(price), max(ts),
        avg(price), count(DISTINCT venue), sum(fee), stddev_samp(price), count_if(qty > 3),
        sum(qty) FILTER (WHERE venue = 1) FROM trades GROUP BY {TUMBLING}, symbol""",
    ),
    "offset": (
        """SELECT window.end AS e, count(*) AS n FROM trades
        GROUP BY window(ts, '10 seconds', '10 seconds', '3 seconds') HAVING count(*) > 2""",
        f"""SELECT {bucket("ts", 10, 3)} + INTERVAL 10 SECONDS AS e, count(*) AS n FROM trades
        GROUP BY 1 HAVING n > 2""",
    ),
    "sliding": (
        """SELECT window.start AS s, symbol, venue, sum(qty) AS q, var_pop(price) AS v
        FROM trades WHERE qty > 0 GROUP BY symbol, venue, window(ts, '10 seconds', '5 seconds')""",
        f"""SELECT w, symbol, venue, sum(qty), var_pop(price) FROM {SLIDING} WHERE qty > 0
        GROUP BY ALL""",
    ),
    "table aggregate": (
        """SELECT window.start AS s, sector, count(*) AS n FROM trades t JOIN sectors s
        ON t.symbol = s.symbol GROUP BY window(ts, '10 seconds'), sector""",
        f"""SELECT {TUMBLING}, sector, count(*) FROM trades t JOIN sectors s
        ON t.symbol = s.symbol GROUP BY ALL""",
    ),
    "union aggregate": (
        """SELECT window.start AS s, k, sum(x) AS x FROM (SELECT ts AS t, symbol AS k, qty AS x
        FROM trades UNION ALL SELECT qt, sym, v FROM quotes) GROUP BY window(t, '10 seconds'), k""",
        f"""SELECT {bucket("t", 10)}, k, sum(x) FROM (SELECT ts AS t, symbol AS k, qty AS x
        FROM trades UNION ALL SELECT qt, sym, v FROM quotes) GROUP BY ALL""",
    ),
    "self-join": (PAIRS, None),
    "two streams": (MIXED, None),
    "three inputs": (THREE, None),
    "join, then aggregate": (
        JOINED_COUNT.format(w="window.start", g="window(a.ts, '10 seconds')"),
        JOINED_COUNT.format(w=bucket("a.ts", 10), g="1"),
    ),
    "hottest per window": (
        HOT.format(w="window.start", g="window(ts, '10 seconds')"),
        HOT.format(w=TUMBLING, g="1"),
    ),
}

TOPS = """SELECT b.ts, b.symbol, b.qty, w.s FROM trades b JOIN (SELECT {w} AS s, {e} AS e,
max(qty) AS m FROM trades GROUP BY {g}) w ON b.qty = w.m AND b.ts >= w.s AND b.ts < w.e"""
NEW = """SELECT p.symbol, p.n, q.n AS m, {out} FROM
(SELECT {w1} AS w, symbol, count(*) AS n FROM trades GROUP BY {g1}, symbol) p JOIN
(SELECT {w2} AS w, sym, count(*) AS n FROM quotes GROUP BY {g2}, sym) q
ON p.symbol = q.sym AND p.w = q.w"""
LEVELS = """SELECT {w2} AS s, max(n) AS top, sum(n) AS n FROM (SELECT {w} AS w, symbol,
count(*) AS n FROM trades GROUP BY {g}, symbol) GROUP BY {g2}"""
CASES |= {
    "highest of the window": (
        TOPS.format(w="window.start", e="window.end", g="window(ts, '10 seconds')"),
        TOPS.format(w=TUMBLING, e=f"{TUMBLING} + INTERVAL 10 SECONDS", g=TUMBLING),
    ),
    "windows joined": (
        NEW.format(
            out="p.w.start AS s",
            w1="window",
            g1="window(ts, '10 seconds')",
            w2="window",
            g2="window(qt, '10 seconds')",
        ),
        NEW.format(out="p.w AS s", w1=TUMBLING, g1="1", w2=bucket("qt", 10), g2="1"),
    ),
    "windows of windows": (
        LEVELS.format(
            w="window", g="window(ts, '5 seconds')", w2="window.start", g2="window(w, '20 seconds')"
        ),
        LEVELS.format(w=bucket("ts", 5), g="1", w2=bucket("w", 20), g2="1"),
    ),
    "grouped by the time itself": (
        "SELECT ts, venue, count(*) AS n FROM trades GROUP BY ts, venue HAVING n < 9",
        None,
    ),
    "join of what a join gave": (
        """SELECT p.ts, p.qty, c.ts AS cts FROM (SELECT a.ts, a.symbol AS k, b.qty FROM trades a
        JOIN trades b ON a.symbol = b.symbol AND b.ts = a.ts + INTERVAL 1 SECOND) p
        JOIN quotes c0 ON c0.sym = p.k AND c0.qt = p.ts JOIN trades c ON c.symbol = p.k
        AND c.ts BETWEEN p.ts AND p.ts + INTERVAL 3 SECONDS""",
        None,
    ),
}

NEAR = """{0} JOIN quotes q ON t.symbol = q.sym AND q.qt BETWEEN t.ts - INTERVAL 2 SECONDS
AND t.ts + INTERVAL 4 SECONDS AND q.bid < t.qty"""
PAST = "q.qt BETWEEN t.ts - INTERVAL 9 SECONDS AND t.ts - INTERVAL 3 SECONDS"
UNMATCHED = """SELECT {w} AS s, t.symbol, count(*) AS n, count(q.bid) AS b, max(q.v) AS v
FROM trades t LEFT JOIN quotes q ON t.symbol = q.sym AND q.v = t.venue AND q.qt = t.ts
GROUP BY {g}, t.symbol"""
CASES |= {
    "left join": (
        f"""SELECT t.ts, t.symbol, t.qty, q.qt, q.sym, coalesce(q.bid, -1) AS b
        FROM trades t {NEAR.format("LEFT")} AND t.venue = 2 WHERE t.qty > 0""",
        None,
    ),
    "left join, no match wanted": (
        f"SELECT t.ts, t.qty FROM trades t {NEAR.format('LEFT OUTER')} WHERE q.qt IS NULL",
        None,
    ),
    "right join": (
        f"SELECT t.ts, q.qt, q.sym, q.v FROM trades t {NEAR.format('RIGHT')} AND q.v > 1",
        None,
    ),
    "full join of the past": (
        f"""SELECT t.ts, t.symbol, q.qt, q.v, t.qty + q.bid AS x FROM trades t
        FULL OUTER JOIN quotes q ON t.symbol = q.sym AND t.venue = q.v AND {PAST}
        WHERE t.qty IS NULL OR t.qty <> 3""",
        None,
    ),
    "semi join": (f"SELECT t.ts, t.symbol, t.qty FROM trades t {NEAR.format('LEFT SEMI')}", None),
    "anti join of itself": (
        """SELECT t.ts, t.venue FROM trades t LEFT ANTI JOIN trades q ON t.venue = q.venue
        AND q.ts > t.ts AND q.ts <= t.ts + INTERVAL 6 SECONDS WHERE t.qty > 2""",
        """SELECT t.ts, t.venue FROM trades t ANTI JOIN trades q ON t.venue = q.venue
        AND q.ts > t.ts AND q.ts <= t.ts + INTERVAL 6 SECONDS WHERE t.qty > 2""",
    ),
    "anti join of a table": (
        """SELECT t.ts, t.symbol, t.qty FROM trades t LEFT ANTI JOIN sectors s
        ON t.symbol = s.symbol AND t.qty > 3""",
        """SELECT t.ts, t.symbol, t.qty FROM trades t ANTI JOIN sectors s
        ON t.symbol = s.symbol AND t.qty > 3""",
    ),
    "left join, then aggregate": (
        UNMATCHED.format(w="window.start", g="window(t.ts, '10 seconds')"),
        UNMATCHED.format(w=bucket("t.ts", 10), g="1"),
    ),
}
CASES["semi join"] = (CASES["semi join"][0], CASES["semi join"][0].replace("LEFT SEMI", "SEMI"))

DAILY = """SELECT {w}, symbol, count(*) AS n, max(qty) AS q FROM trades GROUP BY {g}, symbol"""
CASES |= {
    "distinct": ("SELECT DISTINCT ts, symbol, venue FROM trades WHERE qty > 0", None),
    "distinct of windows": (
        "SELECT DISTINCT window(ts, '10 seconds').start AS w, symbol FROM trades",
        f"SELECT DISTINCT {TUMBLING} AS w, symbol FROM trades",
    ),
    "union without duplicates": (
        "SELECT ts, symbol AS k FROM trades UNION SELECT qt, sym FROM quotes",
        None,
    ),
    "truncated times": (
        DAILY.format(w="date_trunc('minute', ts) AS m", g="date_trunc('minute', ts)"),
        DAILY.format(w="date_trunc('minute', ts) AS m", g="1"),
    ),
    "days": (
        DAILY.format(w="to_date(ts) AS d", g="to_date(ts)"),
        DAILY.format(w="CAST(ts AS DATE) AS d", g="1"),
    ),
    "months": (
        DAILY.format(w="date_trunc('MONTH', ts) AS m", g="m"),
        DAILY.format(w="date_trunc('month', ts) AS m", g="1"),
    ),
    "windows of rows, joined": (
        """SELECT a.w.end AS e, a.qty, b.bid FROM (SELECT window(ts, '5 seconds') AS w, symbol, qty
        FROM trades) a JOIN (SELECT window(qt, '5 seconds') AS w, sym, bid FROM quotes) b
        ON a.w = b.w AND a.symbol = b.sym""",
        f"""SELECT a.w + INTERVAL 5 SECONDS AS e, a.qty, b.bid FROM
        (SELECT {bucket("ts", 5)} AS w, symbol, qty FROM trades) a
        JOIN (SELECT {bucket("qt", 5)} AS w, sym, bid FROM quotes) b
        ON a.w = b.w AND a.symbol = b.sym""",
    ),
}

TOP = """SELECT * FROM (SELECT {w} AS s, symbol, count(*) AS n, row_number() OVER (PARTITION BY {p}
ORDER BY count(*) DESC, symbol {d}) AS r, rank() OVER (PARTITION BY {p} ORDER BY count(*)) AS k
FROM trades GROUP BY {g}, symbol) WHERE r <= 2"""
RUNNING = """SELECT ts, venue, qty, {w} AS s, sum(qty) OVER (PARTITION BY {p}, venue
ORDER BY ts {a}, qty {a}, price {a}, symbol {a}, fee ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS q,
lag(qty, 1, -1) OVER (PARTITION BY venue, {p}
ORDER BY ts, qty {a}, price {a}, symbol {a}, fee) AS b,
avg(price) OVER (PARTITION BY {p}, venue) AS m, count(price) OVER (PARTITION BY {p}, venue
ORDER BY ts) - 1 AS c, dense_rank() OVER (PARTITION BY {p}, venue ORDER BY fee DESC) AS d
FROM trades WHERE qty > -2"""
CASES |= {
    "top of each window": (
        TOP.format(w="window.start", p="window", g="window(ts, '10 seconds')", d=""),
        TOP.format(w=TUMBLING, p=TUMBLING, g=TUMBLING, d="NULLS FIRST"),
    ),
    "running sums per window": (
        RUNNING.format(w="window(ts, '10 seconds').start", p="window(ts, '10 seconds')", a="ASC"),
        RUNNING.format(w=TUMBLING, p=TUMBLING, a="ASC NULLS FIRST"),
    ),
    "first of equal times, counted again": (
        """SELECT window.start AS s, max(r) AS r, count(*) AS n FROM (SELECT *, row_number() OVER
        (PARTITION BY ts, symbol ORDER BY qty, venue, price, fee) AS r FROM trades)
        GROUP BY window(ts, '5 seconds')""",
        f"""SELECT {bucket("ts", 5)} AS s, max(r), count(*) FROM (SELECT *, row_number() OVER
        (PARTITION BY ts, symbol ORDER BY qty, venue, price, fee) AS r FROM trades) GROUP BY 1""",
    ),
}

SESSIONS = """SELECT to_timestamp(min(t) / 1e6) AS s, to_timestamp(max(t) / 1e6 + 3) AS e, {k}
count(*) AS n, sum(qty) AS q, max(price) AS p FROM (SELECT *, sum(new) OVER (PARTITION BY {k} 1
ORDER BY t, new DESC ROWS UNBOUNDED PRECEDING) AS nr FROM (SELECT *, epoch_us(ts) AS t,
CASE WHEN epoch_us(ts) <= 3000000 + max(epoch_us(ts)) OVER (PARTITION BY {k} 1 ORDER BY ts
ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) THEN 0 ELSE 1 END AS new FROM trades
WHERE qty <> 1)) GROUP BY {k} nr"""
CASES |= {
    "sessions": (
        """SELECT session_window.start AS s, session_window.end AS e, symbol, count(*) AS n,
        sum(qty) AS q, max(price) AS p FROM trades WHERE qty <> 1
        GROUP BY symbol, session_window(ts, '3 seconds')""",
        SESSIONS.format(k="symbol,"),
    ),
    "sessions of all, per minute": (
        """SELECT window.start AS m, count(*) AS n, max(q) AS q FROM (SELECT session_window.end
        AS e, sum(qty) AS q FROM trades WHERE qty <> 1 GROUP BY session_window(ts, '3 seconds')
        HAVING count(*) > 1) GROUP BY window(e, '1 minute')""",
        f"""SELECT {bucket("e", 60)} AS m, count(*), max(q) FROM ({SESSIONS.format(k="")}
        HAVING count(*) > 1) GROUP BY 1""",
    ),
}

CASES |= {
    "exploded": (
        """SELECT ts, symbol, p, x FROM trades LATERAL VIEW posexplode(array(qty, qty * 2, NULL)) e
        AS p, x WHERE x > 3 OR p = 0""",
        """SELECT ts, symbol, p, x FROM (SELECT *, unnest([qty, qty * 2, NULL]) AS x,
        unnest([0, 1, 2]) AS p FROM trades) WHERE x > 3 OR p = 0""",
    ),
    "exploded, then aggregate": (
        """SELECT window.start AS s, x, count(*) AS n FROM trades LATERAL VIEW OUTER
        explode(filter(array(qty, venue), v -> v > 2)) AS x GROUP BY window(ts, '10 seconds'), x""",
        f"""SELECT {TUMBLING} AS s, x, count(*) FROM (SELECT ts, unnest(CASE WHEN len(l) > 0
        THEN l ELSE [NULL] END) AS x FROM (SELECT ts, list_filter([qty, venue], lambda v: v > 2)
        AS l FROM trades)) GROUP BY ALL""",
    ),
    "a join, exploded": (
        """SELECT t.ts, a, b FROM trades t JOIN quotes q ON t.symbol = q.sym AND t.ts = q.qt
        LATERAL VIEW inline(array(struct(t.qty AS a, q.v AS b), struct(q.v AS a, t.qty AS b))) e
        WHERE a > b""",
        """SELECT ts, a, b FROM (SELECT t.ts, unnest([qty, v]) AS a, unnest([v, qty]) AS b
        FROM trades t JOIN quotes q ON t.symbol = q.sym AND t.ts = q.qt) WHERE a > b""",
    ),
}

CASES |= {
    "using": (
        """SELECT * FROM (SELECT ts, symbol, qty FROM trades) a LEFT JOIN (SELECT qt AS ts,
        sym AS symbol, bid FROM quotes) b USING (ts, symbol) JOIN sectors USING (symbol)""",
        """SELECT symbol, ts, qty, bid, sector FROM (SELECT ts, symbol, qty FROM trades) a LEFT JOIN
        (SELECT qt AS ts, sym AS symbol, bid FROM quotes) b USING (ts, symbol)
        JOIN sectors USING (symbol)""",
    ),
    "in a table": (
        """SELECT ts, symbol, qty IN (SELECT length(sector) FROM sectors) AS x FROM trades
        WHERE symbol NOT IN (SELECT symbol FROM sectors WHERE sector = 'x')""",
        None,
    ),
    "exists in a table": (
        """SELECT ts, qty FROM trades t WHERE EXISTS (SELECT 1 FROM sectors s JOIN sectors o
        ON s.sector = o.sector WHERE s.symbol = t.symbol AND o.symbol <> t.symbol) OR qty > 6""",
        None,
    ),
    "a table's largest, then aggregate": (
        """SELECT window.start AS s, count(*) AS n, max(c) AS c FROM (SELECT ts, (SELECT count(*)
        FROM sectors s WHERE s.symbol = t.symbol) AS c FROM trades t WHERE symbol < (SELECT
        max(symbol) FROM sectors)) GROUP BY window(ts, '10 seconds')""",
        f"""SELECT {TUMBLING} AS s, count(*), max(c) FROM (SELECT ts, (SELECT count(*)
        FROM sectors s WHERE s.symbol = t.symbol) AS c FROM trades t WHERE symbol < (SELECT
        max(symbol) FROM sectors)) GROUP BY 1""",
    ),
}
