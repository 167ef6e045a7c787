"""Errors about a piece of the query: its text, the problem, and what to write instead."""

from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql.translate.typed_expr import Ast

_REFUSALS: tuple[tuple[tuple[type, ...], str], ...] = (
    ((exp.Subquery, exp.Exists, exp.Select), "join the other relation in FROM instead"),
    ((exp.Rand, exp.Randn, exp.Uuid), "its result changes from run to run; add a column upstream"),
    (
        (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentUser),
        "its result changes from run to run; use the event-time column",
    ),
    ((exp.Explode, exp.Posexplode, exp.Unnest), "explode the rows before they reach the stream"),
    ((exp.First, exp.Last), "its result depends on the order of arrival; use min or max"),
    ((exp.AnyValue,), "its result depends on the order of arrival; use min or max"),
    (
        (exp.ArrayAgg,),
        "its order depends on arrival; aggregate numbers, or write a Python operator",
    ),
    ((exp.ArrayUniqueAgg,), "its order depends on arrival; use count(DISTINCT x)"),
    ((exp.ApproxDistinct,), "its result differs between engines; use count(DISTINCT x)"),
    ((exp.AggFunc,), "aggregates belong in SELECT or HAVING of a query with GROUP BY window(...)"),
    ((exp.Interval,), "an INTERVAL can only be added to or subtracted from a timestamp"),
    ((exp.Star,), "name the columns"),
)


def quote_sql(node: Ast) -> str:
    """Quote a piece of the query for a message, shortened to 80 characters."""
    sql = " ".join(node.sql("spark").split())
    return f"`{sql}`" if len(sql) <= 80 else f"`{sql[:77]}...`"


def refusal(node: Ast, problem: str) -> InputError:
    """Return an error that names a piece of the query and its problem."""
    return InputError(f"{quote_sql(node)} {problem}")


def unsupported(node: Ast) -> InputError:
    """Return the error for an expression that no rule translates."""
    for kinds, advice in _REFUSALS:
        if isinstance(node, kinds):
            return refusal(node, f"is refused: {advice}")
    return refusal(
        node,
        "is not supported in a continuous query; compute it in Spark before the stream "
        "(`select` of the source), or write a Python operator",
    )
