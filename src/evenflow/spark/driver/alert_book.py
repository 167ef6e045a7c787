"""The alerts of a run: which fire, which are resolved, and who is told."""

import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from evenflow.model.alert import Alert, AlertKind, AlertRules, AlertTarget
from evenflow.spark.driver.alert_measures import CommittedBatch, Measure, lags, measure
from evenflow.spark.driver.webhook import Webhook

MAX_RESOLVED = 100
MAX_FIRING = 200  # subjects beyond are not told one by one
_log = logging.getLogger("evenflow.alerts")


class AlertBook:
    """Applies the rules after each commit, and tells what begins to fire or is resolved, once.

    Driver process, as long as the run. `check` runs in the thread of Spark's micro-batch and never
    waits: a thread of its own calls the webhook. Other threads read `alerts`.
    """

    def __init__(self, rules: AlertRules, checkpoint: str) -> None:
        self.rules = rules
        self._webhook = None if rules.webhook is None else Webhook(rules.webhook, checkpoint)
        self._firing: dict[tuple[AlertKind, str], Alert] = {}
        self._resolved: deque[Alert] = deque(maxlen=MAX_RESOLVED)
        self._streaks: dict[tuple[AlertKind, str], int] = {}  # batches above, or again below
        self._lowest_lags: dict[str, float] = {}

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """Those that fire, then those that were resolved, the newest first."""
        told = (*self._firing.values(), *self._resolved)
        shown = [alert for alert in told if self._goes_to(alert, AlertTarget.PAGE)]
        return tuple(sorted(shown, key=lambda a: (a.state == "resolved", -(a.ended_at or a.at))))

    def check(self, batch: CommittedBatch) -> None:
        """Apply the rules to a committed batch; whatever goes wrong, the run goes on."""
        try:
            measures = list(measure(batch, self._lowest_lags))
            for source, lag in lags(batch).items():
                self._lowest_lags[source] = min(lag, self._lowest_lags.get(source, lag))
            self.update(measures, batch.snapshot.batch, batch.snapshot.at, batch.silent_kinds)
        except Exception:
            _log.exception("the alert rules cannot be applied to batch %s", batch.snapshot.batch)

    def update(
        self,
        measures: Iterable[Measure],
        batch: int,
        at: float,
        silent: frozenset[AlertKind] = frozenset(),
    ) -> None:
        """Fire and resolve alerts; a batch cannot tell the end of the kinds in `silent`."""
        above = {}
        for each in measures:
            rule = self.rules.rule(each.kind)
            if rule is not None and each.value > rule.above:
                above[each.kind, each.subject] = each
        for key in {*above, *self._firing, *self._streaks}:
            if key in above or key[0] not in silent:
                self._step(key, above.get(key), batch, at)

    def close(self) -> None:
        """Give the webhook a moment to send what is left."""
        if self._webhook is not None:
            self._webhook.close()

    def _step(
        self, key: tuple[AlertKind, str], seen: Measure | None, batch: int, at: float
    ) -> None:
        """Count a batch above the threshold, or for one that fires, a batch below."""
        rule, alert = self.rules.rule(key[0]), self._firing.get(key)
        if rule is None or (seen is None) == (alert is None):
            self._streaks.pop(key, None)
            return
        self._streaks[key] = self._streaks.get(key, 0) + 1
        if self._streaks[key] < rule.batches:
            return
        del self._streaks[key]
        if alert is not None:
            del self._firing[key]
            ended = replace(alert, ended_at=at)
            self._resolved.append(ended)
            self._tell(ended)
        elif seen is not None and len(self._firing) < MAX_FIRING:
            alert = Alert(*key, seen.message, seen.value, rule.above, batch, at)
            self._firing[key] = alert
            self._tell(alert)

    def _goes_to(self, alert: Alert, target: AlertTarget) -> bool:
        rule = self.rules.rule(alert.kind)
        return rule is not None and target in rule.to

    def _tell(self, alert: Alert) -> None:
        if self._goes_to(alert, AlertTarget.LOG):
            facts = {"batch": alert.batch, "subject": alert.subject}
            if alert.ended_at is None:
                _log.warning("batch %s: %s", alert.batch, alert.message, extra=facts)
            else:
                _log.info("over, it began at batch %s: %s", alert.batch, alert.message, extra=facts)
        if self._webhook is not None and self._goes_to(alert, AlertTarget.WEBHOOK):
            self._webhook.send(alert)
