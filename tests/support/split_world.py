"""Queries of every class whose keys can be split, and rows with one hot key."""

import random
from collections.abc import Container, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
from tests.support.local_runtime import Local
from tests.support.spark_harness import BEGIN_US, SECOND

from evenflow.model import hash_keys
from evenflow.spark.driver.submission import Submission
from evenflow.spark.protocol.registry import StreamSpec

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("k", pa.string()),
        ("x", pa.int64()),
        ("price", pa.float64()),
    ]
)
STREAMS = {name: StreamSpec(SCHEMA, "ts", 4 * SECOND) for name in ("left", "right")}
KEYS = ["hot", "warm", "a", "b", "c", None]
HASHES = {key: int(hash_keys(pa.array([key], pa.string()))[0]) for key in KEYS}
WITHIN = "{1}.ts >= {0}.ts AND {1}.ts <= {0}.ts + INTERVAL 6 SECONDS"
LEFT_RIGHT = f"left l JOIN right r ON l.k = r.k AND {WITHIN.format('l', 'r')}"
SELF = f"left p JOIN left q ON p.k = q.k AND {WITHIN.format('p', 'q')}"
QUERIES = {
    "rows": "SELECT ts, k, x FROM left WHERE price > 20",
    "both": "SELECT ts, k, x FROM left UNION ALL SELECT ts, k, x FROM right",
    "counts": "SELECT window.start AS s, k, count(*) AS n, sum(x) AS t, min(price) AS low "
    "FROM left GROUP BY window(ts, '5 seconds'), k",
    "sliding": "SELECT window.start AS s, k, avg(x) AS m, max(x) AS top "
    "FROM left GROUP BY window(ts, '9 seconds', '3 seconds'), k",
    "joint": "SELECT window.start AS s, k, count(*) AS n FROM "
    "(SELECT ts, k FROM left UNION ALL SELECT ts, k FROM right) "
    "GROUP BY window(ts, '5 seconds'), k",
    "visits": "SELECT session_window.start AS s, k, count(*) AS n, max(x) AS top FROM left "
    "GROUP BY session_window(ts, '2 seconds'), k",
    "self": f"SELECT p.ts, p.k, p.x, q.x AS y, p.price FROM {SELF}",
    "other": f"SELECT q.ts, p.k, p.x, q.x AS y FROM {SELF} WHERE p.x < q.x AND q.price > 30",
    "pairs": f"SELECT l.ts, l.k, l.x, r.x AS y FROM {LEFT_RIGHT}",
    "three": f"SELECT l.ts, l.k, l.x, r.x AS y, m.x AS z FROM {LEFT_RIGHT} "
    f"JOIN left m ON m.k = l.k AND {WITHIN.format('l', 'm')} WHERE m.price > 40",
    "either": f"SELECT l.ts, l.k, l.x, r.x AS y FROM {LEFT_RIGHT} "
    f"UNION ALL SELECT l.ts, l.k, l.x, r.x AS y FROM {LEFT_RIGHT} WHERE l.x > r.x",
    "kept": f"SELECT l.ts, l.k, l.x, r.x AS y FROM {LEFT_RIGHT.replace('JOIN', 'LEFT JOIN')}",
    "unmet": f"SELECT l.ts, l.k, l.x FROM {LEFT_RIGHT.replace('JOIN', 'LEFT ANTI JOIN')} "
    "AND r.x > l.x",
    "joined": f"SELECT window.start AS s, k, count(*) AS n, sum(y) AS t FROM "
    f"(SELECT l.ts, l.k, r.x AS y FROM {LEFT_RIGHT}) GROUP BY window(ts, '5 seconds'), k",
    "met": f"SELECT window.start AS s, k, count(*) AS n, max(y) AS top FROM "
    f"(SELECT q.ts, p.k, p.x - q.x AS y FROM {SELF}) GROUP BY window(ts, '4 seconds'), k",
    "most": "SELECT window(w.end, '20 seconds').start AS s, k, max(n) AS n FROM (SELECT "
    "window(ts, '5 seconds') AS w, k, count(*) AS n FROM left GROUP BY 1, 2) "
    "GROUP BY window(w.end, '20 seconds'), k",
}
TEMPLATES = {
    "above": "SELECT ts, k, price FROM left WHERE k = :k AND price > :least",
    "alarms": "SELECT window.start AS s, k, count(*) AS n FROM left WHERE k = :k "
    "AND price > :least GROUP BY window(ts, '5 seconds'), k",
}
SESSIONS = Submission(
    "operator", "sessions", "tests.support.operators:Sessions", ("k",), streams=("left",)
)
SUBMISSIONS = [
    SESSIONS,
    *(Submission("query", name, sql, ("k",)) for name, sql in QUERIES.items()),
    *(Submission("template", name, sql, ("k",)) for name, sql in TEMPLATES.items()),
    Submission("query", "dear", "SELECT ts, k, x FROM left WHERE price > 50", None, True),
    Submission("query", "gaps", f"SELECT p.ts, p.k, q.x - p.x AS g FROM {SELF}", ("k",), True),
    Submission(
        "query", "again",
        f"SELECT p.ts, p.k, p.x, q.g FROM dear p JOIN gaps q ON p.k = q.k AND "
        f"{WITHIN.format('p', 'q')}", ("k",),
    ),
]  # fmt: skip
NAMES = [submission.name for submission in SUBMISSIONS]
KEYED = [submission.name for submission in SUBMISSIONS if submission.key]
Rows = Mapping[str, pa.Table]


def any_rows(rng: np.random.Generator, count: int, first: int = 0) -> pa.Table:
    """Rows of few keys, one of them with most rows, in about the order of their times."""
    times = BEGIN_US + first * SECOND + np.sort(rng.integers(0, 40 * SECOND, count))
    times -= rng.integers(0, 2 * SECOND, count)
    keys = rng.choice(len(KEYS), count, p=[0.5, 0.15, 0.1, 0.1, 0.05, 0.1])
    return pa.table(
        {
            "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "k": pa.array([KEYS[key] for key in keys], pa.string()),
            "x": rng.integers(0, 50, count),
            "price": rng.integers(0, 100, count).astype(float),
        },
        schema=SCHEMA,
    )


def any_batches(rng: np.random.Generator, number: int) -> list[Rows]:
    streams = {name: any_rows(rng, count) for name, count in (("left", 70), ("right", 50))}
    cuts = {n: np.sort(rng.integers(0, len(t) + 1, number - 1)) for n, t in streams.items()}
    batches = [
        {
            name: table.slice(begin, end - begin)
            for name, table in streams.items()
            for begin, end in [([0, *cuts[name]][at], [*cuts[name], len(table)][at])]
        }
        for at in range(number)
    ]
    last = {name: any_rows(rng, 1, first=3600) for name in streams}
    return [*batches, last]


def host(
    folder: Path,
    workers: int,
    chance: random.Random | None = None,
    names: Container[str] = NAMES,
) -> Local:
    """Host the named queries, templates with their subscriptions."""
    wanted = [
        {"subscription": f"{key}{least}", "k": key, "least": float(least)}
        for key in KEYS[:-1]
        for least in (10, 60)
    ]
    subscribed = {name: wanted for name in TEMPLATES if name in names}
    hosted = [submission for submission in SUBMISSIONS if submission.name in names]
    return Local(folder, STREAMS, hosted, workers=workers, subscribed=subscribed, chance=chance)
