"""Functions of strings: cutting, padding, searching, replacing, encoding."""

from functools import partial

from sqlglot import exp

from evenflow.sql.failures import BAD_ARGUMENT, PATTERN_KEY
from evenflow.sql.translate.arrays import joined_sql
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.registry import (
    TEXT_OR_BINARY,
    Only,
    Overload,
    bounded,
    coerce,
    constant,
    function,
    parsed,
    scalar,
)
from evenflow.sql.translate.text_casts import or_fail
from evenflow.sql.translate.translator import Translator, register
from evenflow.sql.translate.typed_expr import Ast, TypedExpr, compose_expr, write_once
from evenflow.sql.types import BINARY, BOOLEAN, INT, STRING, quote_string

MAX_REPEATS = 10_000  # of a text that is repeated or padded
_text = partial(scalar, topic="strings")
_FAIL = f"error({quote_string(BAD_ARGUMENT)})"

parsed(
    "upper ucase lower lcase concat startswith endswith contains overlay position",
    topic="strings",
)
_text("trim btrim", "trim({0}, ' ')", STRING, STRING)
_text("ltrim", "ltrim({0}, ' ')", STRING, STRING)
_text("rtrim", "rtrim({0}, ' ')", STRING, STRING)
_text("btrim", "trim({0}, {1})", STRING, STRING, STRING)
_text("ltrim", "ltrim({1}, {0})", STRING, STRING, STRING, evaluates_all=True)
_text("rtrim", "rtrim({1}, {0})", STRING, STRING, STRING, evaluates_all=True)
_text("replace", "replace({0}, {1}, '')", STRING, STRING, STRING)
_text("replace", "replace({0}, {1}, {2})", STRING, STRING, STRING, STRING)
_text("translate", "spark_translate({0}, {1}, {2})", STRING, STRING, STRING, STRING,
      route="kernel")  # fmt: skip
_text("initcap", "spark_initcap({0})", STRING, STRING, route="kernel")
_text("soundex", "spark_soundex({0})", STRING, Only(STRING), route="kernel")
_text("luhn_check", "spark_luhn({0})", BOOLEAN, STRING, route="kernel")
_text("ascii", "CAST(CASE WHEN {0} = '' THEN 0 ELSE unicode({0}) END AS INTEGER)", INT, STRING)
_text("char chr", "(CASE WHEN {0} < 0 THEN '' ELSE chr(CAST({0} % 256 AS INTEGER)) END)",
      STRING, INT)  # fmt: skip
_text("instr", "CAST(instr({0}, {1}) AS INTEGER)", INT, STRING, STRING)
_text("left", "left({0}, CASE WHEN {1} < 0 THEN 0 ELSE {1} END)", STRING, STRING, INT)
_text("right", "right({0}, CASE WHEN {1} < 0 THEN 0 ELSE {1} END)", STRING, Only(STRING), INT)
_text("find_in_set",
      "CAST(CASE WHEN {1} IS NULL THEN NULL WHEN contains({0}, ',') THEN 0 "
      "WHEN {0} IS NOT NULL THEN "
      "coalesce(list_position(string_split({1}, ','), {0}), 0) END AS INTEGER)",
      INT, STRING, STRING)  # fmt: skip
_text("substring_index", "spark_substring_index({0}, {1}, {2})", STRING, STRING, STRING, INT,
      route="kernel")  # fmt: skip
_text("url_encode", "spark_url_encode({0})", STRING, STRING, route="kernel")
_text("url_decode", or_fail("spark_url_decode({0})", BAD_ARGUMENT), STRING, STRING,
      route="kernel", can_fail=True)  # fmt: skip
_text("try_url_decode", "spark_url_decode({0})", STRING, STRING, route="kernel")


def _url_part(call: str, otherwise: str) -> str:
    return write_once(
        lambda part: (
            f"CASE {part} WHEN chr(1) THEN {otherwise} WHEN chr(2) THEN "
            f"error({quote_string(PATTERN_KEY)}) ELSE {part} END"
        ),
        call,
    )


for _call in ("spark_parse_url({0}, {1})", "spark_url_query_value({0}, {1}, {2})"):
    _given = [Only(STRING)] * (_call.count("{"))
    _text("parse_url", partial(lambda call, *values: _url_part(call.format(*values), _FAIL), _call),
          STRING, *_given, route="kernel", can_fail=True, evaluates_all=True)  # fmt: skip
    _text("try_parse_url",
          partial(lambda call, *values: _url_part(call.format(*values), "NULL"), _call),
          STRING, *_given, route="kernel", can_fail="{2}" in _call, evaluates_all=True)  # fmt: skip
# As MIME has it: lines of 76 characters.
_text("base64", "rtrim(regexp_replace(base64({0}), '(.{{76}})', '\\1' || chr(13) || chr(10), 'g'), "
      "chr(13) || chr(10))", STRING, BINARY)  # fmt: skip
