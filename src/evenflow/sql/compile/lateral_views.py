"""LATERAL VIEW explode, posexplode and inline, also written as functions in SELECT."""

import re
from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

from evenflow.sql.query_plan import LateralView
from evenflow.sql.relation import Field, Relation
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.translator import NAMED_RULES, RULES, Translator, declare
from evenflow.sql.translate.typed_expr import Ast, TypedExpr
from evenflow.sql.types import quote_identifier, quote_string, spark_name

_GENERATORS = ("explode", "posexplode", "inline", "stack", "json_tuple")
_LIST, _ITEM = "_list", "_item"
Columns = Mapping[str, tuple[str, pa.DataType]]  # name -> SQL, type


def compile_lateral(
    translate: Translator, lateral: Ast, alias: str
) -> tuple[LateralView, Relation]:
    """Compile one LATERAL VIEW over the relations before it."""
    call = _as_inline(lateral.this)
    name = generator_name(call)
    if name is None or len(call.expressions) != 1:
        raise refusal(lateral, "is not supported; use explode, posexplode or inline of one array")
    value = translate(call.expressions[0])
    columns = _columns(call, name.removesuffix("_outer"), value)
    names = [part.name for part in lateral.args["alias"].args.get("columns") or ()]
    if names and len(names) != len(columns):
        raise refusal(lateral, f"names {len(names)} columns; {name} makes {len(columns)}")
    named = dict(zip(names or columns, columns.values(), strict=True))
    listed = f"map_entries({value.sql})" if pa.types.is_map(value.type) else value.sql
    selected = ", ".join(f"{sql} AS {quote_identifier(n)}" for n, (sql, _) in named.items())
    items = f"SELECT unnest({_LIST}) AS {_ITEM}, unnest(range(len({_LIST}))) AS _at"
    body = f"SELECT {selected} FROM ({items} FROM (SELECT {listed} AS {_LIST}))"  # noqa: S608
    is_outer = bool(lateral.args.get("outer")) or name.endswith("_outer")
    relation = Relation(tuple(Field(n, kind) for n, (_, kind) in named.items()))
    return LateralView(alias, body, is_outer), relation


def generator_name(node: Ast) -> str | None:
    """Return the name of a function that makes rows; None for any other node."""
    name = str(node.this).lower() if isinstance(node, exp.Anonymous) else ""
    return name if name.removesuffix("_outer") in _GENERATORS else None


def _as_inline(call: Ast) -> Ast:
    """Write stack and json_tuple as inline of an array of structs."""
    name, arguments = generator_name(call), list(call.expressions)
    if name == "json_tuple" and len(arguments) > 1:
        if not all(key.is_string and re.fullmatch(r"\w+", key.name) for key in arguments[1:]):
            raise refusal(call, "needs names of fields as constant texts, such as 'id'")
        values = [
            _call("get_json_object", arguments[0], exp.Literal.string(f"$.{key.name}"))
            for key in arguments[1:]
        ]
        rows = [values]
    elif name == "stack" and arguments and arguments[0].is_int:
        count = int(arguments[0].name)
        width, rest = divmod(len(arguments) - 1, max(count, 1))
        if count < 1 or rest or not width:
            raise refusal(call, "needs a number of rows and as many values for each of them")
        rows = [arguments[1 + at * width : 1 + (at + 1) * width] for at in range(count)]
    else:
        return call
    first = "c" if name == "json_tuple" else "col"
    structs = [
        _call(
            "named_struct",
            *(part for at, value in enumerate(row)
              for part in (exp.Literal.string(f"{first}{at}"), value.copy())),
        )
        for row in rows
    ]  # fmt: skip
    inline = _call("inline", _call("array", *structs))
    inline.meta.update(call.meta)
    return inline


def _call(name: str, *arguments: Ast) -> Ast:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _columns(call: Ast, name: str, value: TypedExpr) -> Columns:
    kind = value.type
    is_map = pa.types.is_map(kind)
    if not (is_map or pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        raise refusal(call, f"needs an ARRAY or MAP, got {spark_name(kind)}")
    if name == "inline":
        if is_map or not pa.types.is_struct(kind.value_type):
            raise refusal(call, f"needs an ARRAY of STRUCTs, got {spark_name(kind)}")
        return {
            f.name: (f"struct_extract({_ITEM}, {quote_string(f.name)})", f.type)
            for f in kind.value_type
        }
    position = {"pos": ("CAST(_at AS INTEGER)", pa.int32())} if name == "posexplode" else {}
    if is_map:
        parts = {"key": kind.key_type, "value": kind.item_type}
        entries = {n: (f"struct_extract({_ITEM}, '{n}')", part) for n, part in parts.items()}
        return {**position, **entries}
    return {**position, "col": (_ITEM, kind.value_type)}


def with_laterals(select: Ast) -> Ast | None:
    """Write functions of SELECT that make rows as LATERAL VIEWs; None if there are none."""
    found = [item for item in select.expressions if generator_name(item.unalias()) is not None]
    found += [item for item in select.expressions if isinstance(item, exp.Aliases)]
    if not found:
        return None
    if len(found) > 1:
        raise refusal(found[1], "is a second function that makes rows; write LATERAL VIEW")
    (item,) = found
    call = item.this if isinstance(item, exp.Aliases | exp.Alias) else item
    names = list(item.expressions) if isinstance(item, exp.Aliases) else []
    if isinstance(item, exp.Alias):
        names = [exp.to_identifier(item.alias, quoted=True)]
    view = "_made"
    alias = exp.TableAlias(this=exp.to_identifier(view), columns=[n.copy() for n in names])
    lateral = exp.Lateral(this=call.copy(), view=True, outer=False, alias=alias)
    rewritten = select.copy()
    rewritten.parent = select.parent  # parameters of a template belong to the outermost query
    made: list[Ast] = [exp.Column(this=exp.Star(), table=exp.to_identifier(view))]
    rewritten.set(
        "expressions",
        [part for e in select.expressions for part in (made if e is item else [e.copy()])],
    )
    rewritten.set(
        "laterals", [*(part.copy() for part in select.args.get("laterals") or ()), lateral]
    )
    return rewritten


def _refuse_nested(_: Translator, node: Ast) -> TypedExpr:
    raise refusal(node, "makes several rows; write LATERAL VIEW, or select it alone")


for _name in _GENERATORS:
    NAMED_RULES[_name] = NAMED_RULES[f"{_name}_outer"] = _refuse_nested
RULES[exp.Aliases] = _refuse_nested
declare("this expressions", exp.Aliases)
declare("this view outer alias", exp.Lateral)
