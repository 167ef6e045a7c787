"""Networks and input streams of the experiments (borealis-load-distribution, sections 5.1.1-5.1.4).

The rate of a stream is stored as its integral Lambda, the expected number of tuples until t, which
is piecewise linear. Arrivals are the times at which Lambda passes the points of a unit process:
exponential steps for periodic streams, integers for on-off streams, which send regularly while on.

Choices that the paper leaves open
- Periodic: offsets of the streams are evenly spaced over the period, in random order; independent
  offsets do not reproduce the paper's correlations.
- On-off: a quarter of the streams is independent; each of the others is, at random, the complement
  of one of these or a shifted copy.
- The expected arrivals of the drawn streams, idle times included, meet the load level exactly.
"""

from dataclasses import dataclass

import numpy as np

from evenflow.errors import InputError
from evenflow.model.arrays import Floats, Indices
from evenflow.research.operator_simulator.ideal_rates import ideal_loads
from evenflow.research.operator_simulator.network import OperatorNetwork

WORKLOADS = ("periodic", "onoff")


@dataclass(frozen=True, slots=True, eq=False)
class ArrivalStream:
    """An input stream: Lambda is `expected_counts` at `times`; `regular`: not random."""

    times: Floats
    expected_counts: Floats
    regular: bool

    def expected_count(self, times: Floats) -> Floats:
        """Return the tuples expected until each time."""
        return np.asarray(np.interp(times, self.times, self.expected_counts))

    def draw_arrivals(self, rng: np.random.Generator) -> Floats:
        """Draw the arrival times."""
        total = float(self.expected_counts[-1])
        if self.regular:
            marks = np.arange(rng.uniform(), total)
        else:
            marks = np.cumsum(rng.exponential(size=int(total + 10 * np.sqrt(total) + 20)))
            marks = marks[marks < total]
        moments: Floats = np.interp(marks, self.expected_counts, self.times)
        return moments

    def switch_at(self, other: "ArrivalStream", moment: float) -> "ArrivalStream":
        """Return this stream up to a time, then the other one.

        >>> slow = ArrivalStream(np.array([0.0, 4.0]), np.array([0.0, 4.0]), regular=True)
        >>> both = slow.switch_at(slow.scale_rates(3.0), 2.0)
        >>> both.expected_count(np.array([1.0, 2.0, 3.0])).tolist()
        [1.0, 2.0, 5.0]
        """
        times = np.unique(np.concatenate([self.times, other.times, [moment]]))
        before = self.expected_count(np.minimum(times, moment))
        after = other.expected_count(np.maximum(times, moment)) - other.expected_count(
            np.array([moment])
        )
        return ArrivalStream(times, before + after, self.regular)

    def scale_rates(self, factor: float) -> "ArrivalStream":
        """Return the stream with all rates multiplied."""
        return ArrivalStream(self.times, self.expected_counts * factor, self.regular)


def chain_network(
    operators: int, length: int, cost: float, spread: float, rng: np.random.Generator
) -> OperatorNetwork:
    """Return independent chains with selectivities drawn from 1 -+ spread."""
    at = np.arange(operators)
    heads = at % length == 0
    feeds = np.column_stack([np.arange(heads.sum()), at[heads]])
    links = np.column_stack([at[~heads] - 1, at[~heads]])
    selectivity = rng.uniform(1 - spread, 1 + spread, size=operators)
    return OperatorNetwork(np.full(operators, cost), selectivity, feeds, links)


def periodic_streams(
    streams: int, seconds: float, period: float, ratio: float, rng: np.random.Generator
) -> list[ArrivalStream]:
    """Return streams of mean rate 1 that alternate between a high and a low rate."""
    high, low = 2 * ratio / (1 + ratio), 2 / (1 + ratio)
    offsets = rng.permutation(streams) / streams * period
    return [
        _alternating_stream(seconds, period / 2, offset, (high, low)) for offset in offsets.tolist()
    ]


