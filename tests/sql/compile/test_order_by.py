"""ORDER BY names columns of SELECT by their numbers, also where a result has more columns."""

import pytest
from tests.support.sql_oracle import CATALOG

from evenflow.sql.program import compile_query, compile_template

BY_SYMBOL = ('"symbol" ASC NULLS FIRST',)


@pytest.mark.parametrize("order", ["1", "symbol"])
def test_the_first_column_of_a_template_is_not_its_subscription(order: str) -> None:
    sql = f"SELECT symbol, qty FROM trades WHERE qty > :least ORDER BY {order}"
    assert compile_template("t", sql, CATALOG).plan.order == BY_SYMBOL
    sql = sql.replace(":least", "1")
    assert compile_query("q", sql, CATALOG).plan.order == BY_SYMBOL


def test_a_template_can_be_ordered_by_subscription() -> None:
    sql = "SELECT symbol FROM trades WHERE qty > :least ORDER BY subscription DESC"
    assert compile_template("t", sql, CATALOG).plan.order == ('"subscription" DESC NULLS LAST',)


def test_results_that_are_updated_can_be_ordered_by_an_aggregate() -> None:
    sql = (
        "SELECT /*+ UPDATE_MODE, TTL('1 hour') */ symbol, count(*) AS n FROM trades "
        "GROUP BY symbol ORDER BY count(*), 1"
    )
    assert compile_query("q", sql, CATALOG).plan.order == ('"n" ASC NULLS FIRST', *BY_SYMBOL)
