"""Advice on the number of workers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScalingAdvice:
    """How many workers the present load needs, and why.

    workers            active workers that the load needs
    active             active workers of the next plan
    rows_per_second    rows that arrive, counted once for each query that reads them
    true_rate          rows that one worker processes in a second of useful time (CPU)
    busy_workers       useful seconds of all workers per second
    utilisation        part of the time that an active worker is useful, on average
    target             utilisation that the number of workers is chosen for
    message            the advice in one sentence
    """

    workers: int
    active: int
    rows_per_second: float
    true_rate: float
    busy_workers: float
    utilisation: float
    target: float
    message: str
