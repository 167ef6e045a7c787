"""Errors about a piece of the query: its text, the problem, and what to write instead."""

from sqlglot import exp

from evenflow.errors import InputError
from evenflow.sql.translate.typed_expr import Ast

_REASONS: tuple[tuple[str, str], ...] = (  # names of functions, why they are refused
    (
        "rand random randn uuid shuffle randstr uniform monotonically_increasing_id "
        "spark_partition_id input_file_name current_user user session_user current_catalog "
        "current_database version",
        "its result changes from run to run; add a column in `select:` of the source",
    ),
    (
        "current_timestamp now current_date curdate localtimestamp current_time unix_timestamp",
        "its result changes from run to run; use the event-time column",
    ),
)
_NAMES = {name: reason for names, reason in _REASONS for name in names.split()}
_REFUSALS: tuple[tuple[tuple[type, ...], str], ...] = (
    ((exp.Select,), "join the other relation in FROM instead"),
    (
        (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentUser),
        "its result changes from run to run; use the event-time column",
    ),
    ((exp.Interval,), "an INTERVAL can only be added to or subtracted from a timestamp"),
    ((exp.Star,), "name the columns"),
)


class QueryProblemError(InputError):
    """A problem with a piece of the query, which starts at a position of its text."""

    def __init__(self, message: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset


def find_offset(node: Ast) -> int | None:
    """Return where the text of a node starts, as far as the parser knows it."""
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return min(starts) if starts else None


def quote_sql(node: Ast) -> str:
    """Quote a piece of the query for a message, shortened to 80 characters."""
    sql = " ".join(node.sql("spark", normalize_functions=False).split())
    return f"`{sql}`" if len(sql) <= 80 else f"`{sql[:77]}...`"


def refusal(node: Ast, problem: str) -> InputError:
    """Return an error that names a piece of the query and its problem."""
    return QueryProblemError(f"{quote_sql(node)} {problem}", find_offset(node))


def unsupported(node: Ast) -> InputError:
    """Return the error for an expression that no rule translates."""
    if isinstance(node, exp.Anonymous):
        name = str(node.this).lower()
        if name in _NAMES:
            return refusal(node, f"is refused: {_NAMES[name]}")
        return refusal(
            node,
            f"calls {name}, which is not supported; compute it in `select:` of the source, "
            "or write a Python operator",
        )
    for kinds, advice in _REFUSALS:
        if isinstance(node, kinds):
            return refusal(node, f"is refused: {advice}")
    return refusal(
        node, "is not supported; compute it in `select:` of the source, or write a Python operator"
    )
