"""The mode and the ttl of a query are written into its text, behind the outermost SELECT."""

import pytest
from tests.support.sql_oracle import CATALOG

from evenflow.errors import InputError
from evenflow.sql import compile_query
from evenflow.sql.compile.hints import with_hints


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT symbol, count(*) AS n FROM trades GROUP BY symbol",
        "WITH t AS (SELECT ts, '(' AS symbol FROM trades) "
        "SELECT symbol, count(*) AS n FROM t GROUP BY symbol",
        "WITH t AS (SELECT ts, ') SELECT' AS symbol FROM trades) -- (\n"
        "select symbol, count(*) AS n FROM t GROUP BY symbol",
    ],
)
def test_the_hint_is_that_of_the_outermost_select(sql: str) -> None:
    program = compile_query("q", with_hints(sql, "update", "1 hour"), CATALOG)
    assert program.upsert_key == ("symbol",)


def test_a_query_in_parentheses_takes_no_mode() -> None:
    with pytest.raises(InputError, match="without parentheses"):
        with_hints("(SELECT symbol FROM trades)", "update", None)
