"""Alerts: by which rules a run tells somebody, and what it has told."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Literal

from evenflow.errors import InputError


class AlertKind(StrEnum):
    """What a rule looks at. The values are fields of `AlertRules`."""

    IMBALANCE = "imbalance"  # largest over mean load of the active workers
    LAG = "lag"  # seconds that a source's watermark has fallen behind the clock
    QUARANTINE = "quarantine"  # a query failed and was stopped
    LATE_ROWS = "late_rows"  # share of a query's rows that were behind the watermark
    SET_ASIDE = "set_aside"  # rows of a source set aside because of their event time
    VERDICT = "verdict"  # a goal of balancing cannot be reached


class AlertTarget(StrEnum):
    """Where an alert is told."""

    LOG = "log"
    PAGE = "page"  # also the API and `evenflow alerts`
    WEBHOOK = "webhook"


@dataclass(frozen=True, slots=True)
class AlertRule:
    """Tell if a value is above a threshold in so many batches in a row; so it ends, too.

    >>> AlertRule(1.5, batches=20).to
    ('log', 'page', 'webhook')
    """

    above: float
    batches: int = 1
    to: tuple[str, ...] = tuple(str(target) for target in AlertTarget)

    def __post_init__(self) -> None:
        if not self.above >= 0:
            raise InputError(f"above must be at least 0, got {self.above}")
        if self.batches < 1:
            raise InputError(f"batches must be at least 1, got {self.batches}")
        unknown = [target for target in self.to if target not in tuple(AlertTarget)]
        if unknown:
            raise InputError(f"to must list {', '.join(AlertTarget)}, got {unknown[0]!r}")


@dataclass(frozen=True, slots=True)
class AlertRules:
    """The rules of a run; None: no alerts of that kind.

    imbalance   largest over mean load of the active workers
    lag         seconds that the watermark of a source is further behind the clock than at its best
    quarantine  a query failed and was stopped
    late_rows   share of the rows of a query that were late, in a batch
    set_aside   rows of a source that were set aside, in a batch; the log tells them anyway
    verdict     a goal that balancing cannot reach, such as a key too heavy for a worker
    webhook     address that gets each alert as JSON by POST; None: none

    >>> AlertRules(imbalance=AlertRule(2.0, batches=5), lag=None).quarantine.batches
    1
    """

    imbalance: AlertRule | None = AlertRule(1.5, 20)
    lag: AlertRule | None = AlertRule(600.0, 3)
    quarantine: AlertRule | None = AlertRule(0.0)
    late_rows: AlertRule | None = AlertRule(0.01, 5)
    set_aside: AlertRule | None = AlertRule(0.0, 1, (AlertTarget.PAGE, AlertTarget.WEBHOOK))
    verdict: AlertRule | None = AlertRule(0.0, 20)
    webhook: str | None = None

    NONE: ClassVar["AlertRules"]

    def __post_init__(self) -> None:
        if self.webhook is not None and not self.webhook.startswith(("http://", "https://")):
            raise InputError("webhook must start with http:// or https://")

    def rule(self, kind: AlertKind) -> AlertRule | None:
        """Return the rule of a kind."""
        rule: AlertRule | None = getattr(self, kind)
        return rule


AlertRules.NONE = AlertRules(None, None, None, None, None, None)


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that a rule tells; one for each kind and subject.

    subject       the query, source or item concerned; `workers` for imbalance
    value, above  the last value above the threshold, and the threshold
    batch, at     when it began to fire; `ended_at`: when it was resolved
    """

    kind: AlertKind
    subject: str
    message: str
    value: float
    above: float
    batch: int
    at: float
    ended_at: float | None = None

    @property
    def state(self) -> Literal["firing", "resolved"]:
        """Whether it fires or is resolved."""
        return "firing" if self.ended_at is None else "resolved"
