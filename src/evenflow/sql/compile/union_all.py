"""UNION ALL: parts of equal columns, one set of names, and times that stay times."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from evenflow.errors import InputError
from evenflow.sql import types
from evenflow.sql.query_plan import PlanNode, UnionNode
from evenflow.sql.translate.typed_expr import EventTime, Field, Relation


def compile_union_all(ids: Iterator[int], parts: list[PlanNode]) -> UnionNode:
    """Put parts of equal columns together; a time stays one if it is one in every part."""
    first = parts[0].relation
    fields: list[Field] = []
    lags: dict[str, int] = {}
    for at, entry in enumerate(first.fields):
        for part in parts[1:]:
            if len(part.relation.fields) != len(first.fields):
                raise InputError("the sides of UNION ALL have different numbers of columns")
            other = part.relation.fields[at]
            if other.type != entry.type:
                raise InputError(
                    f"column {at + 1} of UNION ALL is {types.spark_name(entry.type)} on one side "
                    f"and {types.spark_name(other.type)} on another; cast one"
                )
        times = [part.relation.fields[at].time for part in parts]
        time = None
        if all(t is not None and t.width_us == times[0].width_us for t in times):  # type: ignore[union-attr]
            time = EventTime(f"u{at}", 0, times[0].width_us)  # type: ignore[union-attr]
            lags[time.clock] = max(
                part.relation.lags_us[t.clock] - t.offset_us
                for part, t in zip(parts, times, strict=True)
                if t is not None
            )
        fields.append(Field(entry.name, entry.type, time))
    named = tuple(_rename_columns(ids, part, [f.name for f in fields]) for part in parts)
    return UnionNode(next(ids), named, Relation(tuple(fields), lags))


def _rename_columns(ids: Iterator[int], part: PlanNode, names: list[str]) -> PlanNode:
    """Give a part of a union the column names of the first part."""
    old = part.relation.schema.names
    if old == names or isinstance(part, UnionNode):
        return part
    fields = tuple(replace(f, name=n) for f, n in zip(part.relation.fields, names, strict=True))
    shared: dict[str, Any] = {
        "id": next(ids),
        "relation": replace(part.relation, fields=fields),
        "select": tuple((n, sql) for n, (_, sql) in zip(names, part.select, strict=True)),
        "lineage": {
            n: part.lineage[o] for n, o in zip(names, old, strict=True) if o in part.lineage
        },
    }
    return replace(part, **shared)
