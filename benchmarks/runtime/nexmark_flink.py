"""Nexmark in Flink: the queries in Flink's SQL, with the windows and bounds of ours.

Windows are table functions and joins of streams are interval joins. q13 joins a table of constants.
q6 keeps the last ten auctions of each seller for ever, in the order in which their windows of 20 s
end. q9 keeps the best bid of each auction so far and q15 to q17 are updated with each row, as in
Flink's own form of them; ours return a result once it is complete.
"""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def _counts(time_column: str = "ts") -> str:
    hop = f"HOP(TABLE bid, DESCRIPTOR({time_column}), INTERVAL '2' SECOND, INTERVAL '10' SECOND)"
    return (
        f"SELECT auction, count(*) AS num, window_start, window_end FROM TABLE({hop}) "
        "GROUP BY auction, window_start, window_end"
    )


_TUMBLE = "TABLE(TUMBLE(TABLE {0}, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
_BIDS = _TUMBLE.format("bid")
_SAME = "{0}.window_start = {1}.window_start AND {0}.window_end = {1}.window_end"
_AUCTION_BIDS = """FROM auction a JOIN bid b ON a.id = b.auction
AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '20' SECOND AND b.ts <= a.expires"""
_DAY = "DATE_FORMAT(ts, 'yyyy-MM-dd')"
_STATISTICS = ", ".join(
    f"count({counted}){where} AS {name}{suffix}"
    for counted, name in (
        ("*", "bids"),
        ("DISTINCT bidder", "bidders"),
        ("DISTINCT auction", "lots"),
    )
    for suffix, where in (
        ("", ""),
        ("_low", " FILTER (WHERE price < 10000)"),
        ("_high", " FILTER (WHERE price >= 1000000)"),
    )
)
_CHANNEL = "REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)"
QUERIES: Mapping[str, str] = {
    "q0": "SELECT ts, auction, bidder, price FROM bid",
    "q1": "SELECT ts, auction, bidder, 0.908 * price AS price FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": """SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p
ON a.seller = p.id AND a.ts BETWEEN p.ts AND p.ts + INTERVAL '60' SECOND
WHERE a.category = 3 AND p.state IN ('OR', 'ID', 'CA')""",
    "q4": """SELECT window_end, category, avg(final) AS price FROM (
SELECT window_start, window_end, id, category, max(price) AS final
FROM TABLE(TUMBLE(TABLE auction_bids, DESCRIPTOR(ts), INTERVAL '20' SECOND))
GROUP BY window_start, window_end, id, category) GROUP BY window_start, window_end, category""",
    "q5": f"""SELECT c.window_start, c.auction, c.num FROM ({_counts()}) c JOIN (
SELECT max(num) AS top, window_start, window_end FROM ({_counts()})
GROUP BY window_start, window_end) m ON {_SAME.format("c", "m")} AND c.num >= m.top""",
    "q6": """SELECT seller, id, avg(final) OVER (PARTITION BY seller ORDER BY closed
ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS price FROM (
SELECT window_time AS closed, seller, id, max(price) AS final
FROM TABLE(TUMBLE(TABLE auction_bids, DESCRIPTOR(ts), INTERVAL '20' SECOND))
GROUP BY window_start, window_end, window_time, seller, id)""",
    "q7": f"""SELECT b.ts, b.auction, b.price, b.bidder FROM (SELECT * FROM {_BIDS}) b JOIN (
SELECT max(price) AS top, window_start, window_end FROM {_BIDS}
GROUP BY window_start, window_end) w ON {_SAME.format("b", "w")} AND b.price = w.top""",
    "q8": f"""SELECT p.id, p.name, p.window_start FROM (
SELECT id, name, window_start, window_end FROM {_TUMBLE.format("person")}
GROUP BY id, name, window_start, window_end) p JOIN (
SELECT seller, window_start, window_end FROM {_TUMBLE.format("auction")}
GROUP BY seller, window_start, window_end) a ON p.id = a.seller AND {_SAME.format("p", "a")}""",
    "q9": f"""SELECT id, seller, category, bidder, price, bid_ts FROM (
SELECT a.id, a.seller, a.category, b.bidder, b.price, b.ts AS bid_ts, ROW_NUMBER() OVER (
PARTITION BY a.id ORDER BY b.price DESC, b.ts, b.bidder) AS place {_AUCTION_BIDS})
WHERE place <= 1""",
    "q10": f"""SELECT auction, bidder, price, ts, {_DAY}, DATE_FORMAT(ts, 'HH:mm') FROM bid""",
    "q11": """SELECT bidder, window_start, window_end, count(*) AS bids FROM TABLE(SESSION(
TABLE bid PARTITION BY bidder, DESCRIPTOR(ts), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end""",
    "q12": f"""SELECT bidder, window_start, count(*) AS bids FROM {_BIDS}
GROUP BY bidder, window_start, window_end""",
    "q13": """SELECT b.auction, b.bidder, b.price, b.ts, s.val FROM bid b JOIN side_input s
ON MOD(b.auction, 100) = s.id""",
    "q14": """SELECT auction, bidder, 0.908 * price AS price, CASE WHEN HOUR(ts) BETWEEN 8 AND 18
THEN 'day' WHEN HOUR(ts) <= 6 OR HOUR(ts) >= 20 THEN 'night' ELSE 'other' END, ts,
CHAR_LENGTH(url) - CHAR_LENGTH(REPLACE(url, 'c', '')) FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": f"SELECT {_DAY}, {_STATISTICS} FROM bid GROUP BY {_DAY}",
    "q16": f"""SELECT channel, {_DAY}, max(DATE_FORMAT(ts, 'HH:mm')), {_STATISTICS}
FROM bid GROUP BY channel, {_DAY}""",
    "q17": f"""SELECT auction, {_DAY}, count(*), count(*) FILTER (WHERE price < 10000),
count(*) FILTER (WHERE price >= 1000000), min(price), max(price), avg(price), sum(price)
FROM bid GROUP BY auction, {_DAY}""",
    "q18": f"""SELECT auction, bidder, price, ts FROM (SELECT *, ROW_NUMBER() OVER (
PARTITION BY window_start, window_end, bidder, auction ORDER BY ts DESC, price) AS place
FROM {_BIDS}) WHERE place <= 1""",
    "q19": f"""SELECT auction, bidder, price, ts, place FROM (SELECT *, ROW_NUMBER() OVER (
PARTITION BY window_start, window_end, auction ORDER BY price DESC, ts, bidder) AS place
FROM {_BIDS}) WHERE place <= 10""",
    "q20": f"""SELECT b.auction, b.bidder, b.price, b.ts, a.seller, a.expires {_AUCTION_BIDS}
WHERE a.category = 3""",
    "q21": f"""SELECT auction, bidder, price, channel, CASE LOWER(channel) WHEN 'apple' THEN '0'
WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' ELSE {_CHANNEL} END
FROM bid WHERE {_CHANNEL} IS NOT NULL
OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3),
SPLIT_INDEX(url, '/', 4), SPLIT_INDEX(url, '/', 5) FROM bid""",
}
_SETTINGS = {
    "parallelism.default": "2",
    "table.local-time-zone": "UTC",
    "taskmanager.memory.process.size": "3g",
    "taskmanager.numberOfTaskSlots": "2",
}
_STATE = {
    "heap": {"state.backend.type": "hashmap"},
    "rocksdb": {
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.interval": "1s",
    },
}


def run_queries(side: str, folder: Path, names: list[str], streams: Mapping[str, str]) -> None:
    """Run queries one after the other, in one process."""
    for data, asked in (("warm-up", ["q12"]), ("events", names)):
        for name in asked:
            try:
                seconds = _seconds(side, folder, data, QUERIES[name], streams)
            except Exception as problem:
                lines = [line for line in str(problem).splitlines() if "Exception" in line]
                found: dict[str, object] = {"refused": (lines or [str(problem)])[-1][:160]}
            else:
                events = int((folder / "events.txt").read_text())
                found = {"seconds": round(seconds, 2), "events_per_second": round(events / seconds)}
            if data == "events":
                print(json.dumps({"side": f"flink {side}", "query": name, **found}), flush=True)


def _seconds(side: str, folder: Path, data: str, sql: str, streams: Mapping[str, str]) -> float:
    from pyflink.table import (  # type: ignore[import-not-found]
        EnvironmentSettings,
        TableEnvironment,
    )

    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    config = environment.get_config()
    checkpoints = {"execution.checkpointing.dir": f"file://{folder}/flink-checkpoints"}
    for key, value in {**_SETTINGS, **_STATE[side], **checkpoints}.items():
        config.set(key, value)
    for stream, columns in streams.items():
        kinds = columns.replace("TIMESTAMP", "TIMESTAMP(3)")
        environment.execute_sql(
            f"CREATE TABLE {stream} ({kinds}, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH "
            f"('connector' = 'filesystem', 'format' = 'csv', "
            f"'path' = 'file://{folder}/{data}/flink/{stream}')"
        )
    environment.execute_sql(
        "CREATE VIEW auction_bids AS "
        f"SELECT a.ts, a.id, a.seller, a.category, b.price {_AUCTION_BIDS}"
    )
    values = ", ".join(f"(CAST({at} AS BIGINT), 'side {at}')" for at in range(100))
    environment.execute_sql(
        f"CREATE VIEW side_input AS SELECT * FROM (VALUES {values}) AS s(id, val)"
    )
    began = time.perf_counter()
    result = environment.sql_query(sql)
    environment.create_temporary_view("result_rows", result)
    columns = ", ".join(f"c{at} {kind}" for at, kind in enumerate(_kinds(result)))
    environment.execute_sql(f"CREATE TABLE nowhere ({columns}) WITH ('connector' = 'blackhole')")
    environment.execute_sql("INSERT INTO nowhere SELECT * FROM result_rows").wait()
    return time.perf_counter() - began


def _kinds(result: Any) -> list[str]:
    """Return the SQL types of a table's columns."""
    kinds = result.get_resolved_schema().get_column_data_types()
    texts = [str(kind._j_data_type.getLogicalType().asSerializableString()) for kind in kinds]
    return [text.replace("NOT NULL", "") for text in texts]
