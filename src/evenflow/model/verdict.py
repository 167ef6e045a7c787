"""What a planner says when something cannot be had. A value, not an exception."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """A named limit of a plan.

    `code` is stable and for machines, `subject` names the key, query or worker it is about,
    `message` is for people, and `reachable` is what can be hoped for of the broken bound,
    where that is known.
    """

    code: str
    subject: str
    message: str
    reachable: float | None = None
