"""No argument of a parsed node is ignored: what its rule has not declared is refused."""

import pytest
from sqlglot import exp
from tests.support.sql_oracle import CATALOG

from evenflow.errors import InputError
from evenflow.sql import compile_query
from evenflow.sql.translate.translator import ARGUMENTS, RULES, undeclared_arguments

KINDS = sorted(ARGUMENTS, key=lambda kind: kind.__name__)


def test_every_rule_declares_its_arguments() -> None:
    read = {*RULES, exp.Filter, exp.Distinct, exp.Anonymous, exp.Join, exp.Lambda, exp.WithinGroup}
    assert read <= ARGUMENTS.keys()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_undeclared_argument_is_refused(kind: type[exp.Expression]) -> None:
    declared = dict.fromkeys(ARGUMENTS[kind], exp.Literal.number(1))
    assert undeclared_arguments(kind(**declared)) == []
    for name in {*kind.arg_types, "added_later"} - ARGUMENTS[kind]:
        for value in (True, "x", exp.Literal.number(1), [exp.Literal.number(1)]):
            assert undeclared_arguments(kind(**declared, **{name: value})) == [name]
        assert undeclared_arguments(kind(**declared, **{name: None})) == []
        assert undeclared_arguments(kind(**declared, **{name: False})) == []
        assert undeclared_arguments(kind(**declared, **{name: []})) == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT round(price, 1, 2) AS r FROM trades",
        "SELECT qty BETWEEN SYMMETRIC 3 AND 1 AS r FROM trades",
        "SELECT qty FROM trades WHERE qty BETWEEN SYMMETRIC 3 AND 1",
        "SELECT max(qty, 3) AS m FROM trades GROUP BY window(ts, '1 second')",
        "SELECT CAST(symbol AS STRING FORMAT 'x') AS r FROM trades",
        "SELECT floor(ts TO DAY) AS r FROM trades",
        "(SELECT qty FROM trades) LIMIT 5",
        "SELECT qty FROM (SELECT qty FROM trades) TABLESAMPLE (5 PERCENT)",
        "WITH x AS MATERIALIZED (SELECT qty FROM trades) SELECT qty FROM x",
    ],
)
def test_an_argument_that_was_ignored_is_refused(sql: str) -> None:
    with pytest.raises(InputError, match=r"not supported|cannot be|takes 1"):
        compile_query("q", sql, CATALOG)


@pytest.mark.parametrize("text", ["pmod(1, 2, 3)", "pmod(1)", "window_time(ts, 1)", "nvl2(1, 2)"])
def test_functions_by_name_check_how_many_arguments_they_get(text: str) -> None:
    with pytest.raises(InputError, match=r"has \d arguments|needs"):
        compile_query("q", f"SELECT {text} AS r FROM trades", CATALOG)
