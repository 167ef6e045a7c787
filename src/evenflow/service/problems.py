"""What needs attention in a run. Pure."""

from collections.abc import Sequence

from evenflow.display import printable
from evenflow.errors import MAX_ERROR_CHARACTERS
from evenflow.service.present import ObservedRun
from evenflow.service.schemas import ProblemInfo

_MAX_PROBLEMS, _MAX_REFUSED = 100, 5


def problem_infos(seen: ObservedRun, refused: Sequence[str]) -> list[ProblemInfo]:
    """Return failed queries, limits that the last decision met, late rows, refused commands."""
    found = [
        ProblemInfo(kind="quarantined", subject=name, message=_text(why))
        for name, why in sorted(seen.quarantined.items())
    ]
    if seen.decisions:
        found += [
            ProblemInfo(kind="verdict", subject=verdict.subject, message=_text(verdict.message))
            for verdict in seen.decisions[-1].verdicts
        ]
    found += [
        ProblemInfo(kind="late", subject=name, message=f"{rows:,} rows came late and were dropped")
        for name, rows in sorted(seen.late.items(), key=lambda item: -item[1])
        if rows
    ]
    found += [
        ProblemInfo(kind="refused", subject="", message=_text(why))
        for why in refused[-_MAX_REFUSED:]
    ]
    return found[:_MAX_PROBLEMS]


def _text(text: str) -> str:
    return printable(text, MAX_ERROR_CHARACTERS)
