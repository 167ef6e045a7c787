# ruff: noqa: E501 - queries are easier to read in one line
"""Everyday queries over three streams and two tables, as a Spark user writes them.

`NEEDS` marks those whose class is not supported yet, with what they need.
"""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
from tests.support.sql_corpus_by_task import BY_TASK

from evenflow.sql import read_schema

SCHEMAS = {
    "clicks": read_schema(
        "ts TIMESTAMP, user_id BIGINT, url STRING, country STRING, device STRING, duration DOUBLE, "
        "tags ARRAY<STRING>, payload STRING, ip STRING"
    ),
    "sales": read_schema(
        "ts TIMESTAMP, order_id BIGINT, user_id BIGINT, product STRING, amount DECIMAL(10,2), "
        "quantity INT, currency STRING, placed STRING, day DATE, note STRING"
    ),
    "sensors": read_schema(
        "ts TIMESTAMP, device STRING, temp DOUBLE, hum DOUBLE, status INT, ok BOOLEAN"
    ),
}
TABLES = {
    "users": read_schema("user_id BIGINT, name STRING, plan STRING, joined DATE"),
    "products": read_schema("product STRING, category STRING, cost DECIMAL(8,2)"),
}


def corpus_rows(rows: int = 120) -> dict[str, pa.Table]:
    """Draw rows of all streams and tables; event times are different and in order."""
    rng = Random(5)  # noqa: S311
    start = datetime(2024, 3, 1, 12, tzinfo=UTC)

    def moment(at: int) -> datetime:
        return start + timedelta(seconds=7 * at, milliseconds=131 * at)

    def some(*values: Any) -> Any:
        return None if rng.random() < 0.06 else rng.choice(values)

    made: dict[str, list[dict[str, Any]]] = {
        "clicks": [
            {
                "ts": moment(at), "user_id": some(*range(1, 8)), "country": some("de", "FR", "us"),
                "url": some("https://shop.example/item/42?ref=mail", "/cart", "/home?x=1&y=2"),
                "device": some("Phone", "tablet", "desktop"), "duration": some(0.5, 3.25, 12.0, 40.75),
                "tags": some(["new", "sale"], [], ["a", "b", "a"]), "ip": some("10.0.0.7", "8.8.4.4"),
                "payload": some('{"k": 1, "v": {"name": "x"}}', '{"k": 22, "list": [1, 2]}', "oops"),
            }
            for at in range(rows)
        ],
        "sales": [
            {
                "ts": moment(at), "order_id": at, "user_id": some(*range(1, 8)),
                "product": some("pen", "lamp", "desk"), "quantity": some(1, 2, 5, 10),
                "amount": some(Decimal("1.25"), Decimal("19.99"), Decimal("250.00")),
                "currency": some("EUR", "usd "), "placed": some("2024-03-01 10:00:00", "2024-02-29"),
                "day": (start + timedelta(days=at % 40)).date(),
                "note": some("rush order #12", "gift; wrap", "", "call +49-30-123"),
            }
            for at in range(rows)
        ],
        "sensors": [
            {
                "ts": moment(at), "device": some("s1", "s2", "s3"), "temp": 20 + at % 17 / 4,
                "hum": some(0.4, 0.55, 0.6), "status": some(0, 1, 6, 255), "ok": some(True, False),
            }
            for at in range(rows)
        ],
        "users": [
            {"user_id": at, "name": f"User {at}", "plan": "pro" if at % 2 else "free",
             "joined": start.date() - timedelta(days=30 * at)}
            for at in range(1, 7)
        ],
        "products": [
            {"product": "pen", "category": "office", "cost": Decimal("0.50")},
            {"product": "desk", "category": "home", "cost": Decimal("120.00")},
        ],
    }  # fmt: skip
    return {
        name: pa.Table.from_pylist(lines, schema={**SCHEMAS, **TABLES}[name])
        for name, lines in made.items()
    }


_W = "window(ts, '1 minute')"
_S = "window(ts, '2 minutes', '1 minute')"


def _per_window(*aggregates: str, stream: str = "clicks", by: str = "") -> list[str]:
    key = f"{by}, " if by else ""
    group = f"GROUP BY {_W}{', ' + by if by else ''}"
    return [f"SELECT window.start AS w, {key}{text} AS x FROM {stream} {group}"
            for text in aggregates]  # fmt: skip


