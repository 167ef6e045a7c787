"""A completed batch, as the balancer and a user's controller see it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from evenflow.model import Plan, Proposal
from evenflow.spark.protocol.registry import Registry
from evenflow.spark.protocol.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedBatch:
    """A batch that all workers have reported, before its commit.

    at, seconds     when it ended (since the epoch), and how long after the previous one
    work_seconds    how long Spark took to run it
    plan            the plan in force during the batch
    next_plan       the plan after it, arriving queries placed: what a controller may change
    registry        what is hosted after it
    drain           workers that should be drained
    requested_plan  a plan that a caller requested, complete; it goes before a controller's
    combined        uids of the queries whose rows the router combined
    proposal        the plan that waits for approval, with the answer to it if there is one
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
    combined: frozenset[str] = frozenset()
    proposal: Proposal | None = None
    work_seconds: float = 0.0


Controller = Callable[[CompletedBatch], Plan | None]
"""Called after every batch; may return a plan to follow."""
