"""Nexmark (Tucker et al., 2002): an auction site's persons, auctions and bids, with its queries.

Events arrive at a steady rate, 1 person to 3 auctions to 46 bids, as in the generator of Apache
Beam; bids go to recent auctions, half of them to a hot one. The seed fixes all events.

Differences: categories and states are uniform, and texts are short. The queries have the time
bounds and windows that a continuous query needs: q3 joins an auction with a person of the last
minute, q4, q9 and q20 close an auction after 20 seconds, q18 and q19 are per window, and windows
last seconds, so that small data fills many of them. q12 has windows of event time. q6, the average
of a seller's last ten auctions, takes these from the last 40 to 60 seconds, in the order of their
beginning.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evenflow.datasets.event_time import SECOND_US, START_US, TIMESTAMP
from evenflow.errors import InputError

EVENT_SHARES = (1, 3, 46)  # persons, auctions, bids of 50 events
FIRST_ID = 1_000
CATEGORIES = 5
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = ("Phoenix", "Los Angeles", "Boise", "Portland", "Seattle", "Cheyenne")

SCHEMAS: Mapping[str, pa.Schema] = {
    "person": pa.schema(
        [
            ("ts", TIMESTAMP),
            ("id", pa.int64()),
            ("name", pa.string()),
            ("city", pa.string()),
            ("state", pa.string()),
        ]
    ),
    "auction": pa.schema(
        [
            ("ts", TIMESTAMP),
            ("id", pa.int64()),
            ("seller", pa.int64()),
            ("category", pa.int32()),
            ("initial_bid", pa.int64()),
            ("expires", TIMESTAMP),
        ]
    ),
    "bid": pa.schema(
        [
            ("ts", TIMESTAMP),
            ("auction", pa.int64()),
            ("bidder", pa.int64()),
            ("price", pa.int64()),
            ("channel", pa.string()),
            ("url", pa.string()),
        ]
    ),
}
CHANNELS = ("apple", "Google", "facebook", "baidu", "channel-7", "channel-42")
SIDE_INPUT = pa.table({"key": range(100), "value": [f"side {key}" for key in range(100)]})

_BID_COUNTS_SQL = """SELECT window AS w, auction, count(*) AS num FROM bid
GROUP BY window(ts, '10 seconds', '2 seconds'), auction"""

_AUCTION_BIDS_SQL = """FROM auction a JOIN bid b ON a.id = b.auction
AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 20 SECONDS AND b.ts <= a.expires"""
_DAY_SQL = "to_date(ts)"
_RANKS = {"low": "price < 10000", "high": "price >= 1000000"}
_BID_STATISTICS_SQL = ", ".join(
    f"count({counted}){where} AS {name}{suffix}"
    for counted, name in (
        ("*", "bids"),
        ("DISTINCT bidder", "bidders"),
        ("DISTINCT auction", "lots"),
    )
    for suffix, where in (("", ""), *((f"_{r}", f" FILTER (WHERE {w})") for r, w in _RANKS.items()))
)

QUERIES: Mapping[str, str] = {
    "q0": "SELECT ts, auction, bidder, price FROM bid",
    "q1": "SELECT ts, auction, bidder, 0.908 * price AS price FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p
ON a.seller = p.id AND a.ts BETWEEN p.ts AND p.ts + INTERVAL 60 SECONDS
WHERE a.category = 3 AND p.state IN ('OR', 'ID', 'CA')""",
    "q4": """SELECT w.end AS closed, category, avg(final) AS price FROM (
SELECT window AS w, a.id, a.category, max(b.price) AS final FROM auction a JOIN bid b
ON a.id = b.auction AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 20 SECONDS AND b.ts <= a.expires
GROUP BY window(a.ts, '20 seconds'), a.id, a.category) GROUP BY w, category""",
    "q5": f"""WITH counts AS ({_BID_COUNTS_SQL}),
most AS (SELECT w, max(num) AS top FROM counts GROUP BY w)
SELECT counts.w.start AS start, counts.auction, counts.num FROM counts JOIN most
ON counts.w = most.w AND counts.num >= most.top""",  # noqa: S608 - constants only
    "q6": f"""SELECT seller, id, price FROM (
SELECT w, seller, id, ts, avg(final) OVER (PARTITION BY w, seller ORDER BY ts, id
ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS price FROM (
SELECT window AS w, a.seller, a.id, a.ts, max(b.price) AS final {_AUCTION_BIDS_SQL}
GROUP BY window(a.ts, '60 seconds', '20 seconds'), a.seller, a.id, a.ts))
WHERE ts >= w.end - INTERVAL 20 SECONDS""",  # noqa: S608 - constants only
    "q7": """SELECT b.ts, b.auction, b.price, b.bidder FROM bid b JOIN (
SELECT window.start AS start, window.end AS end, max(price) AS top FROM bid
GROUP BY window(ts, '10 seconds')) w
ON b.price = w.top AND b.ts >= w.start AND b.ts < w.end""",
    "q8": """SELECT p.id, p.name, p.w.start AS start FROM (
SELECT window AS w, id, name FROM person GROUP BY window(ts, '10 seconds'), id, name) p JOIN (
SELECT window AS w, seller FROM auction GROUP BY window(ts, '10 seconds'), seller) a
ON p.id = a.seller AND p.w = a.w""",
    "q9": f"""SELECT id, seller, category, bidder, price, bid_ts FROM (
SELECT a.id, a.seller, a.category, b.bidder, b.price, b.ts AS bid_ts, row_number() OVER (
PARTITION BY a.id, a.ts ORDER BY b.price DESC, b.ts, b.bidder) AS place {_AUCTION_BIDS_SQL})
WHERE place = 1""",  # noqa: S608 - constants only
    "q10": """SELECT auction, bidder, price, ts, date_format(ts, 'yyyy-MM-dd') AS day,
date_format(ts, 'HH:mm') AS minute FROM bid""",
    "q11": """SELECT bidder, session_window.start AS start, session_window.end AS end,
count(*) AS bids FROM bid GROUP BY bidder, session_window(ts, '10 seconds')""",
    "q12": """SELECT bidder, window.start AS start, count(*) AS bids FROM bid
GROUP BY bidder, window(ts, '10 seconds')""",
    "q13": """SELECT b.auction, b.bidder, b.price, b.ts, s.value FROM bid b JOIN side_input s
ON b.auction % 100 = s.key""",
    "q14": """SELECT auction, bidder, 0.908 * price AS price, CASE WHEN hour(ts) BETWEEN 8 AND 18
THEN 'day' WHEN hour(ts) <= 6 OR hour(ts) >= 20 THEN 'night' ELSE 'other' END AS time, ts,
length(url) - length(replace(url, 'c', '')) AS c_counts FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": f"""SELECT {_DAY_SQL} AS day, {_BID_STATISTICS_SQL}
FROM bid GROUP BY {_DAY_SQL}""",  # noqa: S608 - constants only
    "q16": f"""SELECT channel, {_DAY_SQL} AS day, max(date_format(ts, 'HH:mm')) AS minute,
{_BID_STATISTICS_SQL} FROM bid GROUP BY channel, {_DAY_SQL}""",  # noqa: S608 - constants only
    "q17": f"""SELECT auction, {_DAY_SQL} AS day, count(*) AS bids,