_text("unbase64", or_fail("spark_unbase64({0})", BAD_ARGUMENT), BINARY, STRING, route="kernel",
      can_fail=True)  # fmt: skip
_text("unhex", "spark_unhex({0})", BINARY, STRING, route="kernel")


def _mask(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = coerce(node, translate(arguments[0]), Only(STRING))
    words = ["'X'", "'x'", "'n'", "NULL"]
    for at, argument in enumerate(arguments[1:]):
        if isinstance(argument, exp.Null):
            words[at] = "NULL"
            continue
        word = str(constant(translate, node, argument, str))
        if len(word) != 1:
            raise refusal(node, "needs one character, or NULL, for each kind of characters")
        words[at] = quote_string(word)
    return compose_expr(f"spark_mask({value.sql}, {', '.join(words)})", STRING, value)


function("mask", _mask, 1, 2, 3, 4, 5, topic="strings", route="kernel")


def _length(template_text: str, template_binary: str) -> Overload:
    def overload(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
        value = coerce(node, translate(arguments[0]), TEXT_OR_BINARY)
        template = template_text if value.type == STRING else template_binary
        return compose_expr(f"CAST({template.format(value.sql)} AS INTEGER)", INT, value)

    return overload


function("length char_length character_length len", _length("length({0})", "octet_length({0})"),
         1, topic="strings")  # fmt: skip
function("octet_length", _length("strlen({0})", "octet_length({0})"), 1, topic="strings")
function("bit_length", _length("8 * strlen({0})", "8 * octet_length({0})"), 1, topic="strings")


def _located(sub: str, text: str, start: str) -> str:
    rest = f"instr(substring({text}, {start}), {sub})"
    return (
        f"CAST(CASE WHEN {start} IS NULL THEN 0 WHEN {sub} IS NULL OR {text} IS NULL THEN NULL "
        f"WHEN {start} < 1 THEN 0 WHEN {sub} = '' THEN 1 "
        f"WHEN {rest} = 0 THEN 0 ELSE {rest} + {start} - 1 END AS INTEGER)"
    )


_text("locate position", "CAST(instr({1}, {0}) AS INTEGER)", INT, STRING, STRING)
_text("locate position", _located, INT, STRING, STRING, INT, evaluates_all=True)


def _pad(name: str) -> Overload:
    def overload(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
        value = coerce(node, translate(arguments[0]), STRING)
        size = max(bounded(translate, node, arguments[1], MAX_REPEATS), 0)
        pad = TypedExpr("' '", STRING, literal=" ")
        if len(arguments) > 2:
            pad = coerce(node, translate(arguments[2]), STRING)

        def body(text: str, filler: str) -> str:
            return (
                f"(CASE WHEN {filler} = '' THEN left({text}, {size}) "
                f"ELSE {name}({text}, {size}, nullif({filler}, '')) END)"
            )

        return compose_expr(write_once(body, value.sql, pad.sql), STRING, value, pad)

    return overload


function("lpad", _pad("lpad"), 2, 3, topic="strings")
function("rpad", _pad("rpad"), 2, 3, topic="strings")


def _repeat(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = coerce(node, translate(arguments[0]), STRING)
    times = max(bounded(translate, node, arguments[1], MAX_REPEATS), 0)
    return compose_expr(f"repeat({value.sql}, {times})", STRING, value)


def _space(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    times = max(bounded(translate, node, arguments[0], MAX_REPEATS), 0)
    return TypedExpr(quote_string(" " * times), STRING)


function("repeat", _repeat, 2, topic="strings")
function("space", _space, 1, topic="strings")


def _substring_sql(text: str, start: str, length: str) -> str:
    """Write Spark's rule: 0 means 1, a negative start counts from the end, before it is cut."""
    size = f"length({text})"
    first = f"(CASE WHEN {start} > 0 THEN {start} WHEN {start} = 0 THEN 1 ELSE {start} + {size} + 1 END)"  # noqa: E501
    last = f"({first} + CAST(greatest({length}, 0) AS BIGINT) - 1)"
    count = f"greatest(least({last}, {size}) - greatest({first}, 1) + 1, 0)"
    known = f"{start} IS NOT NULL AND {length} IS NOT NULL"
    return f"(CASE WHEN {known} THEN substring({text}, greatest({first}, 1), {count}) END)"


def _substring(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = coerce(node, translate(arguments[0]), STRING)
    numbers = [coerce(node, translate(n), INT) for n in arguments[1:]]
    constants = [n.literal for n in numbers]
    if all(isinstance(c, int) for c in constants) and int(constants[0] or 0) >= 1:
        bounds = [str(max(int(c or 0), 0)) for c in constants]
        return compose_expr(f"substring({', '.join([value.sql, *bounds])})", STRING, value)

    def body(text: str, start: str, length: str = str(2**31 - 1)) -> str:
        return _substring_sql(text, start, length)

    sql = write_once(body, value.sql, *(f"CAST({n.sql} AS BIGINT)" for n in numbers))
    return compose_expr(sql, STRING, value, *numbers)


def _substring_node(translate: Translator, node: Ast) -> TypedExpr:
    given = [node.this, node.args.get("start"), node.args.get("length")]
    return _substring(translate, node, [argument for argument in given if argument is not None])


def _trim_node(translate: Translator, node: Ast) -> TypedExpr:
    value = coerce(node, translate(node.this), STRING)
    characters = TypedExpr("' '", STRING)
    if node.expression is not None:
        characters = coerce(node, translate(node.expression), STRING)
    place = str(node.args.get("position") or "BOTH").upper()
    name = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}[place]
    return compose_expr(f"{name}({value.sql}, {characters.sql})", STRING, value, characters)


def _position_node(translate: Translator, node: Ast) -> TypedExpr:
    values = [coerce(node, translate(a), STRING) for a in (node.this, node.args["substr"])]
    sql = f"CAST(instr({values[0].sql}, {values[1].sql}) AS INTEGER)"
    return compose_expr(sql, INT, *values)


def _overlay(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    text, new = (coerce(node, translate(a), STRING) for a in arguments[:2])
    start = int(constant(translate, node, arguments[2], int))
    if start < 1:
        raise refusal(node, "needs a constant start of at least 1")
    size = f"length({new.sql})"
    if len(arguments) > 3:
        size = str(int(constant(translate, node, arguments[3], int)))
        if int(size) < 0:
            size = f"length({new.sql})"
    sql = write_once(
        lambda t, n: (
            f"(substring({t}, 1, {start - 1}) || {n} || "
            f"substring({t}, {start} + {size.replace(new.sql, n)}))"
        ),
        text.sql,
        new.sql,
    )
    return compose_expr(sql, STRING, text, new)


def _overlay_node(translate: Translator, node: Ast) -> TypedExpr:
    given = [node.this, node.expression, node.args.get("from_"), node.args.get("for_")]
    return _overlay(translate, node, [argument for argument in given if argument is not None])


def _concat_ws(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    """Join texts and arrays of texts; NULLs among them are left out."""
    separator = coerce(node, translate(arguments[0]), STRING)
    values = [translate(argument) for argument in arguments[1:]]
    lists = []
    for value in values:
        if str(value.type).startswith("list<"):
            if value.type.value_type != STRING:
                raise refusal(node, "joins an ARRAY of other values than STRING; cast them")
            lists.append(f"coalesce({value.sql}, [])")
        else:
            lists.append(f"[{coerce(node, value, STRING).sql}]")
    joined = " || ".join(lists) or "CAST([] AS VARCHAR[])"
    given = f'list_filter({joined}, lambda "\x01w": "\x01w" IS NOT NULL)'
    sql = (
        f"(CASE WHEN {separator.sql} IS NOT NULL THEN "
        f"coalesce({joined_sql(given, separator)}, '') END)"
    )
    return compose_expr(sql, STRING, separator, *values)


def _elt(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    index = coerce(node, translate(arguments[0]), INT)
    values = [coerce(node, translate(argument), STRING) for argument in arguments[1:]]
    if not values:
        raise refusal(node, "needs a number and texts to choose from")
    arms = " ".join(f"WHEN {at} THEN {v.sql}" for at, v in enumerate(values, 1))
    sql = f"(CASE {index.sql} {arms} ELSE (CASE WHEN {index.sql} IS NOT NULL THEN {_FAIL} END) END)"
    return compose_expr(sql, STRING, index, *values, can_fail=True)


def _split_part(text: str, delimiter: str, index: str) -> str:
    parts = f"string_split({text}, {delimiter})"
    parts = f"(CASE WHEN {delimiter} = '' THEN [{text}] ELSE {parts} END)"
    return (
        f"(CASE WHEN {text} IS NULL OR {delimiter} IS NULL OR {index} IS NULL THEN NULL "
        f"WHEN {index} = 0 THEN {_FAIL} ELSE coalesce({parts}[{index}], '') END)"
    )


_text("split_part", _split_part, STRING, STRING, STRING, INT, can_fail=True)
function("substring substr", _substring, 2, 3, topic="strings")
function("concat_ws", _concat_ws, topic="strings")
function("elt", _elt, topic="strings")
register("this start length", {exp.Substring: _substring_node})
register("this expression position", {exp.Trim: _trim_node})
register("this substr", {exp.StrPosition: _position_node})
register("this expression from_ for_", {exp.Overlay: _overlay_node})
