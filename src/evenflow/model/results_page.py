"""A page of a query's results, and the position where the next one begins."""

import re
from dataclasses import dataclass

import pyarrow as pa

from evenflow.errors import InputError

_POSITION = re.compile(r"(\d{1,15})(?:\.(\d{1,15}))?", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class ResultPosition:
    """A place in the results of a query: before row `row` of batch `batch`.

    >>> str(ResultPosition(12)), str(ResultPosition(12, 345))
    ('12', '12.345')
    >>> ResultPosition.parse("12.345")
    ResultPosition(batch=12, row=345)
    """

    batch: int
    row: int = 0

    @classmethod
    def parse(cls, text: str) -> "ResultPosition":
        """Read a position: a batch number, or what an earlier page gave as `next`."""
        found = _POSITION.fullmatch(text)
        if found is None:
            raise InputError(
                f"{text[:40]!r} is not a position in results; use a batch number, or the `next` "
                "of a page"
            )
        return cls(int(found[1]), int(found[2] or 0))

    def __str__(self) -> str:
        return f"{self.batch}.{self.row}" if self.row else str(self.batch)


@dataclass(frozen=True, slots=True)
class ResultsPage:
    """Some committed results of a query, in the order of their batches.

    first      position of the first row
    next       where the next page begins
    committed  number of the next batch: results of all batches before it are there
    """

    rows: pa.Table
    first: ResultPosition
    next: ResultPosition
    committed: int

    @property
    def complete(self) -> bool:
        """Whether there is nothing after this page yet."""
        return self.next >= ResultPosition(self.committed)
