"""TPC-H as a dataset: the streams and tables of the continuous Q5, cut into batches."""

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from evenflow.datasets import tpch_q5
from evenflow.datasets.event_time import TIMESTAMP
from evenflow.errors import InputError

_MONEY_TYPE = pa.decimal128(15, 2)
_ORDERS_SCHEMA = pa.schema(
    [("ts", TIMESTAMP), (tpch_q5.ORDER_KEY, pa.int64()), ("o_custkey", pa.int64())]
)
_LINEITEM_SCHEMA = pa.schema(
    [
        ("ts", TIMESTAMP),
        (tpch_q5.ORDER_KEY, pa.int64()),
        ("l_suppkey", pa.int64()),
        ("l_extendedprice", _MONEY_TYPE),
        ("l_discount", _MONEY_TYPE),
    ]
)
_INT64, _STRING = pa.int64(), pa.string()


@dataclass(frozen=True, slots=True)
class Tpch:
    """TPC-H Q5: streams orders, lineitem; tables customer, supplier, nation, region."""

    scale: float = field(
        default=0.01, metadata={"help": "Scale factor; 1 has 6 million line items."}
    )
    batches: int = field(
        default=20, metadata={"help": "Number of batches, at most an hour of event time."}
    )
    seconds: int = field(default=60, metadata={"help": "Seconds of event time per batch."})
    skew: float = field(
        default=tpch_q5.DEFAULT_SKEW, metadata={"help": "Zipf exponent of foreign keys."}
    )
    seed: int = field(default=1, metadata={"help": "Random seed of the foreign keys."})

    def __post_init__(self) -> None:
        if not self.scale > 0 or min(self.batches, self.seconds) < 1 or self.seed < 0:
            raise InputError(
                "scale must be above 0, batches and seconds 1 or more, seed 0 or more, got "
                f"{self.scale}, {self.batches}, {self.seconds}, {self.seed}"
            )
        if not np.isfinite(self.skew) or self.skew < 0:
            raise InputError(f"skew must be 0 or more, got {self.skew}")

    @property
    def streams(self) -> Mapping[str, pa.Schema]:
        """The streams and their columns."""
        return {"orders": _ORDERS_SCHEMA, "lineitem": _LINEITEM_SCHEMA}

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """The tables and their columns."""
        return {
            "customer": pa.schema([("c_custkey", _INT64), ("c_nationkey", _INT64)]),
            "supplier": pa.schema([("s_suppkey", _INT64), ("s_nationkey", _INT64)]),
            "nation": pa.schema(
                [("n_nationkey", _INT64), ("n_name", _STRING), ("n_regionkey", _INT64)]
            ),
            "region": pa.schema([("r_regionkey", _INT64), ("r_name", _STRING)]),
        }

    def stream_batches(self, stream: str) -> Iterator[pa.Table]:
        """Return the batches of a stream, of equal time."""
        streams = tpch_q5.skewed_streams(
            _generated_tables(self.scale), np.random.default_rng(self.seed), skew=self.skew
        )
        for rows in tpch_q5.cut_by_time(streams[stream], self.seconds)[: self.batches]:
            yield rows.cast(self.streams[stream])

    def table_rows(self, table: str) -> pa.Table:
        """Return the rows of a table."""
        return _generated_tables(self.scale)[table].cast(self.tables[table])


@cache
def _generated_tables(scale: float) -> dict[str, pa.Table]:
    with tempfile.TemporaryDirectory() as folder:
        tpch_q5.generate_tables(Path(folder), scale)
        return tpch_q5.read_tables(Path(folder))
