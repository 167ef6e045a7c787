"""Update mode: results before they are complete, each in the place of an earlier one.

Rows get a column `version`, the number of the batch; of a window also `is_final`.
"""

from dataclasses import replace

from evenflow.errors import InputError
from evenflow.names import join_names
from evenflow.sql import types
from evenflow.sql.compile.group_by import WINDOW_CLOCK
from evenflow.sql.query_plan import IS_FINAL, VERSION, AggregateNode, PlanNode
from evenflow.sql.relation import Field, Relation


def as_updates(node: PlanNode) -> tuple[AggregateNode, tuple[str, ...]]:
    """Return an aggregate with early results, and the columns that identify a result."""
    if not isinstance(node, AggregateNode):
        raise InputError(
            "UPDATE_MODE needs GROUP BY in the outermost SELECT, without OVER, UNION, QUALIFY and "
            "GROUPING SETS"
        )
    if node.windows.is_session:
        raise InputError(
            "UPDATE_MODE: two sessions can become one, so a session cannot be updated; leave the "
            "hint out, or group by window(...)"
        )
    if node.having is not None:
        raise InputError(
            "UPDATE_MODE: a result could not be taken back once HAVING no longer holds; select "
            "the aggregate and filter where the results are read"
        )
    fields = [Field(f.name, f.type) for f in node.relation.fields]
    added = [("version", types.LONG, VERSION)]
    if node.windows.ttl_us is None:
        added.append(("is_final", types.BOOLEAN, IS_FINAL))
    if taken := {f.name.lower() for f in fields} & {name for name, *_ in added}:
        raise InputError(f"UPDATE_MODE adds the column {min(taken)!r}; rename yours with AS")
    changed = replace(
        node,
        select=(*node.select, *((name, types.quote_identifier(mark)) for name, _, mark in added)),
        relation=Relation((*fields, *(Field(name, kind) for name, kind, _ in added))),
        updates=True,
    )
    return changed, _identity(node)


def _identity(node: AggregateNode) -> tuple[str, ...]:
    """Return the columns of the result that tell its groups apart."""
    found = {key: name for name, key in reversed([*node.lineage.items()])}
    # A time rounded further, such as to_date(window.start), is that of several windows.
    times = [f.name for f in node.relation.fields if f.time and f.time.clock == WINDOW_CLOCK]
    missing = len(node.keys) - len(found) + (node.windows.ttl_us is None and not times)
    if missing:
        raise InputError(
            f"UPDATE_MODE: {missing} of the groups {'is' if missing == 1 else 'are'} missing in "
            "SELECT; name all of them, as they identify a result; named are "
            f"{join_names([*times[:1], *found.values()])}"
        )
    return (*times[:1], *(found[key] for key in node.keys))
