"""Means and spreads over seeds, for claims and figures."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from evenflow.research.experiment import Claim
from evenflow.research.points import Rows


@dataclass(frozen=True, slots=True)
class Spread:
    """The values of one measure over seeds.

    >>> print(Spread((1.0, 2.0, 3.0)))
    2 ± 1
    >>> print(Spread((12345.6,)))
    12,346
    """

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean."""
        return statistics.fmean(self.values)

    @property
    def std(self) -> float:
        """The sample standard deviation; 0 for a single value."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    @property
    def low(self) -> float:
        """The minimum."""
        return min(self.values)

    @property
    def high(self) -> float:
        """The maximum."""
        return max(self.values)

    def __str__(self) -> str:
        spread = f" ± {format_number(self.std)}" if len(self.values) > 1 else ""
        return f"{format_number(self.mean)}{spread}"


def format_number(value: float) -> str:
    """Format a number with three significant digits.

    >>> [format_number(x) for x in (0.01234, 16.52, 1234.5, 0.0, -2.0)]
    ['0.0123', '16.5', '1,234', '0', '-2']
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def group_spreads(
    rows: Rows,
    value: str,
    by: Sequence[str],
    where: Callable[[dict[str, Any]], bool] | None = None,
) -> dict[tuple[Any, ...], Spread]:
    """Group a measure by other columns, without rows that lack it.

    >>> import pyarrow as pa
    >>> rows = pa.table({"a": ["x", "y", "x"], "cost": [1.0, 2.0, 3.0]})
    >>> {key: spread.mean for key, spread in group_spreads(rows, "cost", ["a"]).items()}
    {('x',): 2.0, ('y',): 2.0}
    """
    groups: dict[tuple[Any, ...], list[float]] = {}
    for row in rows.to_pylist():
        if row.get(value) is not None and (where is None or where(row)):
            groups.setdefault(tuple(row[name] for name in by), []).append(float(row[value]))
    return {key: Spread(tuple(values)) for key, values in groups.items()}


def columns_equal(**columns: Any) -> Callable[[dict[str, Any]], bool]:
    """Return a predicate for rows with these values.

    >>> columns_equal(window=5)({"window": 5, "seed": 1})
    True
    """
    return lambda row: all(row[name] == value for name, value in columns.items())


def paired_ratios(
    rows: Rows, value: str, first: str, second: str, by: Sequence[str], column: str = "algorithm"
) -> Spread:
    """Return the ratio first / second for each case measured by both, such as a load and seed.

    >>> import pyarrow as pa
    >>> rows = pa.table({"algorithm": ["a", "b"], "seed": [0, 0], "cost": [3.0, 2.0]})
    >>> paired_ratios(rows, "cost", "a", "b", ["seed"]).values
    (1.5,)
    """
    spreads = group_spreads(rows, value, [column, *by])
    ratios = [
        spread.mean / spreads[second, *key[1:]].mean
        for key, spread in spreads.items()
        if key[0] == first and (second, *key[1:]) in spreads and spreads[second, *key[1:]].mean
    ]
    return Spread(tuple(ratios))


def make_claim(text: str, measured: str, holds: bool, why: str = "") -> Claim:
    """Return a claim; `why` explains a claim that does not hold and is dropped otherwise."""
    return Claim(text, measured, bool(holds), "" if holds else why)


def markdown_table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table.

    >>> print(markdown_table(["a", "b"], [["1", "x|y"]]))
    | a | b |
    |---|---|
    | 1 | x\\|y |
    """

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

    return "\n".join([line(head), f"|{'---|' * len(head)}", *(line(cells) for cells in body)])
