"""Half-linear, half-exponential discretisation (mixed-key-routing, section IV-B).

Values x, scaled so that the least is 1, are replaced by representatives: multiples of R = 2^r
above R, powers of two below it. Going from the largest value down, each takes the one of its two
neighbours, above or below, that moves the deviation accumulated so far nearer to zero; so errors
cancel in sums.

Departures
- The rule printed in the paper (take the larger neighbour while the deviation is positive) ends at
  a total deviation of -1 on the paper's own example. "Nearer to zero, ties to the smaller value"
  gives the 0 it claims.
- Values above the largest representative have only that one in the paper, which loses up to R on
  each. One more multiple of R is allowed above it (and a further power of two if all values are
  below R), so that every value has two neighbours and errors can cancel.
- The deviation can be accumulated for each worker separately (`groups`), as when every worker
  reports its own keys: then the load of each worker, not only their sum, is preserved. Without it
  there is one sum over all workers, as in the paper's example.
- Descending order is kept to 8 leading bits only: a counting sort in linear time. Sums do not care
  which of two values within half a percent of each other goes first.
- Zero stays zero: an idle key differs from a light one.
"""

import numpy as np

from evenflow.errors import InputError
from evenflow.jit import kernel
from evenflow.model.arrays import Floats, Indices, Workers


def discretise(values: Floats, degree: int, groups: Workers | None = None) -> Floats:
    """Return representatives; `degree` is R, a power of two, in units of the least value.

    `groups` gives the worker of each value, numbered from 0.

    The paper's example, whose total deviation is zero:

    >>> x = np.array([8.0, 6, 3, 2, 2, 1, 1, 1, 1, 1])
    >>> y = discretise(x, 4)
    >>> y.astype(int).tolist(), float((x - y).sum())
    ([8, 4, 4, 2, 2, 2, 1, 1, 1, 1], 0.0)
    """
    if degree < 1 or degree & (degree - 1):
        raise InputError(f"the degree of discretisation must be a power of two, got {degree}")
    if not len(values):
        return values
    least = float(np.min(values, where=values > 0, initial=np.inf))
    unit = max(least, float(values.max()) * 1e-12)  # nothing so light can matter
    of = np.zeros(len(values), dtype=np.int32) if groups is None else groups
    return _discretise(values, descending_order(values), of, unit, degree * unit)


def discretise_plain(values: list[float], degree: int) -> list[float]:
    """The same for a list in the order given, in plain Python: the oracle."""
    deviation, chosen = 0.0, []
    for value in values:
        if value == 0:
            chosen.append(0.0)
            continue
        if value >= degree:
            below = float(value // degree * degree)
            above = below + degree
        else:
            below = 1.0
            while below * 2 <= value:
                below *= 2
            above = below * 2
        low, high = deviation + value - below, deviation + value - above
        take_low = abs(low) <= abs(high)
        chosen.append(below if take_low else above)
        deviation = low if take_low else high
    return chosen


@kernel
def descending_order(values: Floats) -> Indices:
    """Return positions from the largest value to the smallest, to 8 leading bits."""
    # The bits of doubles that are not negative sort like them; + 0.0 turns -0.0 into 0.0.
    codes = (values + 0.0).view(np.int64) >> 44
    if len(codes) == 0:
        return np.empty(0, dtype=np.int64)
    top = codes.max()
    starts = np.zeros(top - codes.min() + 2, dtype=np.int64)
    for at in range(len(values)):
        starts[top - codes[at] + 1] += 1
    for code in range(len(starts) - 1):
        starts[code + 1] += starts[code]
    order = np.empty(len(values), dtype=np.int64)
    for at in range(len(values)):
        order[starts[top - codes[at]]] = at
        starts[top - codes[at]] += 1
    return order


@kernel
def _discretise(
    values: Floats, order: Indices, groups: Workers, unit: float, step: float
) -> Floats:
    chosen = np.zeros(len(values))
    deviation = np.zeros(groups.max() + 1 if len(groups) else 0)
    power = unit
    for at in order:
        value = values[at]
        if value == 0:
            continue
        if value >= step:
            below = np.floor(value / step) * step
            above = below + step
        else:
            while power > value:
                power /= 2
            while 2 * power <= value:
                power *= 2
            below, above = power, 2 * power
        exact = deviation[groups[at]] + value
        nearer = below if abs(exact - below) <= abs(exact - above) else above
        chosen[at] = nearer
        deviation[groups[at]] = exact - nearer
    return chosen
