"""Streams, SQL and folders that several benchmarks share."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

SECOND = 1_000_000
BEGIN = 1_700_000_000 * SECOND
TRADES = {"trades": "ts"}


def trades(rng: np.random.Generator, first_us: int, span_us: int, symbols: np.ndarray) -> pa.Table:
    """Rows evenly over a span of time."""
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


def zipf(rng: np.random.Generator, skew: float, keys: int, count: int) -> np.ndarray:
    weights = np.arange(1, keys + 1, dtype=float) ** -skew
    return np.asarray(rng.choice(keys, count, p=weights / weights.sum()))


JOIN = """SELECT a.symbol, a.ts, b.ts AS t2, a.price FROM trades a JOIN trades b
    ON a.symbol = b.symbol AND b.ts >= a.ts AND b.ts <= a.ts + INTERVAL 20 SECONDS"""
COUNT = """SELECT window.start AS s, symbol, count(*) AS n, sum(qty) AS q
    FROM trades GROUP BY window(ts, '10 seconds'), symbol"""


@contextmanager
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="evenflow-bench-"))
    try:
        yield made
    finally:
        shutil.rmtree(made)
