"""UNION ALL of parts with equal columns."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from evenflow.errors import InputError
from evenflow.sql.query_plan import PlanNode, UnionNode
from evenflow.sql.relation import EventTime, Field, Relation
from evenflow.sql.types import spark_name


def compile_union_all(ids: Iterator[int], parts: list[PlanNode]) -> UnionNode:
    """Concatenate parts; a column is an event time if it is one in every part."""
    first = parts[0].relation
    fields: list[Field] = []
    lags: dict[str, int] = {}
    for index, column in enumerate(first.fields):
        for part in parts[1:]:
            if len(part.relation.fields) != len(first.fields):
                raise InputError("the sides of UNION ALL have different numbers of columns")
            other = part.relation.fields[index]
            if other.type != column.type:
                raise InputError(
                    f"column {index + 1} of UNION ALL is {spark_name(column.type)} on one side "
                    f"and {spark_name(other.type)} on another; cast one"
                )
        times = [part.relation.fields[index].time for part in parts]
        time = None
        if all(t is not None and t.width_us == times[0].width_us for t in times):  # type: ignore[union-attr]
            time = EventTime(f"u{index}", 0, times[0].width_us)  # type: ignore[union-attr]
            lags[time.clock] = max(
                part.relation.lags_us[t.clock] - t.offset_us
                for part, t in zip(parts, times, strict=True)
                if t is not None
            )
        fields.append(Field(column.name, column.type, time))
    named = tuple(_rename_columns(ids, part, [f.name for f in fields]) for part in parts)
    return UnionNode(next(ids), named, Relation(tuple(fields), lags))


def _rename_columns(ids: Iterator[int], part: PlanNode, names: list[str]) -> PlanNode:
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
