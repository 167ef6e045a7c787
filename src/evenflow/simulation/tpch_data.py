"""TPC-H as a dataset: the streams and tables of the continuous Q5, cut into batches."""

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from evenflow.errors import InputError
from evenflow.simulation import tpch

_TIME = pa.timestamp("us", "UTC")
_MONEY = pa.decimal128(15, 2)
_ORDERS = pa.schema([("ts", _TIME), (tpch.KEY, pa.int64()), ("o_custkey", pa.int64())])
_LINES = pa.schema(
    [
        ("ts", _TIME),
        (tpch.KEY, pa.int64()),
        ("l_suppkey", pa.int64()),
        ("l_extendedprice", _MONEY),
        ("l_discount", _MONEY),
    ]
)
_NUMBER, _TEXT = pa.int64(), pa.string()


@dataclass(frozen=True, slots=True)
class Tpch:
    """TPC-H Q5: streams orders, lineitem; tables customer, supplier, nation, region."""

    scale: float = field(default=0.01, metadata={"help": "Scale factor: 1 has 6 million lines."})
    batches: int = field(default=20, metadata={"help": "How many batches, at most an hour."})
    seconds: int = field(default=60, metadata={"help": "Event time that a batch covers."})
    skew: float = field(default=tpch.SKEW, metadata={"help": "Zipf's exponent of foreign keys."})
    seed: int = field(default=1, metadata={"help": "Of the foreign keys."})

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
        return {"orders": _ORDERS, "lineitem": _LINES}

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """The tables and their columns."""
        return {
            "customer": pa.schema([("c_custkey", _NUMBER), ("c_nationkey", _NUMBER)]),
            "supplier": pa.schema([("s_suppkey", _NUMBER), ("s_nationkey", _NUMBER)]),
            "nation": pa.schema(
                [("n_nationkey", _NUMBER), ("n_name", _TEXT), ("n_regionkey", _NUMBER)]
            ),
            "region": pa.schema([("r_regionkey", _NUMBER), ("r_name", _TEXT)]),
        }

    def batches_of(self, stream: str) -> Iterator[pa.Table]:
        """Cut a stream into batches of equal time."""
        made = tpch.streams(_tables(self.scale), np.random.default_rng(self.seed), skew=self.skew)
        for rows in tpch.cut(made[stream], self.seconds)[: self.batches]:
            yield rows.cast(self.streams[stream])

    def rows_of(self, table: str) -> pa.Table:
        """Return a table."""
        return _tables(self.scale)[table].cast(self.tables[table])


@cache
def _tables(scale: float) -> dict[str, pa.Table]:
    with tempfile.TemporaryDirectory() as folder:
        tpch.generate(Path(folder), scale)
        return tpch.read(Path(folder))
