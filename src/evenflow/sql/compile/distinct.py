"""SELECT DISTINCT and UNION, written as GROUP BY: a row is known when its time has passed."""

from sqlglot import exp

from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.typed_expr import Ast


def without_duplicates(query: Ast) -> Ast:
    """Return a query without its DISTINCT."""
    distinct = query.args["distinct"]
    if isinstance(distinct, exp.Distinct) and distinct.args.get("on"):
        raise refusal(query, "has DISTINCT ON; write row_number() OVER (...)")
    plain = query.copy()
    plain.set("distinct", False if isinstance(query, exp.Union) else None)
    plain.set("with_", None)  # its queries are in scope
    return plain


def group_by_all(query: Ast, names: list[str]) -> Ast:
    """Write SELECT names FROM (query) GROUP BY names."""
    columns = [exp.column(exp.to_identifier(name, quoted=True)) for name in names]
    inner = exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier("_rows")))
    return exp.Select(
        expressions=columns,
        from_=exp.From(this=inner),
        group=exp.Group(expressions=[column.copy() for column in columns]),
    )
