"""The section `alerts` of a specification."""

import pytest
from pydantic import ValidationError

from evenflow.model.alert import AlertRule, AlertRules
from evenflow.spec.alerts import AlertsSpec


def test_what_is_left_out_is_as_by_default() -> None:
    assert AlertsSpec.model_validate({}).rules() == AlertRules()
    given = {"imbalance": {"above": 2}, "lag": False, "quarantine": {"to": ["log"]}}
    rules = AlertsSpec.model_validate(given).rules()
    assert rules == AlertRules(
        imbalance=AlertRule(2, batches=20), lag=None, quarantine=AlertRule(0.0, to=("log",))
    )


@pytest.mark.parametrize(
    "given",
    [{"webhook": "ftp://x"}, {"imbalance": {"over": 1}}, {"lag": {"to": ["mail"]}}, {"other": {}}],
)
def test_mistakes_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        AlertsSpec.model_validate(given)
