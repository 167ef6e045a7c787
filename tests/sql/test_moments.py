"""Covariance, correlation, regression, skewness and kurtosis against exact fractions.

Spark's own last digits depend on the order of the rows, which shows near zero; so these are
compared with the exact value, relative to the spread of the columns.
"""

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

import evenflow

ROWS, WINDOW_US = 800, 20_000_000
SQL = """SELECT window.start AS start, symbol, count(*) AS n, covar_pop(qty, price) AS covariance,
    skewness(price) AS skewness, kurtosis(price) AS kurtosis, corr(price, qty) AS correlation,
    regr_slope(price, qty) AS slope, regr_intercept(price, qty) AS intercept,
    regr_r2(price, qty) AS r2
  FROM trades GROUP BY window(ts, '20 seconds', '5 seconds'), symbol"""
CLOSE = 1e-12


def trades() -> pa.Table:
    rng = np.random.default_rng(1)
    prices = rng.lognormal(3, 1, ROWS).round(2)
    return pa.table({
        "ts": pa.array(np.sort(rng.integers(0, 150_000_000, ROWS)), pa.timestamp("us", "UTC")),
        "symbol": rng.integers(0, 40, ROWS).astype(str),
        "qty": pa.array(rng.integers(1, 4, ROWS), pa.int32(), mask=rng.random(ROWS) < 0.2),
        "price": pa.array(prices, mask=rng.random(ROWS) < 0.1),
    })  # fmt: skip


def moment(values: list[Fraction], power: int) -> Fraction:
    mean = sum(values) / len(values)
    powers = (Fraction((value - mean) ** power) for value in values)
    return sum(powers, Fraction(0))


def check_covariance(found: float | None, pairs: list[tuple[Fraction, Fraction]]) -> None:
    if not pairs:
        assert found is None
        return
    x, y = ([pair[at] for pair in pairs] for at in (0, 1))
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    exact = sum(((a - mean_x) * (b - mean_y) for a, b in pairs), Fraction(0)) / len(pairs)
    spread = float(moment(x, 2) * moment(y, 2)) ** 0.5 / len(pairs)
    assert found is not None
    assert abs(found - float(exact)) <= CLOSE * max(spread, 1e-3)


def check_line(row: dict[str, Any], pairs: list[tuple[Fraction, Fraction]]) -> None:
    """Check the line through the points: price is y, qty is x."""
    x, y = ([pair[at] for pair in pairs] for at in (0, 1))
    if not pairs or moment(x, 2) == 0:
        assert [row[name] for name in ("correlation", "slope", "intercept", "r2")] == [None] * 4
        return
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    common = sum(((a - mean_x) * (b - mean_y) for a, b in pairs), Fraction(0))
    slope = common / moment(x, 2)
    scale = (float(moment(y, 2)) / float(moment(x, 2))) ** 0.5 + abs(float(mean_y))
    assert abs(row["slope"] - float(slope)) <= CLOSE * scale
    assert abs(row["intercept"] - float(mean_y - slope * mean_x)) <= CLOSE * scale * 4
    if moment(y, 2) == 0:
        assert (row["correlation"], row["r2"]) == (None, 1.0)
        return
    exact = float(common) / float(moment(x, 2) * moment(y, 2)) ** 0.5
    assert abs(row["correlation"] - exact) <= CLOSE
    assert abs(row["r2"] - exact**2) <= CLOSE


def check_shape(row: dict[str, Any], values: list[Fraction]) -> None:
    if not values or moment(values, 2) == 0:
        assert row["skewness"] is None
        assert row["kurtosis"] is None
        return
    n, m2 = len(values), float(moment(values, 2))
    skewness = n**0.5 * float(moment(values, 3)) / m2**1.5
    kurtosis = n * float(moment(values, 4)) / m2**2 - 3
    assert abs(row["skewness"] - skewness) <= CLOSE * max(abs(skewness), 1)
    assert abs(row["kurtosis"] - kurtosis) <= CLOSE * max(abs(kurtosis), 1)


def test_moments_of_sliding_windows_over_batches_and_workers() -> None:
    table = trades()
    found = evenflow.run_local(SQL, {"trades": table}, time="ts", batches=7, workers=3)
    rows = table.to_pylist()
    assert found.num_rows > 1000
    for row in found.to_pylist():
        inside = [
            each
            for each in rows
            if each["symbol"] == row["symbol"]
            and 0 <= (each["ts"] - row["start"]).total_seconds() * 1e6 < WINDOW_US
        ]
        assert len(inside) == row["n"]
        pairs = [
            (Fraction(each["qty"]), Fraction(each["price"]))
            for each in inside
            if each["qty"] is not None and each["price"] is not None
        ]
        check_covariance(row["covariance"], pairs)
        check_line(row, pairs)
        check_shape(row, [Fraction(e["price"]) for e in inside if e["price"] is not None])
