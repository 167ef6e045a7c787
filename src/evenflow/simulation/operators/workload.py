"""Networks and input streams of the experiments (borealis-load-distribution, sections 5.1.1-5.1.4).

A stream's rate over time is kept as its integral Lambda, the tuples expected until t, piecewise
linear. Arrivals are the moments at which Lambda passes the points of a unit process: exponential
steps for periodic streams, whole numbers for on-off streams, whose active periods send regularly.

Departures, where the paper leaves room
- Periodic: offsets of the streams are evenly spaced over the period, in random order; drawn
  independently they do not give the paper's correlations.
- On-off: a quarter of the streams is drawn independently; each of the others is, by lot, the
  opposite of one of these or the same with another start.
- The load level is met exactly by what the drawn streams would send, idle times included.
"""

from dataclasses import dataclass

import numpy as np

from evenflow.errors import InputError
from evenflow.model.arrays import Floats, Indices
from evenflow.model.operator_network import OperatorNetwork
from evenflow.planning.operators.ideal_rates import ideal_loads

WORKLOADS = ("periodic", "onoff")


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """An input stream: Lambda at `moments` is `expected`; `regular` if arrivals are not random."""

    moments: Floats
    expected: Floats
    regular: bool

    def sent(self, times: Floats) -> Floats:
        """Return the tuples expected until each time."""
        tuples: Floats = np.interp(times, self.moments, self.expected)
        return tuples

    def arrivals(self, rng: np.random.Generator) -> Floats:
        """Draw the arrival times."""
        total = float(self.expected[-1])
        if self.regular:
            marks = np.arange(rng.uniform(), total)
        else:
            marks = np.cumsum(rng.exponential(size=int(total + 10 * np.sqrt(total) + 20)))
            marks = marks[marks < total]
        moments: Floats = np.interp(marks, self.expected, self.moments)
        return moments

    def then(self, other: "Stream", moment: float) -> "Stream":
        """Return this stream up to a moment, and from there on the other one.

        >>> slow = Stream(np.array([0.0, 4.0]), np.array([0.0, 4.0]), regular=True)
        >>> slow.then(slow.scaled(3.0), 2.0).sent(np.array([1.0, 2.0, 3.0])).tolist()
        [1.0, 2.0, 5.0]
        """
        at = np.unique(np.concatenate([self.moments, other.moments, [moment]]))
        before = self.sent(np.minimum(at, moment))
        after = other.sent(np.maximum(at, moment)) - other.sent(np.array([moment]))
        return Stream(at, before + after, self.regular)

    def scaled(self, factor: float) -> "Stream":
        """Return the stream with all rates multiplied."""
        return Stream(self.moments, self.expected * factor, self.regular)


def chains(
    operators: int, length: int, cost: float, spread: float, rng: np.random.Generator
) -> OperatorNetwork:
    """Return independent chains with selectivities drawn from 1 -+ spread."""
    at = np.arange(operators)
    heads = at % length == 0
    feeds = np.column_stack([np.arange(heads.sum()), at[heads]])
    links = np.column_stack([at[~heads] - 1, at[~heads]])
    selectivity = rng.uniform(1 - spread, 1 + spread, size=operators)
    return OperatorNetwork(np.full(operators, cost), selectivity, feeds, links)


def periodic(
    streams: int, seconds: float, period: float, ratio: float, rng: np.random.Generator
) -> list[Stream]:
    """Return streams of mean rate 1 that alternate between a high and a low rate."""
    high, low = 2 * ratio / (1 + ratio), 2 / (1 + ratio)
    offsets = rng.permutation(streams) / streams * period
    return [_alternating(seconds, period / 2, offset, (high, low)) for offset in offsets.tolist()]


def _alternating(seconds: float, half: float, offset: float, rates: tuple[float, float]) -> Stream:
    halves = np.arange(0, int(seconds / half) + 4)
    moments = np.clip(halves * half - offset, 0.0, seconds)
    expected = np.append(0.0, np.cumsum(np.diff(moments) * np.resize(rates, len(halves) - 1)))
    return Stream(moments, expected, regular=False)


def onoff(streams: int, seconds: float, mean: float, rng: np.random.Generator) -> list[Stream]:
    """Return streams that send regularly while active and nothing while idle."""
    originals = [_activity(2 * seconds, mean, rng) for _ in range(max(streams // 4, 1))]
    made = [Stream(*_cut(moments, active, 0.0, seconds), True) for moments, active in originals]
    while len(made) < streams:
        moments, active = originals[rng.integers(len(originals))]
        if rng.uniform() < 0.5:
            made.append(Stream(*_cut(moments, ~active, 0.0, seconds), True))
        else:
            start = float(rng.uniform(0.0, seconds))
            made.append(Stream(*_cut(moments, active, start, seconds), True))
    return made[:streams]


def _activity(
    seconds: float, mean: float, rng: np.random.Generator
) -> tuple[Floats, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Draw when a stream changes between active and idle."""
    count = int(2 * seconds / mean) + 20
    while True:
        moments = np.append(0.0, np.cumsum(rng.exponential(mean, size=count)))
        if moments[-1] >= seconds:
            break
        count *= 2
    active = (np.arange(count) + int(rng.integers(2))) % 2 == 0
    return moments, active


def _cut(
    moments: Floats, active: np.ndarray[tuple[int], np.dtype[np.bool_]], start: float, length: float
) -> tuple[Floats, Floats]:
    """Return Lambda of a stretch of an activity; the rate while active is 2."""
    expected = np.append(0.0, np.cumsum(np.diff(moments) * np.where(active, 2.0, 0.0)))
    inside = moments[(moments > start) & (moments < start + length)]
    at = np.concatenate([[start], inside, [start + length]])
    values = np.interp(at, moments, expected)
    return at - start, values - values[0]


def calibrated(
    network: OperatorNetwork,
    streams: list[Stream],
    workers: int,
    load: float,
    seconds: float,
    rng: np.random.Generator,
) -> list[Stream]:
    """Draw a rate for each stream and scale all to a system load level (section 5.1.4).

    Steps of one second are fine enough for joins, whose load is not linear in the rates.
    """
    if load <= 0:
        raise InputError(f"the load level must be above 0, got {load}")
    drawn = rng.uniform(0.8, 1.2, size=len(streams))
    rated = [stream.scaled(rate) for stream, rate in zip(streams, drawn.tolist(), strict=True)]
    for _ in range(200):
        mean = ideal_loads(network, sample_rates(rated, seconds, 1.0)).sum(axis=0).mean()
        if mean <= 0:
            raise InputError("no stream sends anything in this time; use more seconds or streams")
        factor = float(load * workers / mean)
        rated = [stream.scaled(factor) for stream in rated]
        if abs(factor - 1) < 1e-12:
            break
    return rated


def sample_rates(streams: list[Stream], seconds: float, step: float) -> Floats:
    """Return the expected tuples per second of each stream (row) in each step."""
    ends = np.linspace(0.0, seconds, round(seconds / step) + 1)
    rates: Floats = np.stack([np.diff(stream.sent(ends)) / np.diff(ends) for stream in streams])
    return rates


def merged(arrivals: list[Floats]) -> tuple[Floats, Indices]:
    """Return all arrivals in order of time, and the stream of each."""
    times = np.concatenate(arrivals)
    sources = np.repeat(np.arange(len(arrivals)), [len(part) for part in arrivals])
    order = np.argsort(times, kind="stable")
    return times[order], sources[order]
