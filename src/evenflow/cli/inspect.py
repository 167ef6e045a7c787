"""Commands that talk to a running service: look at it."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from evenflow.cli.client import DEFAULT_URL, ServiceClient
from evenflow.cli.output import print_json
from evenflow.errors import InputError

UrlOption = Annotated[str, typer.Option(help="Where the service is.", envvar="EVENFLOW_URL")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def ps_command(url: UrlOption = DEFAULT_URL, json: JsonOption = False) -> None:
    """List the queries of a running service, and how it fares."""
    client = ServiceClient(url)
    summary, queries = client.get("summary"), client.get("queries")
    if json:
        print_json({"summary": summary, "queries": queries})
        return
    print_status(summary)
    rows = [
        (
            query["name"],
            query["form"] if query["form"] != "query" else query["kind"],
            "all" if query["worker"] is None else str(query["worker"]),
            f"{query['load']:.1%}",
            f"{query['rows_in']:,}",
            f"{query['rows_out']:,}",
            _format_bytes(query["state_bytes"]),
            query["quarantined"] or ("pinned" if query["pinned"] else ""),
        )
        for query in queries
    ]
    heads = ("query", "kind", "worker", "load", "rows in", "rows out", "state", "")
    print_rows(heads, rows, numbers=range(2, 7))


def list_workers_command(url: UrlOption = DEFAULT_URL, json: JsonOption = False) -> None:
    """List the workers of a running service."""
    found = ServiceClient(url).get("workers")
    if json:
        print_json({"workers": found})
        return
    rows = [
        (
            str(worker["worker"]),
            worker["status"],
            f"{worker['load']:.1%}",
            f"{worker['of_mean']:.2f}",
            str(worker["queries"]),
            _format_bytes(worker["state_bytes"]),
            _format_bytes(worker["shipped_bytes"]),
        )
        for worker in found
    ]
    heads = ("worker", "status", "load", "of mean", "queries", "state", "shipped")
    print_rows(heads, rows, numbers=range(2, 7))


def moves_command(
    limit: Annotated[int, typer.Option(min=1, help="Show so many.")] = 20,
    everything: Annotated[
        bool, typer.Option("--all", help="Also borders where nothing changed.")
    ] = False,
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """List the plan changes of a running service, the newest first."""
    found = ServiceClient(url).get("decisions", limit=limit, all=int(everything))
    if json:
        print_json({"decisions": found})
        return
    rows = [
        (
            str(made["number"]),
            made["trigger"],
            made["reason"],
            str(made["move_count"]),
            f"{made['before']['imbalance']:.2f}",
            *(
                f"{after['imbalance']:.2f}" if after else "-"
                for after in _predicted_and_measured(made)
            ),
            _format_bytes(made["moved_bytes"]),
        )
        for made in found
    ]
    heads = (
        "decision", "trigger", "reason", "moves", "imbalance", "predicted", "measured", "state",
    )  # fmt: skip
    print_rows(heads, rows, numbers=(0, 3, 4, 5, 6, 7))


def hot_keys_command(
    query: Annotated[str | None, typer.Argument(help="Of this keyed query only.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Show so many.")] = 20,
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """List the heaviest keys, their share of what the query's rows cost, and their worker."""
    found = ServiceClient(url).get("hot-keys", query=query, count=count)
    if json:
        print_json({"hot_keys": found})
        return
    rows = [(k["query"], k["key"], f"{k['share']:.2%}", str(k["owner"])) for k in found]
    print_rows(("query", "key", "share", "worker"), rows, numbers=(2, 3))


