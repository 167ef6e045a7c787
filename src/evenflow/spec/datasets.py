"""Bundled data: bounded, the same every time, written as files that Spark replays one a batch."""

from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import pyarrow as pa
from pydantic import BaseModel, Field

from evenflow.simulation.flights import Flights
from evenflow.simulation.market import Market
from evenflow.simulation.tpch_data import Tpch
from evenflow.simulation.words import Words
from evenflow.spec.derive import model_of


class Data(Protocol):
    """What a dataset offers."""

    @property
    def streams(self) -> Mapping[str, pa.Schema]:
        """The streams and their columns."""

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """The tables and their columns."""

    def batches_of(self, stream: str) -> Iterator[pa.Table]:
        """Make the rows of a stream, batch by batch."""

    def rows_of(self, table: str) -> pa.Table:
        """Make a table."""


KINDS: Mapping[str, Any] = {"market": Market, "flights": Flights, "words": Words, "tpch": Tpch}


def _model(kind: str) -> type[BaseModel]:
    said: Any = (Literal[kind], Field(description="Which one."))
    return model_of(KINDS[kind], kind=said)


MODELS = {kind: _model(kind) for kind in KINDS}
if TYPE_CHECKING:
    Dataset = BaseModel
else:
    Dataset = Annotated[reduce(or_, MODELS.values()), Field(discriminator="kind")]


def data_of(model: BaseModel) -> Data:
    """Return the dataset that a model describes; it refuses what makes no sense."""
    said = model.model_dump()
    made: Data = KINDS[said.pop("kind")](**said)
    return made