def _alternating_stream(
    seconds: float, half: float, offset: float, rates: tuple[float, float]
) -> ArrivalStream:
    halves = np.arange(0, int(seconds / half) + 4)
    moments = np.clip(halves * half - offset, 0.0, seconds)
    expected = np.append(0.0, np.cumsum(np.diff(moments) * np.resize(rates, len(halves) - 1)))
    return ArrivalStream(moments, expected, regular=False)


def onoff_streams(
    streams: int, seconds: float, mean: float, rng: np.random.Generator
) -> list[ArrivalStream]:
    """Return streams that send regularly while on and nothing while off."""
    originals = [_draw_activity(2 * seconds, mean, rng) for _ in range(max(streams // 4, 1))]
    drawn = [
        ArrivalStream(*_clip_activity(moments, active, 0.0, seconds), True)
        for moments, active in originals
    ]
    while len(drawn) < streams:
        moments, active = originals[rng.integers(len(originals))]
        if rng.uniform() < 0.5:
            drawn.append(ArrivalStream(*_clip_activity(moments, ~active, 0.0, seconds), True))
        else:
            start = float(rng.uniform(0.0, seconds))
            drawn.append(ArrivalStream(*_clip_activity(moments, active, start, seconds), True))
    return drawn[:streams]


def _draw_activity(
    seconds: float, mean: float, rng: np.random.Generator
) -> tuple[Floats, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Draw the times at which a stream switches between on and off."""
    count = int(2 * seconds / mean) + 20
    while True:
        moments = np.append(0.0, np.cumsum(rng.exponential(mean, size=count)))
        if moments[-1] >= seconds:
            break
        count *= 2
    active = (np.arange(count) + int(rng.integers(2))) % 2 == 0
    return moments, active


def _clip_activity(
    moments: Floats, active: np.ndarray[tuple[int], np.dtype[np.bool_]], start: float, length: float
) -> tuple[Floats, Floats]:
    """Return Lambda over an interval of an activity; the rate is 2 while on."""
    expected = np.append(0.0, np.cumsum(np.diff(moments) * np.where(active, 2.0, 0.0)))
    inside = moments[(moments > start) & (moments < start + length)]
    at = np.concatenate([[start], inside, [start + length]])
    values = np.interp(at, moments, expected)
    return at - start, values - values[0]


def calibrate_streams(
    network: OperatorNetwork,
    streams: list[ArrivalStream],
    workers: int,
    load: float,
    seconds: float,
    rng: np.random.Generator,
) -> list[ArrivalStream]:
    """Draw a rate for each stream and scale all to a system load level (section 5.1.4).

    One-second steps are fine enough for joins, whose load is not linear in the rates.
    """
    if load <= 0:
        raise InputError(f"the load level must be above 0, got {load}")
    drawn = rng.uniform(0.8, 1.2, size=len(streams))
    rated = [stream.scale_rates(rate) for stream, rate in zip(streams, drawn.tolist(), strict=True)]
    for _ in range(200):
        mean = ideal_loads(network, sample_rates(rated, seconds, 1.0)).sum(axis=0).mean()
        if mean <= 0:
            raise InputError("no stream has arrivals in this time; use more seconds or streams")
        factor = float(load * workers / mean)
        rated = [stream.scale_rates(factor) for stream in rated]
        if abs(factor - 1) < 1e-12:
            break
    return rated


def sample_rates(streams: list[ArrivalStream], seconds: float, step: float) -> Floats:
    """Return the expected tuples per second of each stream (row) in each step."""
    ends = np.linspace(0.0, seconds, round(seconds / step) + 1)
    rates: Floats = np.stack(
        [np.diff(stream.expected_count(ends)) / np.diff(ends) for stream in streams]
    )
    return rates


def merge_arrivals(arrivals: list[Floats]) -> tuple[Floats, Indices]:
    """Return all arrivals in order of time, and the stream of each."""
    times = np.concatenate(arrivals)
    sources = np.repeat(np.arange(len(arrivals)), [len(part) for part in arrivals])
    order = np.argsort(times, kind="stable")
    return times[order], sources[order]
