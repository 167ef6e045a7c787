"""A marketplace with one dominating seller: `hot_share` of all orders, the rest by Zipf's law.

The seed fixes all rows. At batch `shift` another seller begins to dominate.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from evenflow.datasets.event_time import SECOND_US, START_US, TIMESTAMP
from evenflow.datasets.zipf import draw_zipf
from evenflow.errors import InputError

_ORDERS_SCHEMA = pa.schema(
    [("ts", TIMESTAMP), ("seller", pa.string()), ("price", pa.float64()), ("qty", pa.int64())]
)


@dataclass(frozen=True, slots=True)
class Marketplace:
    """A bounded marketplace with one stream, orders.

    >>> orders = next(Marketplace(batches=1, rows=1000, hot_share=0.5).stream_batches("orders"))
    >>> bool(450 < orders["seller"].to_pylist().count("seller-0") < 550)
    True
    """

    seed: int = field(default=1, metadata={"help": "Random seed of all rows."})
    batches: int = field(default=30, metadata={"help": "Number of batches."})
    rows: int = field(default=10_000, metadata={"help": "Orders per batch."})
    seconds: float = field(default=1.0, metadata={"help": "Seconds of event time per batch."})
    sellers: int = field(default=2_000, metadata={"help": "Number of sellers."})
    hot_share: float = field(default=0.4, metadata={"help": "Share of the dominating seller."})
    skew: float = field(default=0.8, metadata={"help": "Zipf exponent of the other sellers."})
    shift: int = field(default=15, metadata={"help": "Batch at which another seller dominates."})

    def __post_init__(self) -> None:
        for name in ("batches", "rows", "sellers", "shift"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be 1 or more, got {getattr(self, name)}")
        if not self.seconds > 0 or self.skew < 0 or self.seed < 0 or not 0 <= self.hot_share <= 1:
            raise InputError(
                "seconds must be above 0, skew and seed 0 or more, hot_share from 0 to 1, got "
                f"{self.seconds}, {self.skew}, {self.seed}, {self.hot_share}"
            )

    @property
    def streams(self) -> Mapping[str, pa.Schema]:
        """The streams and their columns."""
        return {"orders": _ORDERS_SCHEMA}

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """The tables and their columns."""
        return {}

    def stream_batches(self, stream: str) -> Iterator[pa.Table]:
        """Generate the batches of a stream."""
        for batch in range(self.batches):
            yield self._make_batch(batch)

    def table_rows(self, table: str) -> pa.Table:
        """Refuse: there are no tables."""
        raise InputError(f"a marketplace has no table {table!r}")

    def _make_batch(self, batch: int) -> pa.Table:
        rng = np.random.default_rng([self.seed, batch])
        span = round(self.seconds * SECOND_US)
        times = START_US + batch * span + np.sort(rng.integers(0, span, self.rows))
        others = 2 + draw_zipf(rng, self.skew, self.sellers, self.rows)
        hot = int(batch >= self.shift)  # seller 0 first, then seller 1
        sellers = np.where(rng.random(self.rows) < self.hot_share, hot, others)
        prices = rng.lognormal(3.0, 0.5, self.rows).round(2)
        names = np.char.add("seller-", sellers.astype("U8")).astype(object)
        return pa.table(
            [
                pa.array(times).cast(TIMESTAMP),
                pa.array(names, pa.string()),
                pa.array(prices),
                pa.array(rng.integers(1, 20, self.rows)),
            ],
            schema=_ORDERS_SCHEMA,
        )
