"""Commands that show the state of a run."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from evenflow.cli.find_run import find_run, served_run
from evenflow.cli.options import DEFAULT_URL, JsonOption, RunOption, UrlOption
from evenflow.cli.output import (
    Columns,
    format_bytes,
    print_balance,
    print_items,
    print_json,
    print_rows,
    print_verdicts,
    safe,
)
from evenflow.cli.past_decisions import decisions_of, one_decision_of
from evenflow.cli.past_moves import last_decision_of, past_moves_of, print_past_moves, workers
from evenflow.display import printable
from evenflow.errors import InputError

_SHOWN_MOVES = 10

_QUERY_COLUMNS: Columns = {
    "query": lambda query: query["name"],
    "kind": lambda query: query["kind"] if query["form"] == "query" else query["form"],
    "worker": lambda query: "all" if query["worker"] is None else str(query["worker"]),
    "load": lambda query: f"{query['load']:.1%}",
    "rows in": lambda query: f"{query['rows_in']:,}",
    "rows out": lambda query: f"{query['rows_out']:,}",
    "state": lambda query: format_bytes(query["state_bytes"]),
    "": lambda query: query["quarantined"] or ("pinned" if query["pinned"] else ""),
}

_WORKER_COLUMNS: Columns = {
    "worker": lambda worker: str(worker["worker"]),
    "status": lambda worker: worker["status"],
    "load": lambda worker: f"{worker['load']:.1%}",
    "of mean": lambda worker: f"{worker['of_mean']:.2f}",
    "queries": lambda worker: str(worker["queries"]),
    "state": lambda worker: format_bytes(worker["state_bytes"]),
    "shipped": lambda worker: format_bytes(worker["shipped_bytes"]),
}

_DECISION_COLUMNS: Columns = {
    "decision": lambda decision: str(decision["number"]),
    "what and why": lambda decision: decision["title"],
    "moves": lambda decision: str(decision["move_count"]),
    "imbalance": lambda decision: _imbalance(decision["before"]),
    "predicted": lambda decision: _imbalance(decision["predicted"]),
    "measured": lambda decision: _imbalance(_measured(decision)),
    "state": lambda decision: format_bytes(decision["moved_bytes"]),
}

_KEY_COLUMNS: Columns = {
    "query": lambda key: key["query"],
    "key": lambda key: key["key"],
    "share": lambda key: f"{key['share']:.2%}",
    "worker": lambda key: ", ".join(map(str, key["owners"])),
}


def ps_command(
    run: RunOption = None, url: UrlOption = DEFAULT_URL, json: JsonOption = False
) -> None:
    """List the queries and key figures of a run."""
    client = served_run(run, url)
    summary, queries = client.get("summary"), client.get("queries")
    if json:
        print_json({"summary": summary, "queries": queries})
    else:
        print_status(summary)
        print_items(queries, _QUERY_COLUMNS, numbers=range(2, 7))


def list_workers_command(
    run: RunOption = None, url: UrlOption = DEFAULT_URL, json: JsonOption = False
) -> None:
    """List the workers of a run, and how many the load needs."""
    client = served_run(run, url)
    workers, scaling = client.get("workers"), client.get("scaling")
    if json:
        print_json({"workers": workers, "scaling": scaling})
    else:
        print_items(workers, _WORKER_COLUMNS, numbers=range(2, 7))
        typer.echo(printable(f"advice: {scaling['message']}"))


def moves_command(
    limit: Annotated[int, typer.Option(min=1, help="Maximum number.")] = 20,
    everything: Annotated[
        bool, typer.Option("--all", help="Include decisions that changed nothing.")
    ] = False,
    run: RunOption = None,
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """List the plan changes of a run, newest first; one that has ended is read from its history."""
    decisions = decisions_of(find_run(run, url), limit, everything=everything)
    if json:
        print_json({"decisions": decisions})
    elif not decisions:
        typer.echo("the plan was not changed yet; --all lists every decision with its reason")
    else:
        print_items(decisions, _DECISION_COLUMNS, numbers=(0, 2, 3, 4, 5, 6))


def hot_keys_command(
    query: Annotated[str | None, typer.Argument(help="Only keys of this query.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Maximum number.")] = 20,
    run: RunOption = None,
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """List the heaviest keys, their share of the row cost of their query, and their worker."""
    keys = served_run(run, url).get("hot-keys", query=query, count=count)
    if json:
        print_json({"hot_keys": keys})
    elif not keys:
        typer.echo("no keys are measured yet: they come with the first batch of a keyed query")
    else:
        print_items(keys, _KEY_COLUMNS, numbers=(2, 3))


def explain_command(
    decision: Annotated[str, typer.Argument(help="Number of a decision, or `last`.")] = "last",
    key: Annotated[str | None, typer.Option(help="Instead: the moves of this key.")] = None,
    query: Annotated[str | None, typer.Option(help="Instead: the moves of this query.")] = None,
    run: RunOption = None,
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """Explain why the plan was changed or not, and show the measured effect.

    With --key or --query, list when that key or query moved, why, and what came of it. A run that
    has ended, given by its specification or checkpoint, is read from its history.
    """
    found = find_run(run, url)
    if key is not None or query is not None:
        moves = past_moves_of(found, query, key)
        if json:
            print_json({"moves": moves})
        else:
            print_past_moves(moves, query, key, None if moves else last_decision_of(found))
        return
    if decision == "last":
        changes = decisions_of(found, 1) or decisions_of(found, 1, everything=True)
        if not changes:
            raise InputError("there is no decision yet: the first one follows the first batch")
        info = changes[0]
    else:
        info = one_decision_of(found, decision)
    if json:
        print_json(info)
    else:
        _print_decision(info)


def _print_decision(decision: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    title = f"decision {decision['number']}"
    console.print(f"[bold]{title}[/]: {safe(decision['title'])}")
    console.print(safe(decision["message"]))
    columns = {
        "before": decision["before"],
        "predicted": decision["predicted"],
        "measured": _measured(decision),
    }
    print_balance("", columns)
    if outcome := decision["measured"]:
        size, duration = format_bytes(outcome["handed_bytes"]), outcome["duration_seconds"]
        after = "" if duration is None else f" {duration:.2f} s after the decision"
        pause = f"batch {outcome['pause_seconds']:+.2f} s longer"
        console.print(f"{size} of state transferred{after}, {pause}")
    print_verdicts(verdict["message"] for verdict in decision["verdicts"])
    complete = decision["move_count"] == len(decision["moves"])
    moves = list(_move_rows(decision, complete=complete))
    if moves:
        heads = ("query", "key", "worker", "load, CPU s per batch", "state moved")
        print_rows(heads, moves[:_SHOWN_MOVES], numbers=(3, 4))
    listed = len(moves) if complete else decision["move_count"]
    if listed > _SHOWN_MOVES:
        rest = listed - _SHOWN_MOVES
        console.print(f"and {rest:,} lighter moves; --json lists {len(decision['moves']):,}")


def _move_rows(decision: dict[str, Any], *, complete: bool) -> Iterator[tuple[str, ...]]:
    """List the moves with the transferred state.

    The state of all keys with the same query, old and new worker is one transfer: it is shown in
    the first of their rows. If all moves are listed (`complete`), transfers without a move are
    those of light keys, which follow the hash when a worker is drained or activated.
    """
    transfers = decision["measured"]["handed"] if decision["measured"] else ()
    sizes = {(t["query"], t["before"], t["after"]): format_bytes(t["bytes"]) for t in transfers}
    for move in decision["moves"]:
        route = move["query"], move["before"], move["after"]
        load = "" if move.get("load") is None else f"{move['load']:,.4f}"
        yield move["query"], move["key"] or "whole query", workers(move), load, sizes.pop(route, "")
    if complete:
        for (query, before, after), size in sizes.items():
            route_text = workers({"before": before, "after": after})
            yield query, "light keys", route_text, "", size


def _measured(decision: dict[str, Any]) -> Any:
    return decision["measured"]["judgement"] if decision["measured"] else None


def _imbalance(metrics: dict[str, Any] | None) -> str:
    return f"{metrics['imbalance']:.2f}" if metrics else "-"


def print_status(summary: dict[str, Any]) -> None:
    """Print the key figures of a run in one line."""
    from rich.console import Console

    batch = "no batch yet" if summary["batch"] is None else f"batch {summary['batch']}"
    Console(highlight=False).print(
        f"[bold]{safe(summary['status'])}[/], {batch}, {summary['active']} of {summary['workers']} "
        f"workers active, imbalance {summary['imbalance']:.2f} (bound {summary['bound']:.2f}), "
        f"{summary['rows_per_second']:,.0f} rows/s, {summary['plan_changes']} plan changes, "
        f"{summary['moves']} moves"
    )
