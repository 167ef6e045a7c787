"""Bundled, seeded datasets that specifications and tests use. All data is bounded."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import pyarrow as pa

from evenflow.datasets.flights import Flights
from evenflow.datasets.market import Market
from evenflow.datasets.marketplace import Marketplace
from evenflow.datasets.tpch import Tpch
from evenflow.datasets.words import Words


class Dataset(Protocol):
    """Generates streams and reference tables; the same settings give the same rows."""

    @property
    def streams(self) -> Mapping[str, pa.Schema]:
        """The streams and their columns."""

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """The tables and their columns."""

    def stream_batches(self, stream: str) -> Iterator[pa.Table]:
        """Generate the rows of a stream, batch by batch."""

    def table_rows(self, table: str) -> pa.Table:
        """Generate a table."""


# The `kind` of a dataset in a specification.
DATASETS: Mapping[str, Any] = {
    "market": Market,
    "marketplace": Marketplace,
    "flights": Flights,
    "words": Words,
    "tpch": Tpch,
}

__all__ = ["DATASETS", "Dataset"]
