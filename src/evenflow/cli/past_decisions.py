"""The decisions of a run: those that its service knows, or of one that has ended its history."""

from typing import Any

from evenflow.cli.find_run import FoundRun
from evenflow.errors import InputError

_ALL = 1_000


def decisions_of(found: FoundRun, limit: int, *, everything: bool = False) -> list[dict[str, Any]]:
    """Return the newest plan changes, or all decisions, as the service shows them."""
    if found.client is not None:
        listed: list[dict[str, Any]] = found.client.get(
            "decisions", limit=limit, all=int(everything)
        )
        return listed
    recorded = (info for info in _recorded(found) if everything or info["changed"])
    return list(recorded)[:limit]


def one_decision_of(found: FoundRun, number: str) -> dict[str, Any]:
    """Return a decision by its number."""
    if found.client is not None:
        info: dict[str, Any] = found.client.get("decisions", number)
        return info
    recorded = _recorded(found)
    for each in recorded:
        if str(each["number"]) == number:
            return each
    known = f"{recorded[-1]['number']} to {recorded[0]['number']}" if recorded else "none"
    raise InputError(f"no decision {number[:60]!r}; the numbers are {known}")


def _recorded(found: FoundRun) -> list[dict[str, Any]]:
    """Return the decisions of the checkpoint's history, newest first."""
    from evenflow.service.metrics import Metrics
    from evenflow.service.timeline import Timeline
    from evenflow.storage.history import read_history

    snapshots, decisions, outcomes = read_history(found.require_store())
    timeline = Timeline(snapshots[-1].plan.workers, Metrics(lambda: None))
    timeline.add(snapshots, decisions, outcomes)
    return [info.model_dump() for info in timeline.newest_decisions()]
