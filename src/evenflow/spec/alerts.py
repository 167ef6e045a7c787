"""The section `alerts` of a specification."""

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from evenflow.model.alert import AlertKind, AlertRule, AlertRules
from evenflow.spec.base import SpecModel

_DEFAULTS = AlertRules()


class AlertRuleSpec(SpecModel):
    """When and where to tell; what is left out is as in the table of defaults. `off`: never."""

    above: float | None = Field(None, ge=0, description="Threshold that a value must exceed.")
    batches: int | None = Field(
        None, ge=1, description="In so many batches in a row; as many below end it."
    )
    to: tuple[Literal["log", "page", "webhook"], ...] | None = Field(
        None, description="Where: `log`, `page` (also the API and `evenflow alerts`), `webhook`."
    )


# YAML reads a bare `off` as false and `on` as true.
RuleField = Annotated[
    AlertRuleSpec | Literal[False],
    BeforeValidator(lambda value: {} if value is True or value is None else value),
]


def _rule(description: str) -> Any:
    return Field(default_factory=lambda: AlertRuleSpec.model_validate({}), description=description)


class AlertsSpec(SpecModel):
    """Rules by which a run tells somebody."""

    webhook: str | None = Field(
        None, description="Address that gets each alert as JSON by POST: `${ALERT_URL}`."
    )
    imbalance: RuleField = _rule("Largest over mean load of the workers. Above 1.5, 20 batches.")
    lag: RuleField = _rule(
        "Seconds that the watermark of a source is further behind the clock than at its best. "
        "Above 600, 3 batches."
    )
    quarantine: RuleField = _rule("A query failed and was stopped. At once.")
    late_rows: RuleField = _rule("Share of a query's rows that were late. Above 0.01, 5 batches.")
    set_aside: RuleField = _rule("Rows of a source set aside. At once; the log has its own line.")
    verdict: RuleField = _rule("A goal that balancing cannot reach. After 20 batches.")

    @model_validator(mode="after")
    def _validate_webhook(self) -> "AlertsSpec":
        self.rules()
        return self

    def rules(self) -> AlertRules:
        """Return the rules, with the defaults for what is left out."""
        found = {kind: _merge(getattr(_DEFAULTS, kind), getattr(self, kind)) for kind in AlertKind}
        return AlertRules(**found, webhook=self.webhook)


def _merge(default: AlertRule, spec: AlertRuleSpec | Literal[False]) -> AlertRule | None:
    if spec is False:
        return None
    given = {name: value for name, value in spec.model_dump().items() if value is not None}
    return replace(default, **given)
