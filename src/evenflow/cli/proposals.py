"""`evenflow proposals`, `approve` and `reject`: plans that wait for approval."""

from typing import Annotated, Any

import typer

from evenflow.cli.find_run import served_run
from evenflow.cli.options import DEFAULT_URL, JsonOption, RunOption, UrlOption
from evenflow.cli.output import format_bytes, print_json, print_rows, safe
from evenflow.cli.past_moves import workers
from evenflow.display import printable

_SHOWN_MOVES = 10

ProposalNumber = Annotated[int, typer.Argument(min=0, help="Number of the proposal.")]


def proposals_command(
    everything: Annotated[
        bool, typer.Option("--all", help="Include those that were adopted or expired.")
    ] = False,
    run: RunOption = None,
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """Show the plan that waits for approval: its moves, prediction, bytes and pause."""
    found = served_run(run, url).get("proposals")
    listed = [each for each in found if everything or each["is_open"]]
    if json:
        print_json({"proposals": listed})
        return
    if not listed:
        typer.echo("no plan waits for approval; `evenflow moves --all` lists the reasons")
    for proposal in listed:
        _print_proposal(proposal)


def approve_command(
    number: ProposalNumber, run: RunOption = None, url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Follow a plan that waits for approval."""
    _answer(number, "approve", run, url, json)


def reject_command(
    number: ProposalNumber, run: RunOption = None, url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Reject a plan that waits for approval; the like is proposed when the load has changed."""
    _answer(number, "reject", run, url, json)


def _answer(number: int, answer: str, run: str | None, url: str, json: bool) -> None:
    reply = served_run(run, url).post("proposals", number, answer)
    if json:
        print_json(reply)
    else:
        typer.echo(printable(reply["message"]))


def _print_proposal(proposal: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    note = f": {proposal['note']}" if proposal["note"] else ""
    console.print(
        f"[bold]proposal {proposal['number']}[/] ({safe(proposal['state'] + note)}): "
        f"{safe(proposal['title'])}"
    )
    console.print(safe(proposal["message"]))
    console.print(safe(_effect(proposal)))
    for verdict in proposal["verdicts"]:
        console.print(f"[yellow]limit[/]: {safe(verdict['message'])}")
    rows = [
        (m["query"], m["key"] or "whole query", workers(m), _load(m["load"]))
        for m in proposal["moves"][:_SHOWN_MOVES]
    ]
    if rows:
        print_rows(("query", "key", "worker", "load, CPU s per batch"), rows, numbers=(3,))
    rest = proposal["move_count"] - len(rows)
    if rest:
        console.print(f"and {rest:,} lighter moves; --json lists {len(proposal['moves']):,}")


def _effect(proposal: dict[str, Any]) -> str:
    """Say what a proposal would change and what it costs."""
    before, predicted = proposal["before"]["imbalance"], proposal["predicted"]
    balance = f"busiest worker at {before:.2f} times the mean"
    if predicted is not None:
        balance += f", predicted {predicted['imbalance']:.2f}"
    pause = proposal["pause_seconds"]
    cost = "" if pause is None else f", pause about {pause:.2f} s"
    splits = f" ({proposal['split_count']:,} of split keys)" if proposal["split_count"] else ""
    moves = f"{proposal['move_count']:,} move{'' if proposal['move_count'] == 1 else 's'}{splits}"
    return f"{balance}; {moves}, {format_bytes(proposal['moved_bytes'])} of state{cost}"


def _load(load: float | None) -> str:
    return "" if load is None else f"{load:,.4f}"
