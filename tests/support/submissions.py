"""Queries and templates of every kind over one stream, and random plans for them."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tests.support.local_runtime import Local
from tests.support.spark_harness import BEGIN_US, SECOND, trades

from evenflow.model import KeySplit, Plan, RoutingTable, hash_keys
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.registry import StreamSpec
from evenflow.storage.file_store import FileStore

STREAMS = {"trades": StreamSpec(trades(np.random.default_rng(0), 1).schema, "ts", 5 * SECOND)}
SUBMISSIONS = [
    Submission(
        "query", "dear", "SELECT ts, symbol, price FROM trades WHERE price > 50", None, True
    ),
    Submission(
        "query",
        "sums",
        """SELECT window.start AS s, symbol, count(*) AS n, sum(qty) AS q
        FROM trades GROUP BY window(ts, '10 seconds'), symbol""",
        ("symbol",),
        True,
    ),
    Submission(
        "query",
        "pairs",
        """SELECT a.symbol, a.ts AS t1, b.ts AS t2, a.qty
        FROM trades a JOIN trades b ON a.symbol = b.symbol
        AND b.ts >= a.ts AND b.ts <= a.ts + INTERVAL 8 SECONDS""",
        ("symbol",),
    ),
    Submission(
        "query",
        "wide",
        """SELECT window.start AS s, count(*) AS n
        FROM trades GROUP BY window(ts, '20 seconds', '10 seconds')""",
    ),
    Submission(
        "query",
        "dearest",
        """SELECT window.start AS s, symbol, max(price) AS top
        FROM dear GROUP BY window(ts, '15 seconds'), symbol""",
        ("symbol",),
    ),
    Submission("query", "busy", "SELECT s, symbol, n FROM sums WHERE n > 2"),
    Submission(
        "query",
        "lows",
        """SELECT window.start AS s, symbol, min(price) AS low
        FROM trades GROUP BY window(ts, '10 seconds'), symbol""",
    ),
    Submission(
        "template",
        "alarms",
        """SELECT window.start AS s, symbol, count(*) AS n
        FROM trades WHERE symbol = :symbol AND price > :limit
        GROUP BY window(ts, '10 seconds'), symbol""",
        ("symbol",),
    ),
    Submission(
        "template",
        "above",
        """SELECT window.start AS s, count(*) AS n
        FROM trades WHERE price > :limit GROUP BY window(ts, '10 seconds')""",
    ),
]
SUBSCRIBED: dict[str, Any] = {
    "alarms": [
        {"subscription": f"{symbol}{limit}", "symbol": symbol, "limit": float(limit)}
        for symbol in ("a", "b", "c", "d", "e'")
        for limit in (5, 60)
    ],
    "above": [{"subscription": f"{limit}", "limit": float(limit)} for limit in (5, 60)],
}
NAMES = [submission.name for submission in SUBMISSIONS]
KEYED = [submission.name for submission in SUBMISSIONS if submission.key]
SYMBOLS = ["a", "b", "c", "d", "e'", None]


def last_row() -> pa.Table:
    """A row of another hour: the watermark passes all windows before it."""
    row = trades(np.random.default_rng(0), 1)
    late = pa.array([BEGIN_US + 3600 * SECOND]).cast(pa.timestamp("us", "UTC"))
    return row.set_column(0, "ts", late)


def any_plan(chance: random.Random, workers: int) -> Plan:
    """Anything goes: other owners, drained workers, a whole query spread by its inferred key."""
    keyed = [*KEYED, *chance.sample(["lows"], chance.randrange(2))]
    drained = frozenset(chance.sample(range(workers), chance.randrange(workers)))
    active = [worker for worker in range(workers) if worker not in drained]
    placement = {name: chance.choice(active) for name in NAMES if name not in keyed}
    symbols = chance.sample(SYMBOLS, chance.randrange(len(SYMBOLS)))
    hashes = hash_keys(pa.array(symbols, pa.string()))
    owners = {name: [chance.choice(active) for _ in symbols] for name in keyed}
    tables = {
        name: RoutingTable.from_entries(hashes, at).with_splits(any_splits(chance, active, name))
        for name, at in owners.items()
    }
    return Plan(workers, placement, tables, drained)


def any_splits(chance: random.Random, active: list[int], query: str) -> list[KeySplit]:
    """Some keys of a query shared by two or more workers."""
    if len(active) < 2:
        return []
    shared = chance.sample(SYMBOLS, chance.randrange(3))
    stream = "dear" if query == "dearest" else "trades"
    return [
        KeySplit(int(key), tuple(chance.sample(active, chance.randint(2, len(active)))), stream)
        for key in hash_keys(pa.array(shared, pa.string()))
    ]


def hosting_all(
    place: Path | str | FileStore, workers: int = 3, chance: random.Random | None = None
) -> Local:
    """Host all submissions, the templates with their subscriptions."""
    return Local(place, STREAMS, SUBMISSIONS, workers=workers, subscribed=SUBSCRIBED, chance=chance)
