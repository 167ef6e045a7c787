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
