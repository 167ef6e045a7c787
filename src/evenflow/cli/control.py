"""Commands that change a run; changes take effect at the next batch boundary."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from evenflow.cli.find_run import served_run
from evenflow.cli.options import DEFAULT_URL, JsonOption, RunOption, UrlOption
from evenflow.cli.output import print_json, print_progress
from evenflow.display import printable
from evenflow.errors import InputError

# The service limits the size of a request.
_ROWS_PER_REQUEST = 5_000

QueryName = Annotated[str, typer.Argument(help="Name of the query.")]
WorkerNumber = Annotated[int, typer.Argument(min=0, help="Number of the worker.")]


def submit_command(
    name: QueryName,
    sql: Annotated[str | None, typer.Argument(help="SQL; default or `-`: standard input.")] = None,
    file: Annotated[Path | None, typer.Option(help="Read the SQL from a file.")] = None,
    key: Annotated[str | None, typer.Option(help="Key columns, separated by commas.")] = None,
    publish: Annotated[bool, typer.Option("--publish", help="Publish the results.")] = False,
    worker: Annotated[int | None, typer.Option(min=0, help="Pin the query to this worker.")] = None,
    template: Annotated[bool, typer.Option("--template", help="The SQL has parameters.")] = False,
    tenant: Annotated[str | None, typer.Option(help="Default: the tenant of the token.")] = None,
    run: RunOption = None,
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """Submit a query to a run."""
    body = {
        "name": name,
        "sql": _read_sql(sql, file),
        "key": _key_columns(key),
        "publish": publish,
        "worker": worker,
        "template": template,
        "tenant": tenant,
    }
    _print_reply(served_run(run, url).post("queries", body=body), json)


def replace_command(
    name: QueryName,
    sql: Annotated[str | None, typer.Argument(help="SQL; default or `-`: standard input.")] = None,
    file: Annotated[Path | None, typer.Option(help="Read the SQL from a file.")] = None,
    key: Annotated[str | None, typer.Option(help="Key columns; default: as before.")] = None,
    run: RunOption = None,
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """Give a query of a run another definition; no result is lost or given twice.

    It keeps its state if the new definition can go on with it. Otherwise the new one runs beside
    it, as NAME__next, until it has seen all rows that count, and then takes its place.
    """
    body = {"sql": _read_sql(sql, file), "key": _key_columns(key)}
    _print_reply(served_run(run, url).post("queries", name, "replace", body=body), json)


def cancel_command(
    name: QueryName,
    run: RunOption = None,
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """Cancel a query of a run; its results are kept."""
    _print_reply(served_run(run, url).delete("queries", name), json)


def pin_command(
    name: QueryName,
    worker: Annotated[int | None, typer.Option(min=0, help="Default: its current worker.")] = None,
    run: RunOption = None,
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """Pin a whole query to a worker."""
    _print_reply(served_run(run, url).post("queries", name, "pin", body={"worker": worker}), json)


def unpin_command(
    name: QueryName,
    run: RunOption = None,
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """Allow a pinned query to move again."""
    _print_reply(served_run(run, url).post("queries", name, "unpin"), json)


def resume_command(
    name: QueryName,
    run: RunOption = None,
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """Run a quarantined query again, from its state before it failed.

    It does not get the rows of the failed batch and of the time in quarantine: they are not kept.
    To get them, cancel it and submit it with a backfill.
    """
    _print_reply(served_run(run, url).post("queries", name, "resume"), json)


def watermark_command(
    source: Annotated[str, typer.Argument(help="Name of the source.")],
    reset: Annotated[
        str, typer.Option("--reset", metavar="TIME", help="2026-01-31T12:00:00Z, or `now`.")
    ],
    run: RunOption = None,
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """Set the watermark of a source back, after rows with a wrong time have raised it.

    Rows after it count again; a window that was complete too early gives another result for them.
    """
    body = {"to": None if reset == "now" else reset}
    _print_reply(served_run(run, url).post("streams", source, "watermark", body=body), json)


def subscribe_command(
    template: Annotated[str, typer.Argument(help="Name of the template.")],
    values: Annotated[
        list[str] | None, typer.Argument(help="PARAMETER=VALUE of one subscription.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of one subscription.")] = None,
    file: Annotated[
        Path | None, typer.Option(help="CSV, JSON lines or Parquet: subscription and parameters.")
    ] = None,
    run: RunOption = None,
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """Add subscriptions to a template: one with --name, or one per row of --file."""
    if (file is None) == (name is None):
        raise InputError("needs either --name with PARAMETER=VALUE, or --file")
    if file is not None and values:
        raise InputError(
            f"--file cannot be combined with {values[0]!r}; put the value into the file"
        )
    rows = _parse_subscription(name or "", values or []) if file is None else _read_rows(file)
    client, path = served_run(run, url), ("templates", template, "subscriptions")
    for start in range(0, len(rows), _ROWS_PER_REQUEST):
        reply = client.post(*path, body={"rows": rows[start : start + _ROWS_PER_REQUEST]})
    message = f"{len(rows)} subscriptions of {template} start at the next batch boundary"
    _print_reply({**reply, "message": message}, json)


def unsubscribe_command(
    template: Annotated[str, typer.Argument(help="Name of the template.")],
    names: Annotated[list[str], typer.Argument(help="Names of subscriptions.")],
    run: RunOption = None,
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """End subscriptions to a template of a run."""
    client = served_run(run, url)
    _print_reply(client.delete("templates", template, "subscriptions", body={"names": names}), json)


def add_worker_command(
    worker: WorkerNumber,
    run: RunOption = None,
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """Give a drained worker work again."""
    _print_reply(served_run(run, url).post("workers", worker, "activate"), json)


def drain_worker_command(
    worker: WorkerNumber,
    run: RunOption = None,
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """Move all work off a worker."""
    _print_reply(served_run(run, url).post("workers", worker, "drain"), json)


def rollback_command(
    run: RunOption = None,
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """Return to the plan before the last change."""
    _print_reply(served_run(run, url).post("rollback"), json)


def _print_reply(reply: dict[str, Any], json: bool) -> None:
    if json:
        print_json(reply)
    else:
        typer.echo(printable(reply["message"]))


def _key_columns(key: str | None) -> list[str] | None:
    return None if key is None else [column.strip() for column in key.split(",")]


def _read_sql(sql: str | None, file: Path | None) -> str:
    if sql is not None and file is not None:
        raise InputError("SQL is given as an argument and as --file; remove one")
    if file is not None:
        if not file.is_file():
            raise InputError(f"{file}: no such file")
        return file.read_text()
    if sql not in (None, "-"):
        return str(sql)
    if sys.stdin.isatty():
        print_progress("reading SQL from the terminal; end it with Ctrl-D")
    return sys.stdin.read()


def _parse_subscription(name: str, values: list[str]) -> list[dict[str, Any]]:
    """Return one row; the service converts the texts to the types of the parameters."""
    row = {"subscription": name}
    for value in values:
        parameter, equals, text = value.partition("=")
        if not equals or not parameter:
            raise InputError(f"expected PARAMETER=VALUE, got {value!r}")
        row[parameter] = text
    return [row]


def _read_rows(file: Path) -> list[dict[str, Any]]:
    from evenflow.cli.table_files import read_whole_table

    rows: list[dict[str, Any]] = read_whole_table(file).to_pylist()
    return rows
