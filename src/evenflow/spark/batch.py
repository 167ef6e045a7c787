"""A batch at its border, as a controller sees it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from evenflow.model import Plan
from evenflow.spark.registry import Registry
from evenflow.spark.report import Report


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch at its border, when all workers have reported.

    at, seconds  when it ended (since the epoch), and how long after the one before
    plan         held in it
    following    holds after it as things stand, arrivals placed: what a controller may change
    registry     what is hosted after it
    drain        the workers that are to be drained from now on
    asked        a plan that someone asked for; it goes before a controller's
    """

    number: int
    at: float
    seconds: float
    reports: tuple[Report, ...]
    watermarks: Mapping[str, int]
    registry: Registry
    plan: Plan
    following: Plan
    drain: frozenset[int]
    asked: Plan | None = None


Controller = Callable[[Batch], Plan | None]
"""Called at every border; may return a plan to follow."""

Record = Callable[[Batch, Plan | None, tuple[str, ...]], None]
"""Told at every border which plan is followed from it on, if any, and why others are not."""
