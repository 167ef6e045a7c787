"""Everyday queries by what they are for, over the streams and tables of `sql_corpus`."""

BY_TASK: dict[str, list[str]] = {
    "alerts": [
        "SELECT ts, device, temp, concat('device ', device, ' at ', CAST(temp AS STRING)) AS "
        "message FROM sensors WHERE temp > 23 OR NOT ok",
        "SELECT window.start AS w, device, count_if(temp > 22) AS hot, count(*) AS n, "
        "count_if(temp > 22) / count(*) AS share FROM sensors GROUP BY window(ts, '1 minute', "
        "'30 seconds'), device HAVING count_if(temp > 22) >= 2",
        "SELECT device, ts, temp FROM (SELECT device, ts, temp, avg(temp) OVER (PARTITION BY "
        "window(ts, '5 minutes'), device) AS mean, stddev(temp) OVER (PARTITION BY window(ts, "
        "'5 minutes'), device) AS sd FROM sensors) WHERE abs(temp - mean) > 1.5 * sd",
        "SELECT s.ts, s.device, s.temp, b.mean FROM sensors s JOIN (SELECT window.end AS e, "
        "device, avg(temp) AS mean FROM sensors GROUP BY window(ts, '1 minute'), device) b ON "
        "s.device = b.device AND s.ts >= b.e AND s.ts < b.e + INTERVAL 1 MINUTE WHERE s.temp > "
        "b.mean + 1",
        "SELECT device, ts, status FROM (SELECT *, lag(status) OVER (PARTITION BY to_date(ts), "
        "device ORDER BY ts) AS previous FROM sensors) WHERE status <> previous OR previous IS "
        "NULL",
    ],
    "sessions": [
        "SELECT user_id, session_window.start AS began, session_window.end AS ended, count(*) "
        "AS clicks, first(url) AS landing, last(url) AS leaving, "
        "unix_seconds(session_window.end) - unix_seconds(session_window.start) AS seconds FROM "
        "clicks GROUP BY user_id, session_window(ts, '45 seconds')",
        "SELECT window(session_window.end, '5 minutes').start AS w, count(*) AS sessions, "
        "avg(n) AS per_session FROM (SELECT session_window, user_id, count(*) AS n FROM clicks "
        "GROUP BY session_window(ts, '20 seconds'), user_id) GROUP BY "
        "window(session_window.end, '5 minutes')",
    ],
    "without repetitions": [
        "SELECT DISTINCT window(ts, '5 minutes').start AS w, user_id, device FROM clicks",
        "SELECT ts, user_id, url FROM clicks QUALIFY row_number() OVER (PARTITION BY "
        "window(ts, '2 minutes'), user_id, url ORDER BY ts) = 1",
        "SELECT DISTINCT ts, device, status FROM sensors WHERE status > 0",
    ],
    "top of a window": [
        "SELECT w, product, total FROM (SELECT w, product, total, dense_rank() OVER (PARTITION "
        "BY w ORDER BY total DESC, product) AS place FROM (SELECT window AS w, product, "
        "sum(amount * quantity) AS total FROM sales GROUP BY window(ts, '3 minutes'), "
        "product)) WHERE place <= 2",
        "WITH per_country AS (SELECT window.start AS w, country, count(*) AS n FROM clicks "
        "WHERE country IS NOT NULL GROUP BY window(ts, '2 minutes'), country) SELECT w, "
        "max_by(country, n) AS busiest, max(n) AS n FROM per_country GROUP BY w",
    ],
    "funnels": [
        "SELECT c.user_id, c.ts AS clicked, s.ts AS bought, timestampdiff(SECOND, c.ts, s.ts) "
        "AS wait FROM clicks c JOIN sales s ON c.user_id = s.user_id AND s.ts > c.ts AND s.ts "
        "<= c.ts + INTERVAL 2 MINUTES WHERE c.url LIKE '/cart%' AND s.amount > 10",
        "SELECT c.ts, c.user_id, s.order_id IS NOT NULL AS converted FROM clicks c LEFT JOIN "
        "sales s ON c.user_id = s.user_id AND s.ts BETWEEN c.ts AND c.ts + INTERVAL 30 SECONDS "
        "WHERE c.url LIKE '%item%'",
        "SELECT window.start AS w, count_if(url LIKE '/home%') AS home, count_if(url LIKE "
        "'%/item/%') AS item, count_if(url = '/cart') AS cart, round(try_divide(count_if(url = "
        "'/cart') * 100.0, count_if(url LIKE '/home%')), 1) AS percent FROM clicks GROUP BY "
        "window(ts, '2 minutes')",
        "SELECT a.user_id, a.ts AS t1, b.ts AS t2, c.ts AS t3 FROM clicks a JOIN clicks b ON "
        "a.user_id = b.user_id AND b.ts > a.ts AND b.ts < a.ts + INTERVAL 1 MINUTE JOIN sales "
        "c ON c.user_id = b.user_id AND c.ts > b.ts AND c.ts < b.ts + INTERVAL 1 MINUTE WHERE "
        "a.url LIKE '/home%' AND b.url = '/cart'",
    ],
    "JSON": [
        "SELECT ts, p.k AS k, p.v.name AS name, size(p.list) AS items FROM (SELECT ts, "
        "from_json(payload, 'k INT, v STRUCT<name: STRING>, list ARRAY<INT>') AS p FROM "
        "clicks) WHERE p.k IS NOT NULL",
        "SELECT ts, item FROM (SELECT ts, from_json(payload, 'STRUCT<list: ARRAY<INT>>').list "
        "AS items FROM clicks) LATERAL VIEW explode(items) x AS item",
        "SELECT to_json(named_struct('w', CAST(window.start AS STRING), 'device', device, 'n', "
        "count(*), 'max', max(temp))) AS value FROM sensors GROUP BY window(ts, '1 minute'), "
        "device",
        "SELECT ts, coalesce(get_json_object(payload, '$.v.name'), concat('k', "
        "get_json_object(payload, '$.k')), 'bad') AS label FROM clicks",
    ],
    "distributions": [
        "SELECT window.start AS w, device, percentile_approx(temp, array(0.5, 0.9, 0.99)) AS p "
        "FROM sensors GROUP BY window(ts, '2 minutes'), device",
        "SELECT window.start AS w, percentile(duration, array(0.25, 0.75)) AS q, "
        "percentile_cont(0.95) WITHIN GROUP (ORDER BY duration) AS p95, percentile_disc(0.5) "
        "WITHIN GROUP (ORDER BY duration) AS p50 FROM clicks GROUP BY window(ts, '2 minutes')",
        "SELECT window.start AS w, width_bucket(temp, 20.0D, 25.0D, 5) AS bucket, count(*) AS "
        "n FROM sensors GROUP BY window(ts, '5 minutes'), width_bucket(temp, 20.0D, 25.0D, 5)",
        "SELECT window.start AS w, corr(temp, hum) AS c, regr_slope(temp, hum) AS slope, "
        "covar_pop(temp, hum) AS v FROM sensors GROUP BY window(ts, '2 minutes')",
    ],
    "time zones": [
        "SELECT ts, date_format(from_utc_timestamp(ts, 'America/New_York'), 'yyyy-MM-dd "
        "HH:mm') AS local, hour(from_utc_timestamp(ts, 'Asia/Kolkata')) AS h FROM sales",
        "SELECT date_trunc('DAY', from_utc_timestamp(ts, 'Asia/Tokyo')) AS local_day, "
        "currency, count(*) AS n FROM sales GROUP BY date_trunc('DAY', from_utc_timestamp(ts, "
        "'Asia/Tokyo')), currency",
        "SELECT window(ts, '1 day', '1 day', '8 hours').start AS business_day, count(*) AS n "
        "FROM sales GROUP BY window(ts, '1 day', '1 day', '8 hours')",
        "SELECT ts, convert_timezone('UTC', 'Europe/Paris', CAST(ts AS TIMESTAMP_NTZ)) AS "
        "paris FROM sales",
        "SELECT ts, date_format(ts, 'EEEE') AS weekday, dayofweek(ts) IN (1, 7) AS weekend, ts "
        "+ INTERVAL '1' DAY AS tomorrow FROM sensors",
    ],
    "unions": [
        "SELECT window.start AS w, kind, count(*) AS n FROM (SELECT ts, 'click' AS kind FROM "
        "clicks UNION ALL SELECT ts, 'sale' AS kind FROM sales UNION ALL SELECT ts, 'reading' "
        "AS kind FROM sensors WHERE ok) GROUP BY window(ts, '1 minute'), kind",
        "SELECT window.start AS w, user_id, sum(clicked) AS clicks, sum(bought) AS sales FROM "
        "(SELECT ts, user_id, 1 AS clicked, 0 AS bought FROM clicks UNION ALL SELECT ts, "
        "user_id, 0, 1 FROM sales) GROUP BY window(ts, '2 minutes'), user_id HAVING "
        "sum(bought) > 0",
    ],
    "enrichment": [
        "SELECT w, u.plan, sum(total) AS total, count(*) AS buyers FROM (SELECT window.start "
        "AS w, user_id, sum(amount) AS total FROM sales GROUP BY window(ts, '2 minutes'), "
        "user_id) s JOIN users u ON s.user_id = u.user_id GROUP BY w, u.plan",
        "SELECT s.ts, s.order_id, u.name, p.category, coalesce(p.cost * s.quantity, 0) AS cost "
        "FROM sales s LEFT JOIN users u ON s.user_id = u.user_id LEFT JOIN products p ON "
        "s.product = p.product WHERE s.amount IS NOT NULL",
        "SELECT c.w, c.n AS clicks, s.n AS sales FROM (SELECT window AS w, count(*) AS n FROM "
        "clicks GROUP BY window(ts, '1 minute')) c JOIN (SELECT window AS w, count(*) AS n "
        "FROM sales GROUP BY window(ts, '1 minute')) s ON c.w = s.w",
        "SELECT c.w.start AS w, coalesce(c.user_id, s.user_id) AS user_id, c.n AS clicks, "
        "s.total FROM (SELECT window AS w, user_id, count(*) AS n FROM clicks GROUP BY "
        "window(ts, '1 minute'), user_id) c LEFT JOIN (SELECT window AS w, user_id, "
        "sum(amount) AS total FROM sales GROUP BY window(ts, '1 minute'), user_id) s ON c.w = "
        "s.w AND c.user_id = s.user_id",
    ],
    "cleaning": [
        "SELECT ts, upper(trim(currency)) AS currency, CAST(amount AS DECIMAL(12, 4)) AS "
        "amount, try_to_timestamp(placed) AS placed, nullif(trim(note), '') AS note FROM sales "
        "WHERE amount > 0",
        "SELECT ts, regexp_extract(ip, '^(\\\\d+)\\\\.', 1) AS net, regexp_replace(url, '\\\\?.*', "
        "'') AS path, CASE WHEN ip LIKE '10.%' THEN 'internal' WHEN ip IS NULL THEN 'unknown' "
        "ELSE 'external' END AS origin FROM clicks",
        "SELECT ts, user_id, ts - INTERVAL 5 MINUTES AS since, bigint(unix_millis(ts)) AS ms, "
        "ts::date AS d FROM clicks WHERE duration IS NOT NULL AND device ILIKE 'PH%'",
        "SELECT date_trunc('minute', ts) AS m, device, round(avg(temp), 2) AS mean, min(temp) "
        "AS low, max(temp) AS high, bool_or(ok) AS ok FROM sensors GROUP BY 1, 2",
    ],
    "reports": [
        "SELECT window.start AS w, try_element_at(map_from_entries(collect_list(struct(device, "
        "temp))), 's1') AS s1 FROM (SELECT window, device, max(temp) AS temp FROM sensors "
        "WHERE device IS NOT NULL GROUP BY window(ts, '1 minute'), device) GROUP BY window",
        "SELECT window.start AS w, array_sort(collect_set(product)) AS basket, sum(quantity) "
        "AS items FROM sales WHERE user_id IS NOT NULL GROUP BY window(ts, '2 minutes'), "
        "user_id HAVING size(collect_set(product)) > 1",
        "SELECT window.start AS w, sum(CASE WHEN currency = 'EUR' THEN amount ELSE 0 END) AS "
        "eur, sum(CASE WHEN trim(currency) = 'usd' THEN amount END) AS usd FROM sales GROUP BY "
        "window(ts, '1 minute')",
        "SELECT * FROM (SELECT window.start AS w, device, temp FROM (SELECT ts, device, temp "
        "FROM sensors) GROUP BY window(ts, '1 minute'), device, temp) PIVOT (max(temp) FOR "
        "device IN ('s1', 's2'))",
    ],
}  # fmt: skip
