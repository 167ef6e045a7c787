"""Codes of decisions in words, for people; programs get the codes."""

from evenflow.model.codes import Reason, Trigger

_TRIGGERS = {
    Trigger.NONE: "nothing called for a change",
    Trigger.IMBALANCE: "a worker had too much load",
    Trigger.INITIAL: "the warm-up is over",
    Trigger.BURSTS: "bursts of queries coincided on a worker",
    Trigger.TRAFFIC: "streams could be shipped to fewer workers",
    Trigger.DRAIN: "a worker is to be drained",
    Trigger.ACTIVATE: "a drained worker is to work again",
    Trigger.AUTOSCALE: "the load needs another number of workers",
    Trigger.ARRIVAL: "queries arrived",
    Trigger.PROMOTION: "a query outgrew its worker",
    Trigger.COOLED: "a split key needs fewer workers",
    Trigger.STAGED: "the plan is larger than the budget of one batch",
    Trigger.MANUAL: "it was requested",
}
_REASONS = {
    Reason.KEYS: "keys move",
    Reason.QUERIES: "whole queries move",
    Reason.PROMOTED: "whole queries are spread over all workers",
    Reason.ACTIVATED: "work moves to activated workers",
    Reason.DRAINED: "work moves off drained workers",
    Reason.STAGED: "the next step of an earlier plan",
    Reason.MANUAL: "a requested plan",
    Reason.INFEASIBLE: "no plan keeps the bound",
    Reason.COOLDOWN: "what would help moved too recently",
    Reason.GAIN_TOO_SMALL: "moving would not pay",
    Reason.NOT_WORTH_IT: "too little to be worth a move",
    Reason.MOVES_IN_FLIGHT: "the last moves are not measured yet",
    Reason.NOT_SURE: "it may be noise",
    Reason.FEW_SAMPLES: "too few batches to judge",
    Reason.OFF: "the planner that could help is off",
    Reason.BALANCED: "the load is even",
    Reason.NO_LOAD: "there was no load",
    Reason.STALE: "the plan was made for other workers or pins",
    Reason.REFUSED: "the plan does not fit what is hosted",
    Reason.PROPOSED: "the plan waits for approval",
    Reason.WAITING: "an earlier proposal waits",
    Reason.REJECTED: "the plan was rejected",
    Reason.OUTSIDE_WINDOW: "no maintenance window is open",
}


def trigger_words(trigger: str) -> str:
    """Return what caused a decision; a code of another version with spaces.

    >>> trigger_words("imbalance"), trigger_words("from_the_future")
    ('a worker had too much load', 'from the future')
    """
    return _TRIGGERS.get(Trigger(trigger)) or str(trigger).replace("_", " ")


def reason_words(reason: str) -> str:
    """Return what was decided.

    >>> reason_words("gain_too_small")
    'moving would not pay'
    """
    return _REASONS.get(Reason(reason)) or str(reason).replace("_", " ")


def decision_words(trigger: str, reason: str, *, changed: bool) -> str:
    """Return a decision as a title.

    >>> decision_words("imbalance", "keys", changed=True)
    'keys move, because a worker had too much load'
    >>> decision_words("imbalance", "not_sure", changed=False)
    'no change: it may be noise'
    """
    if not changed:
        return f"no change: {reason_words(reason)}"
    if trigger == Trigger.MANUAL:
        return reason_words(reason)
    return f"{reason_words(reason)}, because {trigger_words(trigger)}"
