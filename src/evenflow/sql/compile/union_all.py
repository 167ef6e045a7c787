"""UNION ALL: the parts have the same number of columns, of the same types."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from evenflow.errors import InputError
from evenflow.sql.query_plan import PlanNode, UnionNode
from evenflow.sql.relation import EventTime, Field, Relation
from evenflow.sql.types import spark_name


def compile_union_all(ids: Iterator[int], parts: list[PlanNode]) -> UnionNode:
    """Concatenate parts; a column is an event time if it is one in every part, of one width."""
    first = parts[0].relation
    if any(len(part.relation.fields) != len(first.fields) for part in parts):
        raise InputError("the parts of UNION ALL have different numbers of columns")
    fields: list[Field] = []
    lags_us: dict[str, int] = {}
    for index, column in enumerate(first.fields):
        for part in parts[1:]:
            other = part.relation.fields[index]
            if other.type != column.type:
                raise InputError(
                    f"column {index + 1} of UNION ALL is {spark_name(column.type)} on one side "
                    f"and {spark_name(other.type)} on another; cast one"
                )
        times = [t for part in parts if (t := part.relation.fields[index].time) is not None]
        time = None
        if len(times) == len(parts) and len({t.width_us for t in times}) == 1:
            time = EventTime(f"u{index}", width_us=times[0].width_us)
            lags_us[time.clock] = max(
                part.relation.lags_us[t.clock] - t.offset_us
                for part, t in zip(parts, times, strict=True)
            )
        fields.append(Field(column.name, column.type, time))
    renamed = tuple(_rename_columns(ids, part, [f.name for f in fields]) for part in parts)
    return UnionNode(next(ids), renamed, Relation(tuple(fields), lags_us))


def _rename_columns(ids: Iterator[int], part: PlanNode, names: list[str]) -> PlanNode:
    old_names = part.relation.schema.names
    if old_names == names or isinstance(part, UnionNode):  # the caller flattens nested unions
        return part
    fields = tuple(replace(f, name=n) for f, n in zip(part.relation.fields, names, strict=True))
    changes: dict[str, Any] = {  # fields of both kinds of node
        "id": next(ids),
        "relation": replace(part.relation, fields=fields),
        "select": tuple((n, sql) for n, (_, sql) in zip(names, part.select, strict=True)),
        "lineage": {
            n: part.lineage[o] for n, o in zip(names, old_names, strict=True) if o in part.lineage
        },
    }
    return replace(part, **changes)
