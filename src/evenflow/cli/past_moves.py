"""The moves of one key or one query, for `evenflow explain --key` and `--query`."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import typer

from evenflow.cli.find_run import FoundRun
from evenflow.cli.output import Columns, print_items


def past_moves_of(found: FoundRun, query: str | None, key: str | None) -> list[dict[str, Any]]:
    """Return the moves, newest first: from the history of the checkpoint, else from the service."""
    if found.store is None:
        listed: list[dict[str, Any]] = found.require_client().get("moves", query=query, key=key)
        return listed
    from evenflow.model.move_history import past_moves
    from evenflow.storage.history import read_history

    history = read_history(found.store.uri)
    moves = past_moves(*history, query=query, key=key)
    return [asdict(move) for move in reversed(moves)]


def last_decision_of(found: FoundRun) -> dict[str, Any] | None:
    """Return the newest decision, whether it changed something or not."""
    if found.store is None:
        listed = found.require_client().get("decisions", limit=1, all=1)
        return listed[0] if listed else None
    from evenflow.storage.history import read_history

    decisions = read_history(found.store.uri, last=1).decisions
    return asdict(decisions[-1]) if decisions else None


def print_past_moves(
    moves: list[dict[str, Any]],
    query: str | None,
    key: str | None,
    last: Mapping[str, Any] | None,
) -> None:
    """Print the moves; if there are none, what the last decision was."""
    if moves:
        print_items(moves, _COLUMNS, numbers=(0, 5))
        notes = (split_note(move["message"], move["key"]) for move in moves if key is not None)
        if note := next(filter(None, notes), ""):
            typer.echo(f"\n{note}")
        return
    from evenflow.model.words import reason_words

    names = {"key": key, "query": query}
    subject = " of ".join(f"{kind} {name}" for kind, name in names.items() if name is not None)
    why = "" if last is None else f"; last decision: {reason_words(last['reason'])}"
    typer.echo(f"{subject} has not moved{why}")


def workers(move: Mapping[str, Any]) -> str:
    """Return from where to where something moved.

    >>> workers({"before": 0, "after": -1}), workers({"before": 2, "after": 1})
    ('0 -> all', '2 -> 1')
    >>> workers({"before": 0, "after": 0, "owners_before": [0], "owners_after": [0, 3]})
    '0 -> 0, 3'
    """
    from evenflow.model.plan import EVERYWHERE

    sides = []
    for side in ("before", "after"):
        owners = move.get(f"owners_{side}") or [move[side]]
        sides.append("all" if owners == [EVERYWHERE] else ", ".join(map(str, owners)))
    return " -> ".join(sides)


def _what_and_why(move: Mapping[str, Any]) -> str:
    from evenflow.model.words import decision_words

    why = decision_words(move["trigger"], move["reason"], changed=True)
    return "; ".join(filter(None, [split_words(move), why]))


def split_words(move: Mapping[str, Any]) -> str:
    """Return how many workers share the key after a move; empty if it was and is whole.

    >>> split_words({"owners_before": [0], "owners_after": [0, 3, 5]})
    'split over 3 workers'
    >>> split_words({"owners_before": [0, 3], "owners_after": [3]}), split_words({})
    ('no longer split', '')
    """
    shared = len(move.get("owners_after") or ())
    if shared > 1:
        return f"split over {shared} workers"
    return "no longer split" if len(move.get("owners_before") or ()) > 1 else ""


def split_note(message: str, key: str | None) -> str:
    """Return what a decision says about a key that was split; empty if it says nothing.

    >>> split_note("keys of q: ...; key a is 38 % of q; split over 3 workers: 0, 2, 5", "a")
    'key a is 38 % of q; split over 3 workers: 0, 2, 5'
    >>> split_note("keys of q: from 1.300 to 1.020 times the mean", "a")
    ''
    """
    _, found, rest = f"; {message}".partition(f"; key {key} is ")
    return f"key {key} is " + "; ".join(rest.split("; ")[:2]) if found else ""


def _imbalance(move: Mapping[str, Any]) -> str:
    after = move["predicted"] if move["measured"] is None else move["measured"]
    return f"{move['imbalance']:.2f}" + ("" if after is None else f" -> {after:.2f}")


_COLUMNS: Columns = {
    "decision": lambda move: str(move["batch"]),
    "at": lambda move: time.strftime("%m-%d %H:%M:%S", time.localtime(move["at"])),
    "query": lambda move: move["query"],
    "key": lambda move: move["key"] or "whole query",
    "worker": workers,
    "load, CPU s": lambda move: "-" if move["load"] is None else f"{move['load']:,.4f}",
    "imbalance": _imbalance,
    "what and why": _what_and_why,
}
