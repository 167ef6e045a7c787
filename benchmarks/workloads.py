"""Streams, queries and folders shared by several benchmarks."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

from evenflow import Flow

SECOND = 1_000_000
BEGIN = 1_700_000_000 * SECOND
TRADES = {"trades": "ts"}


def trades(rng: np.random.Generator, first_us: int, span_us: int, symbols: np.ndarray) -> pa.Table:
    """Return a trade per symbol, with times spread evenly over a span."""
    count = len(symbols)
    times = first_us + (np.arange(count) * span_us) // max(1, count)
    return pa.table(
        {
            "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "symbol": pa.array(np.char.add("s", symbols.astype(str))),
            "price": pa.array(rng.random(count) * 100),
            "qty": pa.array(rng.integers(0, 100, count)),
        }
    )


JOIN = """SELECT a.symbol, a.ts, b.ts AS t2, a.price FROM trades a JOIN trades b
    ON a.symbol = b.symbol AND b.ts >= a.ts AND b.ts <= a.ts + INTERVAL 20 SECONDS"""
COUNT = """SELECT window.start AS s, symbol, count(*) AS n, sum(qty) AS q
    FROM trades GROUP BY window(ts, '10 seconds'), symbol"""


@contextmanager
def temporary_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="evenflow-bench-") as name:
        yield Path(name)


def add_query(flow: Flow, sql: str, key: str) -> None:
    flow.query("q", sql, key=key)
