"""`evenflow results`: the results of a query, of a running or a stopped run."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli.find_run import FoundRun, find_run
from evenflow.cli.options import DEFAULT_URL, JsonOption, RunOption, UrlOption
from evenflow.cli.output import print_json, print_progress, print_rows

if TYPE_CHECKING:
    from evenflow.spec import CheckedSpec

_POLL_SECONDS = 1.0
_SHOWN_QUERIES, _SHOWN_ROWS = 3, 3


def results_command(
    name: Annotated[str, typer.Argument(help="Name of the query.")],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with every commit, until Ctrl-C.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Number of newest rows.")] = 20,
    run: RunOption = None,
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """Show the newest results of a query; with --follow also those that come.

    A running service is asked; the results of a stopped run are read from its checkpoint, without
    Spark. With --follow and --json, every commit is one line.
    """
    shown = False
    for page in _pages(find_run(run, url), name, limit, follow=follow):
        if json:
            print_json(page)
        else:
            _print_page(page, head=not shown)
        shown = shown or bool(page["rows"])


def print_newest_results(checked: "CheckedSpec", run: str) -> None:
    """Show some results at the end of a run: a few rows of a few queries."""
    from evenflow.service.results import results_page
    from evenflow.spark.protocol.stored_results import StoredResults
    from evenflow.storage.file_store import FileStore

    checkpoint = checked.resolve(checked.spec.checkpoint)
    stored, shown = StoredResults(FileStore(checkpoint, options=checked.storage)), 0
    names = stored.names()
    for name in names:
        page = results_page(name, stored.page(name, None, _SHOWN_ROWS)).model_dump()
        if page["rows"] and shown < _SHOWN_QUERIES:
            shown += 1
            typer.echo(f"\nnewest results of {name}")
            _print_page(page, head=True)
    if names:
        typer.echo(f"\nmore: evenflow results {names[0]} --run {run} --limit 100")


def _pages(found: FoundRun, name: str, limit: int, *, follow: bool) -> Iterator[dict[str, Any]]:
    """Yield the newest rows, then what is committed later."""
    if found.client is not None:
        page = found.client.get("queries", name, "results", limit=limit)
        yield page
        if follow:
            yield from found.client.follow("queries", name, "results", since=page["next"])
        return
    from evenflow.service.results import results_page
    from evenflow.spark.protocol.stored_results import StoredResults

    stored = StoredResults(found.require_store())
    read = stored.page(name, None, limit)
    yield results_page(name, read).model_dump()
    while follow:
        if read.complete:
            time.sleep(_POLL_SECONDS)
        read = stored.page(name, read.next, limit)
        if len(read.rows):
            yield results_page(name, read).model_dump()


def _print_page(page: dict[str, Any], *, head: bool) -> None:
    if not page["rows"]:
        why = "no batch is committed"
        if page["committed"]:
            why = "they come with the next batches, those of a window once the watermark is past it"
        print_progress(f"{page['query']} has no results yet: {why}")
        return
    columns = [column["name"] for column in page["columns"]]
    rows = [tuple(_cell(row[column]) for column in columns) for row in page["rows"]]
    print_rows(columns, rows, show_heads=head)


def _cell(value: Any) -> str:
    """Format a value of a result.

    >>> _cell(None), _cell(1.5), _cell(100 / 3), _cell(True), _cell({"a": [1]})
    ('null', '1.5', '33.33333333', 'true', "{'a': [1]}")
    """
    if isinstance(value, float):
        return f"{value:.10g}"  # --json has all digits
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
