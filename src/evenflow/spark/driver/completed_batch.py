"""A batch at its border, as a controller sees it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from evenflow.model import Plan
from evenflow.spark.protocol.registry import Registry
from evenflow.spark.protocol.report import Report


@dataclass(frozen=True, slots=True)
class CompletedBatch:
    """A batch at its border, when all workers have reported.

    at, seconds  when it ended (since the epoch), and how long after the one before
    plan         held in it
    next_plan    holds after it as things stand, arrivals placed: what a controller may change
    registry     what is hosted after it
    drain        the workers that are to be drained from now on
    requested_plan  a plan that someone asked for; it goes before a controller's
    """

    number: int
    at: float
    seconds: float
    reports: tuple[Report, ...]
    watermarks: Mapping[str, int]
    registry: Registry
    plan: Plan
    next_plan: Plan
    drain: frozenset[int]
    requested_plan: Plan | None = None


Controller = Callable[[CompletedBatch], Plan | None]
"""Called at every border; may return a plan to follow."""

DecisionRecorder = Callable[[CompletedBatch, Plan | None, tuple[str, ...]], None]
"""Told at every border which plan is followed from it on, if any, and why others are not."""
