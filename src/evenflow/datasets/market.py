"""A small stock exchange: trades, quotes and news of symbols, some far more popular than others.

The seed fixes all rows, and each batch can be generated independently of the others. Other symbols
become popular every `shift` batches. Quotes and news burst in turn, half a `period` apart, so the
load of queries over one falls while that of the other rises.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from evenflow.datasets.event_time import SECOND_US, START_US, TIMESTAMP
from evenflow.datasets.zipf import draw_zipf
from evenflow.errors import InputError
from evenflow.model.arrays import Indices

SECTORS = ("banks", "chips", "energy", "food", "health", "media", "metals", "travel")

_TRADES_SCHEMA = pa.schema(
    [("ts", TIMESTAMP), ("symbol", pa.string()), ("price", pa.float64()), ("qty", pa.int64())]
)
_QUOTES_SCHEMA = pa.schema(
    [("ts", TIMESTAMP), ("symbol", pa.string()), ("bid", pa.float64()), ("ask", pa.float64())]
)
_NEWS_SCHEMA = pa.schema(
    [("ts", TIMESTAMP), ("symbol", pa.string()), ("sector", pa.string()), ("mood", pa.float64())]
)
_SECTORS_SCHEMA = pa.schema([("symbol", pa.string()), ("sector", pa.string())])
_LIMITS_SCHEMA = pa.schema(
    [("subscription", pa.string()), ("symbol", pa.string()), ("above", pa.float64())]
)


@dataclass(frozen=True, slots=True)
class Market:
    """A bounded market: streams trades, quotes, news; tables sectors, limits.

    >>> market = Market(batches=2, rows=100)
    >>> [len(rows) for rows in market.stream_batches("trades")]
    [100, 100]
    """

    seed: int = field(default=1, metadata={"help": "Random seed of all rows."})
    batches: int = field(default=60, metadata={"help": "Number of batches."})
    rows: int = field(default=5_000, metadata={"help": "Trades per batch."})
    seconds: float = field(default=1.0, metadata={"help": "Seconds of event time per batch."})
    symbols: int = field(default=2_000, metadata={"help": "Number of symbols."})
    skew: float = field(default=0.9, metadata={"help": "Zipf exponent of their popularity."})
    shift: int = field(default=20, metadata={"help": "Batches until other symbols become popular."})
    period: int = field(default=12, metadata={"help": "Batches from one burst to the next."})
    limits: int = field(default=2_000, metadata={"help": "Rows of the table limits."})

    def __post_init__(self) -> None:
        for name in ("batches", "rows", "symbols", "shift", "period"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be 1 or more, got {getattr(self, name)}")
        if not self.seconds > 0 or self.skew < 0 or self.limits < 0 or self.seed < 0:
            raise InputError(
                "seconds must be above 0; skew, limits and seed 0 or more, got "
                f"{self.seconds}, {self.skew}, {self.limits}, {self.seed}"
            )

    @property
    def streams(self) -> Mapping[str, pa.Schema]:
        """The streams and their columns."""
        return {"trades": _TRADES_SCHEMA, "quotes": _QUOTES_SCHEMA, "news": _NEWS_SCHEMA}

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """The tables and their columns."""
        return {"sectors": _SECTORS_SCHEMA, "limits": _LIMITS_SCHEMA}

    def stream_batches(self, stream: str) -> Iterator[pa.Table]:
        """Generate the batches of a stream."""
        for batch in range(self.batches):
            yield self._make_batch(stream, batch)

    def table_rows(self, table: str) -> pa.Table:
        """Generate the rows of a table."""
        if table == "sectors":
            symbols = np.arange(self.symbols)
            sectors = np.asarray(SECTORS, dtype=object)[symbols % len(SECTORS)]
            return pa.table([_symbol_names(symbols), pa.array(sectors)], schema=_SECTORS_SCHEMA)
        rng = np.random.default_rng([self.seed, 9])
        symbols = self._draw_symbols(rng, self.limits, 0)
        above = self._base_prices(symbols) * rng.uniform(1.03, 1.12, self.limits)
        names = pa.array([f"limit-{at}" for at in range(self.limits)], pa.string())
        return pa.table(
            [names, _symbol_names(symbols), pa.array(above.round(2))], schema=_LIMITS_SCHEMA
        )

    def _make_batch(self, stream: str, batch: int) -> pa.Table:
        number = list(self.streams).index(stream)
        rng = np.random.default_rng([self.seed, number, batch])
        count = self._row_count(stream, batch)
        span = round(self.seconds * SECOND_US)
        times = START_US + batch * span + np.sort(rng.integers(0, span, count))
        symbols = self._draw_symbols(rng, count, batch)
        price = (self._base_prices(symbols) * rng.normal(1.0, 0.02, count)).round(2)
        ts, names = pa.array(times).cast(TIMESTAMP), _symbol_names(symbols)
        if stream == "trades":
            qty = pa.array(rng.integers(1, 500, count))
            return pa.table([ts, names, pa.array(price), qty], schema=_TRADES_SCHEMA)
        if stream == "quotes":
            ask = (price * (1 + rng.exponential(0.001, count))).round(4)
            return pa.table([ts, names, pa.array(price), pa.array(ask)], schema=_QUOTES_SCHEMA)
        sectors = pa.array(np.asarray(SECTORS, dtype=object)[symbols % len(SECTORS)], pa.string())
        mood = pa.array(rng.uniform(-1, 1, count).round(3))
        return pa.table([ts, names, sectors, mood], schema=_NEWS_SCHEMA)

    def _row_count(self, stream: str, batch: int) -> int:
        """Return the size of a batch: trades are steady, a burst lasts a quarter of the period."""
        if stream == "trades":
            return self.rows
        half = self.period / 2 if stream == "news" else 0
        bursting = (batch + half) % self.period < self.period / 4
        return self.rows if bursting else max(1, self.rows // 5)

    def _draw_symbols(self, rng: np.random.Generator, count: int, batch: int) -> Indices:
        """Draw Zipf-distributed symbols; every shift assigns the ranks to other symbols."""
        ranks = draw_zipf(rng, self.skew, self.symbols, count)
        shifted = np.random.default_rng([self.seed, 7, batch // self.shift])
        drawn: Indices = shifted.permutation(self.symbols)[ranks]
        return drawn

    def _base_prices(self, symbols: Indices) -> np.ndarray:
        prices = np.random.default_rng([self.seed, 8]).lognormal(4.0, 0.8, self.symbols)
        return np.asarray(prices[symbols])


def _symbol_names(symbols: Indices) -> pa.Array:
    """Return names of four letters: AAAA, AAAB, ..."""
    digits = [symbols // 26**place % 26 for place in (3, 2, 1, 0)]
    letters = np.stack(digits, axis=1).astype(np.uint8) + ord("A")
    return pa.array(letters.view("S4").ravel().astype("U4").astype(object), pa.string())
