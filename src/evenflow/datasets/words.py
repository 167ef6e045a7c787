"""Words of a real text: the language reference that ships with Python (`pydoc_data.topics`)."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module

import numpy as np
import pyarrow as pa

from evenflow.errors import InputError

SECOND_US = 1_000_000
START_US = 1_767_225_600 * SECOND_US  # 2026
_WORDS_SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("topic", pa.string()), ("word", pa.string())]
)


@dataclass(frozen=True, slots=True)
class Words:
    """A text read aloud: the stream words, one row a word, `rate` words a second."""

    batches: int = field(default=10, metadata={"help": "How many batches there are."})
    rows: int = field(default=10_000, metadata={"help": "Words in a batch."})
    rate: int = field(default=1_000, metadata={"help": "Words in a second of event time."})

    def __post_init__(self) -> None:
        if min(self.batches, self.rows, self.rate) < 1:
            raise InputError(
                "batches, rows and rate must be 1 or more, got "
                f"{self.batches}, {self.rows}, {self.rate}"
            )

    @property
    def streams(self) -> Mapping[str, pa.Schema]:
        """The streams and their columns."""
        return {"words": _WORDS_SCHEMA}

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """The tables and their columns: none."""
        return {}

    def stream_batches(self, stream: str) -> Iterator[pa.Table]:
        """Read on, batch by batch; after the last word the text begins anew."""
        topics, words = _read_text()
        for batch in range(self.batches):
            at = np.arange(batch * self.rows, (batch + 1) * self.rows)
            times = pa.array(START_US + at * SECOND_US // self.rate).cast(
                _WORDS_SCHEMA.field("ts").type
            )
            place = pa.array(at % len(words))
            yield pa.table([times, topics.take(place), words.take(place)], schema=_WORDS_SCHEMA)

    def table_rows(self, table: str) -> pa.Table:
        """Make a table; there are none."""
        raise InputError(f"the dataset words has no table {table!r}")


def _read_text() -> tuple[pa.Array, pa.Array]:
    topics: Mapping[str, str] = import_module("pydoc_data.topics").topics
    found = [(t, w) for t in sorted(topics) for w in re.findall(r"[a-z']+", topics[t].lower())]
    return pa.array([t for t, _ in found]), pa.array([w for _, w in found])