count(*) FILTER (WHERE price < 10000) AS low, count(*) FILTER (WHERE price >= 1000000) AS high,
min(price) AS least, max(price) AS most, avg(price) AS mean, sum(price) AS total
FROM bid GROUP BY auction, {_DAY_SQL}""",  # noqa: S608 - constants only
    "q18": """SELECT auction, bidder, price, ts FROM (SELECT *, row_number() OVER (
PARTITION BY window(ts, '10 seconds'), bidder, auction ORDER BY ts DESC, price) AS place FROM bid)
WHERE place = 1""",
    "q19": """SELECT auction, bidder, price, ts, place FROM (SELECT *, row_number() OVER (
PARTITION BY window(ts, '10 seconds'), auction ORDER BY price DESC, ts, bidder) AS place FROM bid)
WHERE place <= 10""",
    "q20": f"""SELECT b.auction, b.bidder, b.price, b.ts, a.seller, a.expires {_AUCTION_BIDS_SQL}
WHERE a.category = 3""",
    "q21": """SELECT auction, bidder, price, channel, CASE lower(channel) WHEN 'apple' THEN '0'
WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id FROM bid
WHERE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) <> '' OR
lower(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1,
split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3 FROM bid""",
}


def generate_events(seed: int, events: int, per_second: int = 1_000) -> dict[str, pa.Table]:
    """Generate events as one table per stream, in order of time.

    >>> {name: len(rows) for name, rows in generate_events(1, events=500).items()}
    {'person': 10, 'auction': 30, 'bid': 460}
    """
    if events < 0 or per_second < 1:
        raise InputError(
            f"events must be 0 or more and per_second 1 or more, got {events} and {per_second}"
        )
    rng = np.random.default_rng(seed)
    number = np.arange(events)
    times = START_US + number * SECOND_US // per_second
    kind = np.searchsorted(np.cumsum(EVENT_SHARES), number % sum(EVENT_SHARES), side="right")
    persons = np.cumsum(kind == 0)  # existing at each event
    auctions = np.cumsum(kind == 1)
    return {
        "person": _generate_persons(rng, times[kind == 0]),
        "auction": _generate_auctions(rng, times[kind == 1], persons[kind == 1]),
        "bid": _generate_bids(rng, times[kind == 2], auctions[kind == 2], persons[kind == 2]),
    }


def _generate_persons(rng: np.random.Generator, times: NDArray[np.int64]) -> pa.Table:
    count = len(times)
    state = rng.integers(0, len(STATES), count)
    columns = [
        _to_timestamps(times),
        pa.array(FIRST_ID + np.arange(count)),
        pa.array([f"person {i}" for i in range(count)], pa.string()),
        pa.array(CITIES).take(pa.array(state)),
        pa.array(STATES).take(pa.array(state)),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMAS["person"])


def _generate_auctions(
    rng: np.random.Generator, times: NDArray[np.int64], persons: NDArray[np.int64]
) -> pa.Table:
    count = len(times)
    columns = [
        _to_timestamps(times),
        pa.array(FIRST_ID + np.arange(count)),
        pa.array(FIRST_ID + _draw_recent(rng, persons, 20)),
        pa.array(rng.integers(0, CATEGORIES, count), pa.int32()),
        pa.array(rng.integers(1, 1_000, count)),
        _to_timestamps(times + rng.integers(2 * SECOND_US, 30 * SECOND_US, count)),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMAS["auction"])


def _generate_bids(
    rng: np.random.Generator,
    times: NDArray[np.int64],
    auctions: NDArray[np.int64],
    persons: NDArray[np.int64],
) -> pa.Table:
    count = len(times)
    hot = (np.maximum(auctions, 1) - 1) // 100 * 100  # every hundredth auction is the hot one
    chosen = np.where(rng.random(count) < 0.5, hot, _draw_recent(rng, auctions, 100))
    columns = [
        _to_timestamps(times),
        pa.array(FIRST_ID + chosen),
        pa.array(FIRST_ID + _draw_recent(rng, persons, 1_000)),
        pa.array((10.0 ** (rng.random(count) * 6) * 100).astype(np.int64)),
        pa.array(CHANNELS).take(pa.array(chosen % len(CHANNELS))),
        _urls(chosen),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMAS["bid"])


def _urls(auctions: NDArray[np.int64]) -> pa.Array:
    """Return an address for each bid; two thirds of them name the channel."""
    paths = [f"https://www.nexmark.com/item/c{at % 7}/{at}" for at in range(60)]
    named = [f"{path}?q=1&channel_id={at}" if at % 3 else path for at, path in enumerate(paths)]
    return pa.array(named).take(pa.array(auctions % len(named)))


def _draw_recent(
    rng: np.random.Generator, known: NDArray[np.int64], window: int
) -> NDArray[np.int64]:
    """Draw one of the last `window` existing ids."""
    known = np.maximum(known, 1)
    back = (rng.random(len(known)) * np.minimum(known, window)).astype(np.int64)
    return known - 1 - back


def _to_timestamps(times: NDArray[np.int64]) -> pa.Array:
    return pa.array(times).cast(TIMESTAMP)
