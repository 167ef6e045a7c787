"""Random expressions and queries answer as Spark's batch SQL does: value, type, and failure."""

from typing import Any

import pytest
from tests.support import fuzz
from tests.support.differential import compare_query, fuzz_session
from tests.support.fuzz_findings import FINDINGS, MENDED, Finding, find_known

pytestmark = pytest.mark.slow
SEED = 19


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    return fuzz_session(spark)


def unknown(differences: list[Any]) -> str:
    new = [difference for difference in differences if find_known(difference) is None]
    return "\n\n".join(map(fuzz.describe, new))


def test_two_thousand_expressions(session: Any) -> None:
    found = fuzz.expressions(session, SEED, 2_000)
    assert found.generated == 2_000
    assert found.compared > 1_000
    assert not unknown(found.differences), unknown(found.differences)


def test_two_hundred_queries(session: Any) -> None:
    found = fuzz.queries(session, SEED, 200, is_known=lambda d: find_known(d) is not None)
    assert found.generated == 200
    assert found.compared > 150
    assert not unknown(found.differences), unknown(found.differences)


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda finding: finding.sql)
def test_a_known_difference_still_differs(session: Any, finding: Finding) -> None:
    difference = compare_query(session, finding.sql, {"t": finding.table},
                               batches=finding.batches)  # fmt: skip
    assert difference is not None, "mended: remove it from fuzz_findings.py"


@pytest.mark.parametrize("finding", MENDED, ids=lambda finding: finding.reason)
def test_a_mended_difference_is_gone(session: Any, finding: Finding) -> None:
    difference = compare_query(session, finding.sql, {"t": finding.table},
                               batches=finding.batches)  # fmt: skip
    assert difference is None, fuzz.describe(difference)
