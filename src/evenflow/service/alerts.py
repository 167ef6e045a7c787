"""Alerts in the API."""

from typing import Literal

from evenflow.display import printable
from evenflow.errors import MAX_ERROR_CHARACTERS
from evenflow.model.alert import Alert
from evenflow.service.api_model import ApiModel


class AlertInfo(ApiModel):
    """Something that a rule of `alerts` tells; `message` says it in words.

    `value` is the one that was above the threshold `above` when it began to fire, in batch `batch`
    at `at`. `ended_at` is when it was resolved.
    """

    kind: str
    subject: str
    state: Literal["firing", "resolved"]
    message: str
    value: float
    above: float
    batch: int
    at: float
    ended_at: float | None


def alert_info(alert: Alert) -> AlertInfo:
    """Return an alert for the API."""
    return AlertInfo(
        kind=alert.kind,
        subject=printable(alert.subject, MAX_ERROR_CHARACTERS),
        state=alert.state,
        message=printable(alert.message, MAX_ERROR_CHARACTERS),
        value=alert.value,
        above=alert.above,
        batch=alert.batch,
        at=alert.at,
        ended_at=alert.ended_at,
    )
