"""Parse the text: one SELECT of bounded size in Spark's dialect, made of supported clauses."""

import logging
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError

from evenflow.errors import InputError
from evenflow.sql.translate.refusals import refusal
from evenflow.sql.translate.registry import FUNCTIONS
from evenflow.sql.translate.translator import check_arguments, declare
from evenflow.sql.translate.typed_expr import Ast

MAX_CHARACTERS = 20_000
MAX_DEPTH = 200  # of the syntax tree
_FRAMES = 12_000  # of Python for a tree of that depth, however deep the caller is


logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # refusals say what is wrong


_OWN_SYNTAX = ("CAST", "TRY_CAST", "TRIM", "EXTRACT", "POSITION", "SUBSTRING", "SUBSTR", "OVERLAY",
               "CEIL", "FLOOR")  # fmt: skip


def _named(kind: type[Ast]) -> Callable[[list[Ast]], Ast]:
    """Build a node of a function's other name, which Spark keeps in the names of columns."""

    def build(arguments: list[Ast]) -> Ast:
        node = kind.from_arg_list(arguments)
        node.meta["alias"] = True
        return node

    return build


class StreamingSpark(Spark):
    """Spark's dialect, except that `window` is the function of time windows, not the clause."""

    class Tokenizer(Spark.Tokenizer):
        """Spark's keywords without WINDOW; a doubled quote is a quote, as in Spark 4."""

        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']

        KEYWORDS: ClassVar[dict[str, Any]] = {
            word: token for word, token in Spark.Tokenizer.KEYWORDS.items() if word != "WINDOW"
        }

    class Parser(Spark.Parser):  # type: ignore[misc, valid-type]
        """Spark's syntax; functions are read by their names, except those with their own nodes."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {
            name: builder
            for name, builder in Spark.Parser.FUNCTIONS.items()
            if name.lower() in FUNCTIONS
            and not FUNCTIONS[name.lower()].overloads
            and FUNCTIONS[name.lower()].topic not in ("aggregates", "window functions")
        } | {"UCASE": _named(exp.Upper), "LCASE": _named(exp.Lower)}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: Spark.Parser.FUNCTION_PARSERS[name] for name in _OWN_SYNTAX
        }
        ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}  # array(1, 2)[0] is an item, no type
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: Spark.Parser.NO_PAREN_FUNCTION_PARSERS[name] for name in ("ANY", "CASE", "IF")
        }


_SUPPORTED_CLAUSES = {"expressions", "distinct", "from_", "joins", "where", "group", "having",
                      "laterals", "with_", "kind", "hint", "order", "qualify"}  # fmt: skip
_CLAUSE_ADVICE = {
    "sort": "SORT BY never ends on a stream; sort the results where they are read",
    "limit": "LIMIT needs all rows; for the first of each window, write "
    "QUALIFY row_number() OVER (PARTITION BY window(time, '1 minute') ORDER BY ...) <= 10",
    "offset": "OFFSET depends on the order of arrival; page the results where they are read",
    "windows": "WINDOW is not supported; group by window(time, '10 seconds')",
    "pivots": "PIVOT is not supported; write CASE inside aggregates",
}

# The clauses of SELECT, UNION, FROM and JOIN are checked one by one where they are read.
declare("this", exp.From, exp.Having)
declare("this alias", exp.Alias, exp.CTE, exp.Subquery)
declare("this columns", exp.TableAlias)
declare("expressions recursive", exp.With)
declare("this on using side kind method", exp.Join)
declare("except_ replace rename", exp.Star)


def parse_query(sql: str) -> Ast:
    """Parse one query.

    >>> parse_query("SELECT 1; SELECT 2")
    Traceback (most recent call last):
    ...
    evenflow.errors.InputError: expected one SELECT, got 2 statements
    """
    # Never lowered again: another thread may be parsing. Frames of Python are on the heap.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _FRAMES))
    if len(sql) > MAX_CHARACTERS:
        raise InputError(f"the query has {len(sql)} characters; the limit is {MAX_CHARACTERS}")
    if any(character < " " and character not in "\t\r\n" for character in sql):
        raise InputError("the query contains control characters; remove them")
    if any("\ud800" <= character <= "\udfff" for character in sql):
        raise InputError("the query contains half a character (a lone surrogate); remove it")
    try:
        statements = [s for s in sqlglot.parse(sql, read=StreamingSpark) if s is not None]
        if len(statements) != 1:
            raise InputError(f"expected one SELECT, got {len(statements)} statements")
        _check_depth(statements[0])
        check_arguments(statements[0])
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        raise InputError(
            f"the query cannot be read at line {first.get('line')}, column {first.get('col')}: "
            f"{_parse_problem(str(first.get('description')))} "
            f"near {str(first.get('highlight'))[:40]!r}"
        ) from None
    except TokenError as error:
        raise InputError(
            f"the query cannot be read: {str(error)[:120]}; is a quote or a comment not closed?"
        ) from None
    except RecursionError:
        raise InputError("the query is nested too deeply; use fewer levels") from None
    return check_query(statements[0])


def _parse_problem(description: str) -> str:
    """Say what the parser says, without its classes and tokens.

    >>> _parse_problem("Required keyword: 'this' missing for <class 'sqlglot.expressions.Where'>")
    'something is missing'
    >>> _parse_problem("Expected table name but got <Token token_type: TokenType.ON, ...>")
    'expected table name'
    >>> _parse_problem("Invalid expression / Unexpected token"), _parse_problem("Expecting )")
    ('this does not belong here,', 'expecting )')
    """
    if description.startswith("Required keyword"):
        return "something is missing"
    if description.startswith("Invalid expression"):
        return "this does not belong here,"
    words = description.partition(" but got <")[0]
    return words[:1].lower() + words[1:]


def check_query(node: Ast) -> Ast:
    """Check that a node is a query, and that each clause of it is supported."""
    while isinstance(node, exp.Subquery) and not node.args.get("joins"):
        node = node.this
    if isinstance(node, exp.Union):
        _check_clauses(node, {"this", "expression", "with_", "distinct", "order"})
        return node
    if not isinstance(node, exp.Select):
        raise refusal(node, "is not supported; a query must be a SELECT")
    _check_clauses(node, _SUPPORTED_CLAUSES)
    if node.args.get("kind"):
        raise InputError("SELECT AS STRUCT is not supported; name the columns")
    if node.args.get("from_") is None:
        raise InputError("the query does not read a stream; add FROM")
    if node.args.get("group") is None and node.args.get("having") is not None:
        raise InputError("HAVING needs GROUP BY window(time, '10 seconds'); else write WHERE")
    return node


def _check_clauses(node: Ast, allowed: set[str]) -> None:
    for clause, value in node.args.items():
        if value and clause not in allowed:
            raise InputError(_CLAUSE_ADVICE.get(clause, f"{clause} is not supported; leave it out"))


def split_conjuncts(node: Ast) -> list[Ast]:
    """Split a condition at its ANDs; BETWEEN is two conditions."""
    if isinstance(node, exp.Paren):
        return split_conjuncts(node.this)
    if isinstance(node, exp.And):
        return [*split_conjuncts(node.left), *split_conjuncts(node.right)]
    if isinstance(node, exp.Between):
        return [
            exp.GTE(this=node.this, expression=node.args["low"]),
            exp.LTE(this=node.this, expression=node.args["high"]),
        ]
    return [node]


def _check_depth(root: Ast) -> None:
    level, nodes = 0, [root]
    while nodes:
        level += 1
        if level > MAX_DEPTH:
            raise InputError("the query is nested too deeply; use fewer levels")
        nodes = [child for node in nodes for child in node.iter_expressions()]
