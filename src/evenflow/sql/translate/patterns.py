"""Regular expressions and LIKE, with constant patterns."""

import re
from functools import partial

import pyarrow as pa
from sqlglot import exp

from evenflow.sql.translate.java_patterns import LINE_END, End, JavaPattern
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.registry import coerce, constant, function
from evenflow.sql.translate.translator import Translator, register
from evenflow.sql.translate.typed_expr import Ast, TypedExpr, compose_expr, write_once
from evenflow.sql.types import BOOLEAN, INT, STRING, quote_string

_LIKE_PATTERN = re.compile(r"([^\\]|\\[%_\\])*", re.DOTALL)
_function = partial(function, topic="patterns")


def _pattern(
    translate: Translator, node: Ast, argument: Ast, *, end: End = "refused",
    needs_text: bool = False,
) -> JavaPattern:  # fmt: skip
    found = JavaPattern(constant(translate, node, argument, str), end=end)
    if needs_text and found.matches_empty:
        raise refusal(node, "has a pattern that finds empty texts, on which the engines differ; "
                      "use + instead of *")  # fmt: skip
    return found


def _rlike(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = coerce(node, translate(arguments[0]), STRING)
    pattern = _pattern(translate, node, arguments[1], end="consumed")
    sql = f"regexp_matches({value.sql}, {quote_string(pattern.re2)})"
    return compose_expr(sql, BOOLEAN, value)


def _extract(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = coerce(node, translate(arguments[0]), STRING)
    group = 1 if len(arguments) < 3 else int(constant(translate, node, arguments[2], int))
    pattern = _pattern(translate, node, arguments[1], end="consumed" if group else "refused")
    _check_group(node, pattern, group)
    sql = f"regexp_extract({value.sql}, {quote_string(pattern.re2)}, {group})"
    return compose_expr(f"coalesce({sql}, {_null_text(value)})", STRING, value)


def _null_text(value: TypedExpr) -> str:
    """Write '' for a text without the group, NULL for NULL."""
    return f"(CASE WHEN {value.sql} IS NOT NULL THEN '' END)"


def _check_group(node: Ast, pattern: JavaPattern, group: int) -> None:
    if not 0 <= group <= min(pattern.groups, 9):
        raise refusal(node, f"asks for group {group} of a pattern with {pattern.groups} groups")


def _extract_all(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = coerce(node, translate(arguments[0]), STRING)
    group = 1 if len(arguments) < 3 else int(constant(translate, node, arguments[2], int))
    pattern = _pattern(translate, node, arguments[1], needs_text=True)
    _check_group(node, pattern, group)
    sql = f"regexp_extract_all({value.sql}, {quote_string(pattern.re2)}, {group})"
    sql = f'list_transform({sql}, lambda "\x01m": coalesce("\x01m", \'\'))'
    return compose_expr(sql, pa.list_(STRING), value)


def _count(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = coerce(node, translate(arguments[0]), STRING)
    pattern = _pattern(translate, node, arguments[1], needs_text=True)
    sql = f"len(regexp_extract_all({value.sql}, {quote_string(pattern.re2)}, 0))"
    return compose_expr(f"CAST({sql} AS INTEGER)", INT, value)


def _substr(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = coerce(node, translate(arguments[0]), STRING)
    pattern = _pattern(translate, node, arguments[1], needs_text=True)
    sql = f"nullif(regexp_extract({value.sql}, {quote_string(pattern.re2)}, 0), '')"
    return compose_expr(sql, STRING, value)


def _replacement(node: Ast, text: str, groups: int) -> str:
    """Rewrite $1 as \\1; a backslash makes the next character plain."""
    written, at = [], 0
    while at < len(text):
        character = text[at]
        if character in "\\$" and at + 1 >= len(text):
            raise refusal(node, "has a replacement that ends with $ or a backslash")
        if character == "\\":
            at += 1
            written.append(text[at].replace("\\", "\\\\"))
        elif character == "$":
            at += 1
            digit = text[at]
            if not digit.isdigit() or int(digit) > groups or text[at + 1 : at + 2].isdigit():
                raise refusal(node, f"has ${digit} in its replacement; the pattern has {groups} "
                              "groups")  # fmt: skip
            written.append(f"\\{digit}")
        else:
            written.append(character)
        at += 1
    return "".join(written)


def _replace(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = coerce(node, translate(arguments[0]), STRING)
    pattern = _pattern(translate, node, arguments[1], end="cut", needs_text=True)
    new = _replacement(node, constant(translate, node, arguments[2], str), pattern.groups)
    quoted = quote_string(pattern.re2), quote_string(new)
    last = quote_string(f"(?:{LINE_END})\\z")

    def body(text: str) -> str:
        if not pattern.has_end:
            return f"regexp_replace({text}, {quoted[0]}, {quoted[1]}, 'g')"
        cut, rest = f"regexp_replace({text}, {last}, '')", f"regexp_extract({text}, {last}, 0)"
        return f"(regexp_replace({cut}, {quoted[0]}, {quoted[1]}, 'g') || {rest})"

    return compose_expr(write_once(body, value.sql), STRING, value)


def _split(translate: Translator, node: Ast, arguments: list[Ast]) -> TypedExpr:
    value = coerce(node, translate(arguments[0]), STRING)
    limit = -1 if len(arguments) < 3 else int(constant(translate, node, arguments[2], int))
    pattern = _pattern(translate, node, arguments[1], needs_text=True)
    quoted = quote_string(pattern.re2)
    if limit <= 0:
        sql = f"string_split_regex({value.sql}, {quoted})"
        return compose_expr(sql, pa.list_(STRING), value)
    if limit == 1:
        sql = f"(CASE WHEN {value.sql} IS NOT NULL THEN [{value.sql}] END)"
        return compose_expr(sql, pa.list_(STRING), value)

    # The last part keeps its delimiters: it is what is left after the others and their delimiters.
    def body(text: str) -> str:
        parts = f"string_split_regex({text}, {quoted})"
        cut = f"regexp_extract_all({text}, {quoted}, 0)"
        used = " + ".join(
            f"list_sum(list_transform(({side})[1:{limit - 1}], lambda p: length(p)))"
            for side in (parts, cut)
        )
        rest = f"[substring({text}, CAST({used} AS BIGINT) + 1)]"
        whole = f"len({parts}) <= {limit} THEN {parts}"
        return f"(CASE WHEN {whole} ELSE ({parts})[1:{limit - 1}] || {rest} END)"

    return compose_expr(write_once(body, value.sql), pa.list_(STRING), value)


def _like(translate: Translator, node: Ast) -> TypedExpr:
    value = coerce(node, translate(node.this), STRING)
    patterns, word = [node.expression], ""
    if isinstance(node.expression, exp.Any | exp.All):
        word = " OR " if isinstance(node.expression, exp.Any) else " AND "
        patterns = [e for e in node.expression.this.flatten() if isinstance(e, exp.Expression)]
        if isinstance(node.expression.this, exp.Tuple):
            patterns = node.expression.this.expressions
    name = "ILIKE" if isinstance(node, exp.ILike) else "LIKE"
    parts = []
    for pattern in patterns:
        if not pattern.is_string:
            raise refusal(node, "needs a constant pattern")
        text = str(pattern.this)
        if not _LIKE_PATTERN.fullmatch(text):
            raise refusal(node, "has a backslash before another character than %, _ or a backslash")
        if name == "ILIKE" and not text.isascii():
            raise refusal(node, "needs a pattern of ASCII letters; write lower(x) LIKE '...'")
        parts.append((text, bool(node.args.get("negate"))))

    def body(operand: str) -> str:
        subject = operand
        if name == "ILIKE":
            subject = f"(CASE WHEN strlen({operand}) = length({operand}) THEN lower({operand}) " \
                      f"ELSE unicode_lower({operand}) END)"  # fmt: skip
        texts = [
            f"({subject} {'NOT ' if negated else ''}LIKE "
            f"{quote_string(text.lower() if name == 'ILIKE' else text)} ESCAPE '\\')"
            for text, negated in parts
        ]
        return f"({word.join(texts)})" if word else texts[0]

    return compose_expr(write_once(body, value.sql), BOOLEAN, value)


def _rlike_node(translate: Translator, node: Ast) -> TypedExpr:
    return _rlike(translate, node, [node.this, node.expression])


_function("rlike regexp regexp_like", _rlike, 2)
_function("regexp_extract", _extract, 2, 3)
_function("regexp_extract_all", _extract_all, 2, 3)
_function("regexp_replace", _replace, 3)
_function("regexp_count", _count, 2)
_function("regexp_substr", _substr, 2)
_function("split", _split, 2, 3)
register("this expression", {exp.RegexpLike: _rlike_node})
register("this expression negate", {exp.Like: _like, exp.ILike: _like})
register("this", {exp.Any: lambda t, n: _refuse_any(n), exp.All: lambda t, n: _refuse_any(n)})


def _refuse_any(node: Ast) -> TypedExpr:
    raise refusal(node, "belongs after LIKE; write a join or OR")
