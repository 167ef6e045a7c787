"""Words of a real text: the language reference that ships with Python (`pydoc_data.topics`)."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module

import numpy as np
import pyarrow as pa

from evenflow.datasets.event_time import SECOND_US, START_US, TIMESTAMP
from evenflow.errors import InputError

_WORDS_SCHEMA = pa.schema([("ts", TIMESTAMP), ("topic", pa.string()), ("word", pa.string())])


@dataclass(frozen=True, slots=True)
class Words:
    """A text as a stream: words, one row per word, `rate` words a second."""

    batches: int = field(default=10, metadata={"help": "Number of batches."})
    rows: int = field(default=10_000, metadata={"help": "Words per batch."})
    rate: int = field(default=1_000, metadata={"help": "Words per second of event time."})

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
        """No tables."""
        return {}

    def stream_batches(self, stream: str) -> Iterator[pa.Table]:
        """Return the words in batches; after the last word the text starts again."""
        topics, words = _read_text()
        for batch in range(self.batches):
            numbers = np.arange(batch * self.rows, (batch + 1) * self.rows)
            times = pa.array(START_US + numbers * SECOND_US // self.rate).cast(TIMESTAMP)
            index = pa.array(numbers % len(words))
            yield pa.table([times, topics.take(index), words.take(index)], schema=_WORDS_SCHEMA)

    def table_rows(self, table: str) -> pa.Table:
        """Raise InputError: there are no tables."""
        raise InputError(f"the dataset words has no table {table!r}")


def _read_text() -> tuple[pa.Array, pa.Array]:
    topics: Mapping[str, str] = import_module("pydoc_data.topics").topics
    pairs = [(t, w) for t in sorted(topics) for w in re.findall(r"[a-z']+", topics[t].lower())]
    return pa.array([t for t, _ in pairs]), pa.array([w for _, w in pairs])
