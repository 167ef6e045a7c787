"""Bundled data: bounded, the same every time, written as files that Spark replays one a batch."""

from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import pyarrow as pa
from pydantic import BaseModel, Field

from evenflow.datasets.flights import Flights
from evenflow.datasets.market import Market
from evenflow.datasets.tpch import Tpch
from evenflow.datasets.words import Words
from evenflow.spec.dataclass_model import model_from_dataclass


class BundledDataset(Protocol):
    """What a dataset offers."""

    @property
    def streams(self) -> Mapping[str, pa.Schema]:
        """The streams and their columns."""

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """The tables and their columns."""

    def stream_batches(self, stream: str) -> Iterator[pa.Table]:
        """Make the rows of a stream, batch by batch."""

    def table_rows(self, table: str) -> pa.Table:
        """Make a table."""


DATASET_CLASSES: Mapping[str, Any] = {
    "market": Market,
    "flights": Flights,
    "words": Words,
    "tpch": Tpch,
}


def _dataset_model(kind: str) -> type[BaseModel]:
    said: Any = (Literal[kind], Field(description="Which one."))
    return model_from_dataclass(DATASET_CLASSES[kind], kind=said)


DATASET_MODELS = {kind: _dataset_model(kind) for kind in DATASET_CLASSES}
if TYPE_CHECKING:
    DatasetSpec = BaseModel
else:
    DatasetSpec = Annotated[reduce(or_, DATASET_MODELS.values()), Field(discriminator="kind")]


def build_dataset(model: BaseModel) -> BundledDataset:
    """Return the dataset that a model describes; it refuses what makes no sense."""
    said = model.model_dump()
    made: BundledDataset = DATASET_CLASSES[said.pop("kind")](**said)
    return made
