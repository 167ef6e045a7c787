"""ROLLUP, CUBE and GROUPING SETS, written as one SELECT with GROUP BY for each set."""

from itertools import combinations

from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql.translate.aggregates import is_aggregate
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.translator import declare
from evenflow.sql.translate.typed_expr import Ast

MAX_SETS = 32
_KINDS = (exp.Rollup, exp.Cube, exp.GroupingSets)


def expand_grouping_sets(select: Ast) -> list[Ast]:
    """Return one SELECT for each set of groups; none if the query has a plain GROUP BY."""
    group = select.args.get("group")
    if group is None:
        return []
    plain = [e for e in group.expressions if not isinstance(e, _KINDS)]
    parts = [_sets(e) for e in group.expressions if isinstance(e, _KINDS)]
    for name in ("rollup", "cube", "grouping_sets"):
        for kind in group.args.get(name) or ():
            if isinstance(kind, exp.GroupingSets):  # GROUP BY a, b GROUPING SETS ((a), (b))
                parts.append(_sets(kind))
                listed = {item for found in parts[-1] for item in found}
                plain = [e for e in plain if e not in listed]
            else:  # GROUP BY a, b WITH ROLLUP
                windows = [e for e in plain if e.find(exp.Anonymous)]
                items = [e for e in plain if e not in windows]
                parts.append(_sets(type(kind)(expressions=items)))
                plain = windows
    if not parts:
        return []
    sets: list[tuple[Ast, ...]] = [()]
    for part in parts:
        sets = [(*before, *chosen) for before in sets for chosen in part]
        _check_count(len(sets))
    return [_with_groups(select, plain, chosen, sets) for chosen in sets]


def _sets(kind: Ast) -> list[tuple[Ast, ...]]:
    items = [_items(item) for item in kind.expressions]
    # Before they are listed: 30 columns in CUBE are a thousand million sets.
    _check_count(2 ** min(len(items), MAX_SETS) if isinstance(kind, exp.Cube) else len(items))
    if isinstance(kind, exp.Rollup):
        return [sum(items[:size], ()) for size in range(len(items), -1, -1)]
    if isinstance(kind, exp.Cube):
        sizes = range(len(items), -1, -1)
        return [sum(found, ()) for size in sizes for found in combinations(items, size)]
    found: list[tuple[Ast, ...]] = []
    for item in kind.expressions:
        found += _sets(item) if isinstance(item, _KINDS) else [_items(item)]
    return found


def _check_count(sets: int) -> None:
    if sets > MAX_SETS:
        raise InputError(f"GROUP BY has more than {MAX_SETS} sets of groups; use fewer")


def _items(item: Ast) -> tuple[Ast, ...]:
    if isinstance(item, exp.Tuple):
        return tuple(item.expressions)
    return (item.this,) if isinstance(item, exp.Paren) else (item,)


def _with_groups(
    select: Ast, plain: list[Ast], chosen: tuple[Ast, ...], sets: list[tuple[Ast, ...]]
) -> Ast:
    """Copy a SELECT with these groups; those of other sets are NULL."""
    named = {e.alias.lower(): e.this for e in select.expressions if isinstance(e, exp.Alias)}

    def resolve(item: Ast) -> Ast:
        is_name = isinstance(item, exp.Column) and not item.table
        return named.get(item.name.lower(), item) if is_name else item

    every = list(dict.fromkeys(item for found in sets for item in found))
    missing = [item for item in every if item not in chosen]
    copied = select.copy()
    copied.args["group"] = exp.Group(expressions=[item.copy() for item in (*plain, *chosen)])
    absent = [*missing, *map(resolve, missing)]
    order = [resolve(item) for item in every]
    lacking = [resolve(item) for item in missing]
    copied.set("expressions", [_rewrite(e, absent, order, lacking) for e in copied.expressions])
    if copied.args.get("having") is not None:
        copied.set("having", _rewrite(copied.args["having"], absent, order, lacking))
    return copied


def _rewrite(node: Ast, missing: list[Ast], order: list[Ast], lacking: list[Ast]) -> Ast:
    if isinstance(node, exp.Anonymous) and str(node.this).lower() in ("grouping", "grouping_id"):
        return _grouping(node, order, lacking)
    if is_aggregate(node):
        return node
    if node in missing:  # an aggregate that is NULL in the type of the group
        nothing = exp.Case(ifs=[exp.If(this=exp.false(), true=node.copy())])
        absent: Ast = exp.Anonymous(this="max", expressions=[nothing])
        name = node.name if isinstance(node, exp.Column) else ""
        is_selected = isinstance(node.parent, exp.Select)
        return exp.alias_(absent, name) if name and is_selected else absent
    for child in list(node.iter_expressions()):
        changed = _rewrite(child, missing, order, lacking)
        if changed is not child:
            child.replace(changed)
    return node


def _grouping(node: Ast, order: list[Ast], lacking: list[Ast]) -> Ast:
    """Write grouping(x) as 0 or 1, and grouping_id() as the bits of all groups."""
    items = list(node.expressions) or order
    if any(item not in order for item in items):
        raise refusal(node, "names an expression that is not in GROUP BY")
    bits = sum((item in lacking) << at for at, item in enumerate(reversed(items)))
    kind = "TINYINT" if str(node.this).lower() == "grouping" else "BIGINT"
    return exp.Cast(this=exp.Literal.number(bits), to=exp.DataType.build(kind))


declare("expressions", exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)