def _select(*texts: str, stream: str = "clicks", where: str = "") -> list[str]:
    clause = f" WHERE {where}" if where else ""
    return [f"SELECT ts, {text} AS x FROM {stream}{clause}" for text in texts]


QUERIES: list[str] = [
    *_select(
        "trim(upper(country))", "substring_index(url, '?', 1)", "regexp_extract(url, '/item/(\\\\d+)', 1)",
        "split(url, '/')[0]", "size(split(url, '&'))", "initcap(device)", "lpad(user_id, 6, '0')",
        "concat_ws('|', country, device)", "regexp_replace(ip, '\\\\d+\\\\.\\\\d+$', 'x.x')",
        "sha2(ip, 256)", "md5(concat(ip, 'salt'))", "hash(user_id, country)", "xxhash64(ip)",
        "crc32(url)", "get_json_object(payload, '$.v.name')", "from_json(payload, 'k INT').k",
        "CAST(get_json_object(payload, '$.k') AS INT)", "to_json(struct(user_id, country))",
        "array_contains(tags, 'sale')", "size(tags)", "array_distinct(tags)", "try_element_at(tags, 1)",
        "transform(tags, t -> upper(t))", "filter(tags, t -> t <> 'a')", "exists(tags, t -> t = 'new')",
        "array_join(tags, ',')", "sort_array(tags)", "CASE WHEN duration > 10 THEN 'long' ELSE 'short' END",
        "if(duration IS NULL, 0.0D, duration)", "coalesce(country, 'unknown')", "nvl2(country, 1, 0)",
        "round(duration, 1)", "CAST(duration AS STRING)", "CAST(ts AS STRING)", "format_number(duration, 2)",
        "format_string('%s/%s', country, device)", "date_format(ts, 'yyyy-MM-dd HH:mm')",
        "date_trunc('hour', ts)", "hour(ts)", "dayofweek(ts)", "weekofyear(ts)", "to_date(ts)",
        "unix_timestamp(ts)", "date_add(to_date(ts), 7)", "last_day(ts)", "extract(MINUTE FROM ts)",
        "from_utc_timestamp(ts, 'Europe/Berlin')", "map('u', user_id)['u']", "named_struct('c', country).c",
        "url LIKE '/cart%'", "url RLIKE 'item/[0-9]+'", "instr(url, '?')", "reverse(country)",
        "left(device, 3)", "translate(ip, '.', '-')", "least(duration, 10.0D)", "log10(duration)",
        "user_id % 4", "user_id & 3", "shiftleft(user_id, 2)", "greatest(user_id, 3)", "typeof(tags)",
        "uuid()", "current_timestamp()", "explode(tags)",
    ),
    *_select(
        "amount * quantity", "amount / quantity", "round(amount * 1.19, 2)", "CAST(amount AS DOUBLE)",
        "bround(amount / 3, 1)", "lower(trim(currency))", "to_timestamp(placed)",
        "CAST(placed AS TIMESTAMP)", "to_date(placed)", "datediff(to_date(ts), day)",
        "months_between(ts, day)", "add_months(day, 1)", "next_day(day, 'Mon')", "trunc(day, 'MM')",
        "date_sub(day, 3)", "day + 1", "day + INTERVAL 1 MONTH", "quarter(day)", "year(day) * 100 + month(day)",
        "make_date(year(day), month(day), 1)", "regexp_extract(note, '#(\\\\d+)')", "split_part(note, ';', 1)",
        "length(note)", "nullif(note, '')", "note IN ('', 'gift; wrap')", "amount BETWEEN 1 AND 20",
        "unix_date(day)", "from_unixtime(order_id)", "TRY_CAST(note AS INT)", "try_divide(amount, 0)",
        "sequence(1, 3)", "array(order_id, user_id)", "ts - INTERVAL 1 HOUR", "timestampadd(MINUTE, 5, ts)",
        "timestampdiff(DAY, day, ts)", "decode(currency, 'EUR', 'euro', 'other')", "day - to_date(ts)",
        stream="sales",
    ),
    *_per_window(
        "count(*)", "count(DISTINCT user_id)", "approx_count_distinct(user_id)", "avg(duration)",
        "max(duration)", "percentile(duration, 0.5)", "percentile_approx(duration, 0.9)",
        "median(duration)", "stddev(duration)", "sort_array(collect_set(country))",
        "size(collect_list(url))", "first(url)", "last(url)", "max_by(url, ts)", "min_by(device, ts)",
        "count(*) FILTER (WHERE device = 'Phone')", "sum(if(country = 'de', 1, 0))",
        "count_if(duration > 5)", "any(duration > 30)", "bool_and(duration > 0)", "collect_list(device)",
        "mode(country)",
    ),
    *_per_window(
        "sum(amount)", "avg(amount)", "sum(amount * quantity)", "sum(DISTINCT quantity)",
        "max(struct(amount, product))", "min(day)", "count(DISTINCT product, currency)",
        "round(sum(amount) / count(*), 2)", "sum(amount) FILTER (WHERE quantity > 1)", "bit_or(quantity)",
        "max(amount) - min(amount)", "listagg(product, ',')", stream="sales", by="user_id",
    ),
    *_per_window(
        "avg(temp)", "corr(temp, hum)", "covar_samp(temp, hum)", "skewness(temp)", "kurtosis(temp)",
        "variance(temp)", "max(temp) - min(temp)", "percentile_cont(0.5) WITHIN GROUP (ORDER BY temp)",
        "every(ok)", "bit_and(status)", "bit_xor(status)", "avg(status)", "round(stddev_pop(temp), 3)",
        "last(temp) - first(temp)", "min_by(temp, ts)", stream="sensors", by="device",
    ),
    f"SELECT window, country, count(*) AS n FROM clicks GROUP BY {_S}, country HAVING count(*) > 2",
    f"SELECT window.end AS e, device, avg(temp) AS t FROM sensors GROUP BY {_S}, device",
    f"SELECT window.start AS w, country, device, count(*) AS n FROM clicks GROUP BY {_W}, ROLLUP(country, device)",
    f"SELECT window.start AS w, country, device, sum(duration) AS n FROM clicks GROUP BY {_W}, CUBE(country, device)",
    f"SELECT window.start AS w, product, currency, count(*) AS n, grouping_id() AS g FROM sales "
    f"GROUP BY GROUPING SETS (({_W}, product), ({_W}, currency), ({_W}))",
    "SELECT c.ts, u.name, u.plan FROM clicks c JOIN users u ON c.user_id = u.user_id",
    "SELECT c.ts, coalesce(u.plan, 'none') AS plan FROM clicks c LEFT JOIN users u ON c.user_id = u.user_id",
    "SELECT s.ts, p.category, s.amount - p.cost AS margin FROM sales s JOIN products p ON s.product = p.product",
    f"SELECT window.start AS w, p.category, sum(s.amount) AS total FROM sales s JOIN products p "
    f"ON s.product = p.product GROUP BY {_W.replace('ts', 's.ts')}, p.category",
    "SELECT s.ts, s.order_id, c.url FROM sales s JOIN clicks c ON s.user_id = c.user_id "
    "AND c.ts BETWEEN s.ts - INTERVAL 30 SECONDS AND s.ts",
    "WITH big AS (SELECT ts, user_id, amount FROM sales WHERE amount > 10) "
    f"SELECT window.start AS w, count(*) AS n FROM big GROUP BY {_W}",
    "SELECT ts, country AS k FROM clicks WHERE country IS NOT NULL UNION ALL SELECT ts, device AS k FROM sensors",
    f"SELECT w, max(n) AS busiest FROM (SELECT window.start AS w, country, count(*) AS n FROM clicks "
    f"GROUP BY {_W}, country) GROUP BY w",
    f"SELECT window.start AS w, date_format(window.start, 'HH:mm') AS label, count(*) AS n FROM clicks GROUP BY {_W}",
    f"SELECT window.start AS w, upper(country) AS c, avg(duration) AS a FROM clicks GROUP BY {_W}, upper(country)",
    f"SELECT window.start AS w, count(*) AS n FROM clicks WHERE url RLIKE '^/' AND duration > 1 GROUP BY {_W}",
    f"SELECT window.start AS w, CASE WHEN temp > 22 THEN 'hot' ELSE 'cold' END AS k, count(*) AS n FROM sensors "
    f"GROUP BY {_W}, CASE WHEN temp > 22 THEN 'hot' ELSE 'cold' END",
    f"SELECT window, count(*), avg(temp), max(hum), count(ok) FROM sensors GROUP BY {_W}",
    f"SELECT window.start, sum(quantity), min(amount) FROM sales WHERE note LIKE ANY ('rush%') GROUP BY {_W}",
    "SELECT ts, device, temp * 9 / 5 + 32 AS f FROM sensors WHERE ok AND temp > 21",
    "SELECT * FROM sensors WHERE status IN (1, 6)",
    "SELECT ts, user_id FROM clicks WHERE user_id IN (SELECT user_id FROM users WHERE plan = 'pro')",
    "SELECT DISTINCT country FROM clicks",
    f"SELECT device, ts, temp, temp - lag(temp) OVER (PARTITION BY {_W}, device ORDER BY ts) AS change FROM sensors",
    f"SELECT ts, user_id, sum(amount) OVER (PARTITION BY {_W}, user_id ORDER BY ts) AS running FROM sales",
    f"SELECT *, row_number() OVER (PARTITION BY {_W} ORDER BY amount DESC, order_id) AS r FROM sales",
    f"SELECT window.start AS w, product, sum(amount) AS total, sum(sum(amount)) OVER (PARTITION BY window) AS whole "
    f"FROM sales GROUP BY {_W}, product",
    "SELECT device, to_date(ts) AS d, ntile(4) OVER (PARTITION BY to_date(ts), device ORDER BY ts) AS q, "
    "percent_rank() OVER (PARTITION BY to_date(ts), device ORDER BY temp) AS p, first_value(temp) OVER "
    "(PARTITION BY to_date(ts), device ORDER BY ts) AS f FROM sensors",
    "SELECT device, ts, avg(temp) OVER (PARTITION BY date_trunc('HOUR', ts), device ORDER BY ts ROWS BETWEEN 2 PRECEDING "
    "AND 1 FOLLOWING) AS smooth, count(*) OVER (PARTITION BY date_trunc('HOUR', ts), device ORDER BY ts RANGE BETWEEN "
    "INTERVAL 30 SECONDS PRECEDING AND CURRENT ROW) AS recent FROM sensors",
    "SELECT session_window, user_id, count(*) AS n, sort_array(collect_set(device)) AS d, max(duration) AS m FROM clicks "
    "GROUP BY session_window(ts, '1 minute'), user_id",
    "SELECT session_window.end AS e, avg(temp) AS t FROM sensors WHERE ok GROUP BY session_window(ts, '10 seconds') "
    "HAVING count(*) > 1",
    "SELECT ts, explode_outer(tags) AS tag, user_id FROM clicks",
    "SELECT posexplode(tags), ts FROM clicks WHERE country = 'de'",
    f"SELECT window.start AS w, tag, count(*) AS n FROM clicks LATERAL VIEW explode(tags) t AS tag GROUP BY {_W}, tag",
    "SELECT ts, word FROM sales LATERAL VIEW OUTER explode(split(note, ' ')) AS word",
    "SELECT ts, amount FROM sales s WHERE EXISTS (SELECT 1 FROM users u WHERE u.user_id = s.user_id AND u.plan = 'free')",
    "SELECT ts, amount, amount > (SELECT avg(cost) FROM products) AS dear FROM sales",
    "SELECT ts, url FROM clicks WHERE user_id NOT IN (SELECT user_id FROM users WHERE plan = 'pro')",
    "SELECT s.ts, (SELECT max(p.category) FROM products p WHERE p.product = s.product) AS category FROM sales s",
    "SELECT ts, user_id FROM clicks WHERE user_id IN (SELECT user_id FROM users GROUP BY user_id HAVING count(*) = 1)",
    f"SELECT ts, lead(temp, 2, 0.0D) OVER (PARTITION BY {_W}, device ORDER BY ts) AS next, cume_dist() OVER (PARTITION BY "
    f"{_W}, device ORDER BY temp) AS c, last_value(temp) OVER (PARTITION BY {_W}, device ORDER BY ts ROWS BETWEEN CURRENT ROW "
    f"AND UNBOUNDED FOLLOWING) AS l, nth_value(temp, 2) OVER (PARTITION BY {_W}, device ORDER BY ts ROWS BETWEEN UNBOUNDED "
    f"PRECEDING AND CURRENT ROW) AS n FROM sensors",
    "SELECT user_id, name, amount FROM sales JOIN users USING (user_id) WHERE plan = 'pro'",
    "SELECT DISTINCT to_date(ts) AS d, country FROM clicks",
    "SELECT to_date(ts) AS d, product, sum(amount) AS total FROM sales GROUP BY to_date(ts), product",
    "SELECT date_trunc('WEEK', ts) AS w, currency, count(*) AS n FROM sales GROUP BY 1, 2",
    "SELECT ts, user_id FROM clicks UNION SELECT ts, user_id FROM sales",
    "SELECT s.order_id, c.url FROM sales s FULL OUTER JOIN clicks c ON s.user_id = c.user_id "
    "AND c.ts BETWEEN s.ts - INTERVAL 1 MINUTE AND s.ts + INTERVAL 1 MINUTE",
    "SELECT c.ts, c.user_id FROM clicks c LEFT SEMI JOIN sales s ON s.user_id = c.user_id "
    "AND s.ts BETWEEN c.ts AND c.ts + INTERVAL 20 SECONDS",
    "SELECT c.ts, c.user_id FROM clicks c LEFT ANTI JOIN sales s ON s.user_id = c.user_id "
    "AND s.ts BETWEEN c.ts AND c.ts + INTERVAL 20 SECONDS",
    "SELECT window(s.ts, '5 minutes').start AS w, count(*) AS n, count(c.url) AS clicked FROM sales s "
    "LEFT JOIN clicks c ON s.user_id = c.user_id AND c.ts BETWEEN s.ts - INTERVAL 9 SECONDS AND s.ts "
    "GROUP BY window(s.ts, '5 minutes')",
    "SELECT country, count(*) AS n FROM clicks GROUP BY country",
    "SELECT user_id, session_window.start AS s, count(*) AS n FROM clicks "
    "GROUP BY session_window(ts, '30 seconds'), user_id",
    "SELECT s.ts, c.url FROM sales s LEFT JOIN clicks c ON s.user_id = c.user_id "
    "AND c.ts BETWEEN s.ts - INTERVAL 30 SECONDS AND s.ts",
    "SELECT s.ts FROM sales s LEFT ANTI JOIN users u ON s.user_id = u.user_id",
    f"SELECT * FROM (SELECT window.start AS w, country, count(*) AS n, row_number() OVER (PARTITION BY "
    f"window ORDER BY count(*) DESC, country) AS r FROM clicks GROUP BY {_W}, country) WHERE r <= 2",
    "SELECT date_trunc('minute', ts) AS m, count(*) AS n FROM clicks GROUP BY date_trunc('minute', ts)",
    "SELECT ts, t FROM clicks LATERAL VIEW explode(tags) e AS t",
    "SELECT ts, temp, lag(temp) OVER (PARTITION BY device ORDER BY ts) AS before FROM sensors",
    f"SELECT window.start AS w, country, count(*) AS n FROM clicks GROUP BY {_W}, country ORDER BY w, count(*) DESC",
    "SELECT ts, 'c' AS src, user_id FROM clicks UNION ALL SELECT ts, 's' AS src, user_id FROM sales ORDER BY ts",
    "SELECT * EXCEPT (note, day) FROM sales",
    f"SELECT window.start AS w, country, count(*) AS c FROM clicks GROUP BY {_W}, country "
    f"QUALIFY row_number() OVER (PARTITION BY window ORDER BY c DESC, country) = 1",
    f"SELECT ts, device, temp FROM sensors QUALIFY row_number() OVER (PARTITION BY {_W}, device ORDER BY ts DESC) = 1 AND temp > 21",
    f"SELECT ts, temp, rank() OVER (PARTITION BY {_W} ORDER BY temp) AS r FROM sensors QUALIFY r <= 2",
    "SELECT date_trunc('hour', ts) AS h, device, count_if(ok) AS n FROM sensors GROUP BY ALL",
    "SELECT /*+ BROADCAST(u) */ s.ts, u.name FROM sales s JOIN users u ON s.user_id = u.user_id",
    "SELECT ts, tag FROM clicks, LATERAL explode(tags) AS t(tag)",
    "SELECT ts, tag FROM clicks LEFT JOIN LATERAL explode(tags) AS t(tag) ON TRUE",
    "SELECT ts, tag FROM clicks JOIN LATERAL explode(tags) AS t(tag) ON TRUE WHERE tag <> 'a'",
    "SELECT 7 AS version, date_trunc('hour', ts) AS h, count(*) AS n FROM sensors GROUP BY ALL",
    "SELECT ts, duration::int AS d, user_id::string AS u FROM clicks WHERE user_id IS NOT NULL",
    "SELECT ts, aggregate(transform(tags, t -> length(t)), 0, (a, x) -> a + x) AS total FROM clicks",
    "SELECT ts, amount FROM sales WHERE NOT (amount > 10 OR quantity = 1) AND ts > '2024-03-01 12:05:00'",
    "SELECT ts, parse_url(url, 'HOST') AS host, parse_url(url, 'QUERY', 'ref') AS ref, parse_url(url, 'PATH') AS p FROM clicks",
    "SELECT ts, map_filter(map('a', user_id, 'b', 2), (k, v) -> v > 3) AS m FROM clicks",
    "SELECT ts, transform_values(map('a', user_id), (k, v) -> v * 2) AS m FROM clicks",
    "SELECT ts, transform_keys(map('a', user_id), (k, v) -> upper(k)) AS m FROM clicks",
    "SELECT ts, map_concat(map('a', 1), map('b', 2)) AS m, map_from_entries(array(struct('a', user_id))) AS e FROM clicks",
    "SELECT ts, stack(2, 'a', 1, 'b', 2) AS (k, v) FROM clicks",
    "SELECT ts, json_tuple(payload, 'k', 'list') AS (k, l) FROM clicks",
    "SELECT ts, length(url), upper(device), concat(country, '-', device), user_id + 1, round(duration, 1) FROM clicks",
    f"SELECT window.start, count(1), count(DISTINCT country), sum(duration) / count(*), max(length(url)) FROM clicks GROUP BY {_W}",
    f"SELECT window.start AS w, listagg(product, ',') WITHIN GROUP (ORDER BY product) AS p FROM sales GROUP BY {_W}",
    "SELECT ts, user_id FROM clicks ORDER BY ts LIMIT 10",
    "SELECT ts, str_to_map(note, ';', '=') AS m FROM sales", "SELECT ts, levenshtein(country, device) AS d FROM clicks",
    "SELECT ts, user_id = '3' AS d FROM clicks",
    f"SELECT window.start AS w, regr_slope(temp, hum) AS s FROM sensors GROUP BY {_W}",
    *(sql for queries in BY_TASK.values() for sql in queries),
]  # fmt: skip
# What the accepted share leaves out: text of the query -> what it needs.
NEEDS = {
    "uuid()": "the same result in every run", "current_timestamp()": "the same result in every run",
    "bround(": "half-even rounding of DECIMAL", "mode(": "an order among equal counts", "day - to_date": "INTERVAL",
    "max(struct": "an order of structs",
    "SELECT DISTINCT country": "a time bound", "GROUP BY country": "update mode",
    "OVER (PARTITION BY device ORDER": "a time in PARTITION BY", "LIMIT": "all rows",
    "STRUCT<": "from_json of nested values", "LATERAL VIEW explode(items)": "from_json of nested values",
    "levenshtein": "levenshtein", "window(session_window.end": "the end as a column of the subquery",
    "GROUP BY date_trunc('DAY', from_utc": "days of a time zone", "convert_timezone": "convert_timezone", "PIVOT": "PIVOT",
}  # fmt: skip


def need_of(sql: str) -> str | None:
    """Return what a query needs that is not supported."""
    return next((need for text, need in NEEDS.items() if text in sql), None)