def explain_command(
    decision: Annotated[str, typer.Argument(help="Number of a decision, or `last`.")] = "last",
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """Say why a plan was changed or not, and what came of it."""
    client = ServiceClient(url)
    if decision == "last":
        changes = client.get("decisions", limit=1)
        if not changes:
            raise InputError("no plan has been changed yet; `moves --all` lists why not")
        made = changes[0]
    else:
        made = client.get("decisions", decision)
    if json:
        print_json(made)
        return
    _print_decision(made)


def _print_decision(made: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False)
    console.print(f"[bold]decision {made['number']}[/]: {made['trigger']}, {made['reason']}")
    console.print(escape(made["message"]))
    predicted, measured = _predicted_and_measured(made)
    columns = {"before": made["before"], "predicted": predicted, "measured": measured}
    known = {name: value for name, value in columns.items() if value}
    fields = ("imbalance", "max_load", "mean_load", "deviation", "correlation", "shipped_bytes")
    rows = [
        (field.replace("_", " "), *(f"{value[field]:,.4g}" for value in known.values()))
        for field in fields
    ]
    print_rows(("", *known), rows, numbers=range(1, 4))
    if made["measured"]:
        handed, pause = made["measured"]["handed_bytes"], made["measured"]["pause_seconds"]
        lasted = made["measured"]["duration_seconds"]
        within = "" if lasted is None else f" {lasted:.2f} s after the decision"
        console.print(
            f"{_format_bytes(handed)} of state handed over{within}, batch {pause:+.2f} s longer"
        )
    for verdict in made["verdicts"]:
        console.print(f"[yellow]{verdict['code']}[/]: {escape(verdict['message'])}")
    rest = made["move_count"] - len(made["moves"])
    moved = list(_move_rows(made, whole=rest == 0))
    if moved:
        print_rows(("query", "key", "worker", "state"), moved, numbers=(3,))
    if rest > 0:
        console.print(f"and {rest:,} more moves")


def _move_rows(made: dict[str, Any], *, whole: bool) -> Iterator[tuple[str, ...]]:
    """List the moves; state of keys that go the same way goes together, and is told once.

    What is left of it, if all moves are listed (`whole`), went by the hash: light keys of a worker
    that goes or comes.
    """
    ways = made["measured"]["handed"] if made["measured"] else ()
    state = {
        (way["query"], way["before"], way["after"]): _format_bytes(way["bytes"]) for way in ways
    }
    for move in made["moves"]:
        way = move["query"], move["before"], move["after"]
        yield _move_row(way, move["key"] or "whole query", state.pop(way, ""))
    if whole:
        for way, size in state.items():
            yield _move_row(way, "light keys", size)


def _move_row(way: tuple[str, int, int], key: str, size: str) -> tuple[str, ...]:
    query, before, after = way
    return query, key, f"{before} -> {after}", size


def _predicted_and_measured(made: dict[str, Any]) -> tuple[Any, Any]:
    measured = made["measured"]["judgement"] if made["measured"] else None
    return made["predicted"], measured


def print_status(summary: dict[str, Any]) -> None:
    """Print the run at a glance."""
    from rich.console import Console

    batch = "no batch yet" if summary["batch"] is None else f"batch {summary['batch']}"
    Console(highlight=False).print(
        f"[bold]{summary['status']}[/], {batch}, {summary['active']} of {summary['workers']} "
        f"workers active, imbalance {summary['imbalance']:.2f} of {summary['bound']:.2f}, "
        f"{summary['rows_per_second']:,.0f} rows/s, {summary['plan_changes']} plan changes, "
        f"{summary['moves']} moves"
    )


def print_rows(
    heads: Iterable[str], rows: Iterable[tuple[str, ...]], numbers: Iterable[int] = ()
) -> None:
    """Print a table without a frame; `numbers` are the columns to align right."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    right = set(numbers)
    table = Table(box=None, header_style="dim", pad_edge=False)
    for at, head in enumerate(heads):
        table.add_column(head, justify="right" if at in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    Console(highlight=False).print(table)


def _format_bytes(value: float) -> str:
    """Return bytes for people.

    >>> _format_bytes(950), _format_bytes(1_234_000)
    ('950 B', '1.2 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
