"""All problems of a query in one answer, each with its place in the text."""

from collections.abc import Callable, Iterable

from sqlglot import exp

from evenflow.errors import MAX_ERROR_CHARACTERS, InputError, shorten
from evenflow.sql.translate.refusals import QueryProblemError, unsupported
from evenflow.sql.translate.registry import FUNCTIONS
from evenflow.sql.translate.typed_expr import Ast, TypedExpr

MAX_PROBLEMS = 5  # that one answer lists
_KNOWN_ELSEWHERE = ("window", "session_window")


class SeveralProblemsError(InputError):
    """A query has several problems."""

    def __init__(self, problems: list[InputError]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


class ProblemList:
    """The problems of one SELECT, collected while its expressions are translated."""

    def __init__(self, user_functions: Iterable[str] = ()) -> None:
        self.found: dict[str, InputError] = {}  # by message
        self._known = {*FUNCTIONS, *_KNOWN_ELSEWHERE, *(name.lower() for name in user_functions)}

    def attempt(self, translate: Callable[[Ast], TypedExpr], node: Ast) -> TypedExpr | None:
        """Translate an expression; return None and remember the problems if it is refused."""
        try:
            return translate(node)
        except InputError as problem:
            self.found.setdefault(str(problem), problem)
            for part in node.walk():
                name = str(part.this).lower() if isinstance(part, exp.Anonymous) else ""
                if name and name not in self._known:
                    unknown = unsupported(part)
                    self.found.setdefault(str(unknown), unknown)
            return None

    def raise_found(self) -> None:
        """Refuse the query if there are problems."""
        if len(self.found) == 1:
            raise next(iter(self.found.values()))
        if self.found:
            raise SeveralProblemsError(list(self.found.values()))


def describe(error: InputError, sql: str) -> str:
    """Write the problems of a query with their places in its text.

    >>> describe(QueryProblemError("`f(x)` is not supported", 9), "SELECT a,f(x)")
    '`f(x)` is not supported (line 1, column 10)'
    """
    if isinstance(error, SeveralProblemsError):
        shown = error.problems[:MAX_PROBLEMS]
        size = (MAX_ERROR_CHARACTERS - 80) // len(shown) - 8
        listed = (f"({at}) {shorten(describe(p, sql), size)}" for at, p in enumerate(shown, 1))
        more = len(error.problems) - len(shown)
        rest = f"; and {more} more" if more else ""
        return f"{len(error.problems)} problems: {'; '.join(listed)}{rest}"
    if not isinstance(error, QueryProblemError) or error.offset is None:
        return str(error)
    before = sql[: error.offset]
    line, column = before.count("\n") + 1, error.offset - (before.rfind("\n") + 1) + 1
    return f"{error} (line {line}, column {column})"
