"""Read the text: one SELECT of bounded length in Spark's dialect, or a refusal with its place."""

from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError

from evenflow.errors import InputError
from evenflow.sql.translate.translator import quote_sql
from evenflow.sql.translate.typed_expr import Ast

MAX_CHARACTERS = 20_000
MAX_DEPTH = 200


class StreamingSpark(Spark):
    """Spark's dialect in which `window` is the function of time windows, not the clause."""

    class Tokenizer(Spark.Tokenizer):
        """Spark's words without WINDOW; a doubled quote is a quote, as in Spark 4."""

        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']

        KEYWORDS: ClassVar[dict[str, Any]] = {
            word: token for word, token in Spark.Tokenizer.KEYWORDS.items() if word != "WINDOW"
        }


_SUPPORTED_CLAUSES = {"expressions", "from_", "joins", "where", "group", "having", "with_", "kind"}
_CLAUSE_ADVICE = {
    "order": "ORDER BY has no end on a stream; order the results where they are read",
    "sort": "SORT BY has no end on a stream; order the results where they are read",
    "limit": "LIMIT depends on arrival; limit the results where they are read",
    "offset": "OFFSET depends on arrival; page the results where they are read",
    "distinct": "DISTINCT keeps all rows forever; write GROUP BY window(time, '...'), columns",
    "laterals": "LATERAL VIEW is not supported; explode the rows before they reach the stream",
    "qualify": "QUALIFY is not supported; aggregate per window and join",
    "windows": "WINDOW is not supported; group by window(time, '10 seconds')",
    "pivots": "PIVOT is not supported; write CASE inside aggregates",
    "hint": "hints are not supported; leave them out",
}


def parse_query(sql: str) -> Ast:
    """Parse one query.

    >>> parse_query("SELECT 1; SELECT 2")
    Traceback (most recent call last):
    ...
    evenflow.errors.InputError: one SELECT is wanted, got 2 statements
    """
    if len(sql) > MAX_CHARACTERS:
        raise InputError(f"the query has {len(sql)} characters; at most {MAX_CHARACTERS} are read")
    if any(character < " " and character not in "\t\r\n" for character in sql):
        raise InputError("the query contains control characters; take them out")
    try:
        found = [s for s in sqlglot.parse(sql, read=StreamingSpark) if s is not None]
        if len(found) != 1:
            raise InputError(f"one SELECT is wanted, got {len(found)} statements")
        _check_depth(found[0])
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        at = f"line {first.get('line')}, column {first.get('col')}"
        raise InputError(
            f"the query cannot be read at {at}: {first.get('description')} "
            f"near {str(first.get('highlight'))[:40]!r}"
        ) from None
    except TokenError as error:
        raise InputError(f"the query cannot be read: {str(error)[:120]}") from None
    except RecursionError:
        raise InputError("the query is nested too deeply; write it flatter") from None
    return check_query(found[0])


def check_query(node: Ast) -> Ast:
    """Check that a node is a query, and that each clause of it is supported."""
    while isinstance(node, exp.Subquery) and not node.args.get("joins"):
        node = node.this
    if isinstance(node, exp.Union):
        if node.args.get("distinct"):
            raise InputError("UNION removes duplicates of all time; write UNION ALL")
        _check_clauses(node, {"this", "expression", "with_", "distinct"})
        return node
    if not isinstance(node, exp.Select):
        raise InputError(f"a query must be a SELECT, got {quote_sql(node)}")
    _check_clauses(node, _SUPPORTED_CLAUSES)
    if node.args.get("kind"):
        raise InputError("SELECT AS STRUCT is not supported; name the columns")
    over = next((w for e in node.expressions if (w := e.find(exp.Window)) is not None), None)
    if over is not None:
        raise InputError(
            f"{quote_sql(over)} is refused: OVER needs all rows; group by window(time, '10 seconds')"
        )
    if node.args.get("from_") is None:
        raise InputError("the query reads no stream; add FROM")
    group = node.args.get("group")
    sets = (exp.Rollup, exp.Cube, exp.GroupingSets)
    if group is not None and (
        any(v for k, v in group.args.items() if k != "expressions")
        or any(isinstance(e, sets) for e in group.expressions)
    ):
        raise InputError("ROLLUP, CUBE and GROUPING SETS are not supported; write UNION ALL")
    return node


def _check_clauses(node: Ast, allowed: set[str]) -> None:
    for clause, value in node.args.items():
        if value and clause not in allowed:
            instead = _CLAUSE_ADVICE.get(clause, f"{clause} is not supported; leave it out")
            raise InputError(instead)


def _check_depth(root: Ast) -> None:
    level, nodes = 0, [root]
    while nodes:
        level += 1
        if level > MAX_DEPTH:
            raise InputError("the query is nested too deeply; write it flatter")
        nodes = [child for node in nodes for child in node.iter_expressions()]
