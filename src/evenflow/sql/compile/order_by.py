"""ORDER BY of the outermost query: the order of the rows that one step of a task returns."""

from collections.abc import Sequence

from sqlglot import exp

from evenflow.sql.relation import Relation
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.typed_expr import Ast
from evenflow.sql.types import is_hashable, quote_identifier


def order_sql(query: Ast, relation: Relation, is_template: bool) -> tuple[str, ...]:
    """Write the items of a query's ORDER BY over the columns of its result.

    Each is a column of the result, by name, number or as it stands in SELECT, where the first
    column of a template, the subscription, is not.
    """
    order = query.args.get("order")
    first = query
    while isinstance(first, exp.Union):
        first = first.left
    names, selected = relation.schema.names, relation.schema.names[is_template:]
    items = first.expressions if len(first.expressions) == len(selected) else ()
    written = []
    for item in order.expressions if order is not None else ():
        name = _column_name(item.this, items, selected, names)
        if name is None:
            raise refusal(item, "is not a column of the result; select it, then order by its name")
        if not is_hashable(relation.schema.field(name).type):
            raise refusal(item, "cannot be ordered; order by one of its fields")
        direction = "DESC" if item.args.get("desc") else "ASC"
        nulls = "FIRST" if item.args.get("nulls_first") else "LAST"
        written.append(f"{quote_identifier(name)} {direction} NULLS {nulls}")
    return tuple(written)


def _column_name(
    node: Ast, items: Sequence[Ast], selected: list[str], names: list[str]
) -> str | None:
    if isinstance(node, exp.Literal) and not node.is_string:
        text = str(node.this)
        is_position = text.isdigit() and 1 <= int(text) <= len(selected)
        return selected[int(text) - 1] if is_position else None
    if isinstance(node, exp.Column) and not node.table:
        for name in names:
            if name.lower() == node.name.lower():
                return name
    plain = node.sql("spark").lower()
    for item, name in zip(items, selected, strict=False):
        if item.unalias().sql("spark").lower() == plain:
            return name
    return None
