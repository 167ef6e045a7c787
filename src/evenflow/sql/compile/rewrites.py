"""Clauses that are written as others: QUALIFY, GROUP BY ALL, LATERAL in FROM."""

from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql.compile.outer_joins import check_join, join_kind
from evenflow.sql.translate.aggregates import has_aggregate
from evenflow.sql.translate.column_names import output_column_name
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.translator import declare
from evenflow.sql.translate.typed_expr import Ast

_QUALIFIED = "_qualified"
declare("this", exp.Qualify)


def with_plain_clauses(select: Ast) -> Ast:
    """Return a SELECT whose GROUP BY names its groups and whose LATERALs are views."""
    group, joins = select.args.get("group"), select.args.get("joins") or []
    laterals = [join for join in joins if isinstance(join.this, exp.Lateral)]
    by_all = group is not None and group.args.get("all")
    if not laterals and not by_all:
        return select
    rewritten = select.copy()
    rewritten.parent = select.parent  # parameters of a template belong to the outermost query
    if by_all:
        items = [item.unalias() for item in rewritten.expressions if not has_aggregate(item)]
        items = [item for item in items if not isinstance(item, exp.Literal)]  # 1 is a position
        if stars := [item for item in items if item.is_star]:
            raise refusal(stars[0], "cannot be grouped with GROUP BY ALL; name the columns")
        rewritten.set("group", exp.Group(expressions=[item.copy() for item in items]))
    if laterals:
        views = [_as_view(join) for join in laterals]
        rewritten.set("joins", [j.copy() for j in joins if j not in laterals])
        rewritten.set("laterals", [*views, *(v.copy() for v in select.args.get("laterals") or ())])
    return rewritten


def _as_view(join: Ast) -> Ast:
    """Write LATERAL in FROM as LATERAL VIEW; after LEFT JOIN, rows without a match are kept."""
    check_join(join)
    on, kind = join.args.get("on"), join_kind(join)
    is_plain = on is None or (isinstance(on, exp.Boolean) and on.this)
    if not is_plain or join.args.get("using") or kind not in ("INNER", "LEFT"):
        raise refusal(join, "is not supported; write LATERAL or LEFT JOIN LATERAL, then WHERE")
    view = join.this.copy()
    view.set("view", True)
    if kind == "LEFT":
        view.set("outer", True)
    return view


def with_column_names(query: Ast) -> Ast:
    """Return a later SELECT of a UNION with a name for each expression that has none."""
    if not isinstance(query, exp.Select):
        return query
    unnamed = [at for at, item in enumerate(query.expressions) if not _has_name(item)]
    if not unnamed:
        return query
    named = query.copy()
    named.parent = query.parent  # parameters of a template belong to the outermost query
    items = list(named.expressions)
    for at in unnamed:
        items[at] = exp.alias_(items[at], f"_column{at}")
    named.set("expressions", items)
    return named


def _has_name(item: Ast) -> bool:
    if item.is_star and not has_aggregate(item):
        return True
    try:
        output_column_name(item)
    except InputError:
        return False
    return True


def without_qualify(select: Ast, *, use_aliases: bool) -> tuple[Ast, Ast]:
    """Return a SELECT with the values of QUALIFY as columns, and the condition on them.

    With `use_aliases`, names in OVER mean expressions of SELECT; Spark tries columns first.
    """
    condition = select.args["qualify"].this.copy()
    calls = [str(node.this).lower() for node in condition.find_all(exp.Anonymous)]
    if stars := [item for item in select.expressions if item.is_star and "window" in calls]:
        raise refusal(stars[0], "would have the window of QUALIFY too in Spark; name the columns")
    inner = select.copy()
    inner.set("qualify", None)
    inner.set("with_", None)
    values = {item.alias.lower(): item.this for item in select.expressions if item.alias}
    extra = []
    for number, call in enumerate(_outermost_calls(condition)):
        name = f"{_QUALIFIED}{number}"
        value = _with_aliases(call, values) if use_aliases else call.copy()
        extra.append(exp.alias_(value, name))
        column = exp.column(name)
        if call is condition:
            condition = column
        else:
            call.replace(column)
    if not extra and not any(item.find(exp.Window) for item in select.expressions):
        raise InputError("QUALIFY needs a function with OVER; write WHERE or HAVING")
    inner.set("expressions", [*inner.expressions, *extra])
    return inner, condition


def select_where(inner: Ast, names: list[str], condition: Ast) -> Ast:
    """Write SELECT names FROM (inner) WHERE condition."""
    subquery = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(_QUALIFIED)))
    return exp.Select(
        expressions=[exp.column(exp.to_identifier(name, quoted=True)) for name in names],
        from_=exp.From(this=subquery),
        where=exp.Where(this=condition),
    )


def is_helper_column(name: str) -> bool:
    """Tell whether a column was added for QUALIFY."""
    return name.startswith(_QUALIFIED)


def _outermost_calls(condition: Ast) -> list[Ast]:
    calls = list(condition.find_all(exp.Window))
    return [call for call in calls if call.find_ancestor(exp.Window) is None]


def _with_aliases(call: Ast, values: dict[str, Ast]) -> Ast:
    copied = call.copy()
    for column in list(copied.find_all(exp.Column)):
        if not column.table and (value := values.get(column.name.lower())) is not None:
            column.replace(exp.paren(value.copy()))
    return copied
