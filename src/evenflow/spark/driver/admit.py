"""Admit a proposed decision: its plan must fit what is hosted and keep pins. Pure functions."""

from collections.abc import Callable
from dataclasses import replace

from evenflow.errors import InputError
from evenflow.model import Decision, Plan, Verdict, VerdictCode
from evenflow.names import join_names
from evenflow.planning.controller import refuse_plan, same_plan
from evenflow.spark.driver.completed_batch import CompletedBatch
from evenflow.spark.driver.plan_changes import complete_plan, misplaced_pins, with_pins

Explain = Callable[[Plan, str], Decision]
"""Returns the decision to follow a given plan, with predictions, for a message."""


def admit(proposed: Decision, batch: CompletedBatch, explain: Explain) -> Decision:
    """Return the decision with a complete plan that keeps pins, or without a plan.

    A plan that does not fit is refused, which is a verdict and not an error. Pinned queries that
    run elsewhere are moved to their pins in any case.
    """
    refusals: list[str] = []
    plan = complete_with_pins(proposed.plan, batch, refusals)
    if plan is None and proposed.plan is not None:
        plan = complete_with_pins(None, batch, refusals)
    if plan is None:
        decision = refuse_plan(proposed)
    elif proposed.plan is None:
        decision = replace(explain(plan, describe_pins(batch)), verdicts=proposed.verdicts)
    elif same_plan(plan, proposed.plan):
        decision = proposed
    else:
        pinned = explain(plan, describe_pins(batch))
        decision = replace(
            proposed,
            message=f"{proposed.message}; {pinned.message}",
            predicted=pinned.predicted,
            plan=plan,
            moves=pinned.moves,
            moved_bytes=pinned.moved_bytes,
        )
    return with_verdicts(decision, VerdictCode.PLAN_REFUSED, "plan", *refusals)


def complete_with_pins(
    plan: Plan | None, batch: CompletedBatch, refusals: list[str]
) -> Plan | None:
    """Complete a plan, pins included; append to `refusals` why it cannot be followed."""
    pinned = with_pins(plan, batch.next_plan, batch.registry)
    if pinned is None:
        return None
    try:
        return complete_plan(pinned, batch.next_plan, batch.registry)
    except InputError as error:
        refusals.append(str(error))
        return None


def describe_pins(batch: CompletedBatch) -> str:
    """Name the pinned queries that the next plan moves to their workers; empty if none."""
    pins = misplaced_pins(batch.next_plan, batch.registry)
    listed = join_names(f"{name} to worker {pin}" for name, pin in pins.items())
    return f"pins {listed}" if pins else ""


def with_verdicts(decision: Decision, code: VerdictCode, subject: str, *messages: str) -> Decision:
    """Return the decision with one more verdict per message."""
    verdicts = tuple(Verdict(code, subject, message) for message in messages)
    return replace(decision, verdicts=(*decision.verdicts, *verdicts))
