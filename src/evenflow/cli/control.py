"""Commands that talk to a running service: change it. All takes effect at a batch border."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from evenflow.cli.client import DEFAULT_URL, ServiceClient
from evenflow.cli.inspect import JsonOption, UrlOption
from evenflow.cli.output import print_json
from evenflow.errors import InputError

# What one request may carry, by rows; the service also bounds bytes.
_ROWS_PER_REQUEST = 5_000

QueryName = Annotated[str, typer.Argument(help="Name of the query.")]
WorkerNumber = Annotated[int, typer.Argument(min=0, help="Number of the worker.")]


def submit_command(
    name: QueryName,
    sql: Annotated[str | None, typer.Argument(help="SQL; `-` or nothing: standard input.")] = None,
    file: Annotated[Path | None, typer.Option(help="Read the SQL from a file.")] = None,
    key: Annotated[str | None, typer.Option(help="Key columns, separated by commas.")] = None,
    publish: Annotated[bool, typer.Option("--publish", help="Make its results a stream.")] = False,
    worker: Annotated[int | None, typer.Option(min=0, help="Pin it to a worker.")] = None,
    template: Annotated[bool, typer.Option("--template", help="It has parameters.")] = False,
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """Host one more query in a running service."""
    body = {
        "name": name,
        "sql": _read_sql(sql, file),
        "key": None if key is None else [column.strip() for column in key.split(",")],
        "publish": publish,
        "worker": worker,
        "template": template,
    }
    _print_answer(ServiceClient(url).post("queries", body=body), json)


def cancel_command(name: QueryName, url: UrlOption = DEFAULT_URL, json: JsonOption = False) -> None:
    """End a query of a running service; its results stay."""
    _print_answer(ServiceClient(url).delete("queries", name), json)


def pin_command(
    name: QueryName,
    worker: Annotated[int | None, typer.Option(min=0, help="Worker; else where it is.")] = None,
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """Keep a whole query on a worker."""
    _print_answer(ServiceClient(url).post("queries", name, "pin", body={"worker": worker}), json)


def unpin_command(name: QueryName, url: UrlOption = DEFAULT_URL, json: JsonOption = False) -> None:
    """Let a pinned query move again."""
    _print_answer(ServiceClient(url).post("queries", name, "unpin"), json)


def subscribe_command(
    template: Annotated[str, typer.Argument(help="Name of the template.")],
    values: Annotated[
        list[str] | None, typer.Argument(help="NAME=VALUE for each parameter of one subscription.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the one subscription.")] = None,
    file: Annotated[
        Path | None, typer.Option(help="CSV, JSON lines or Parquet with the column subscription.")
    ] = None,
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """Subscribe to a template of a running service: once by hand, or for each row of a file."""
    if (file is None) == (name is None):
        raise InputError("give --name with NAME=VALUE, or --file; got both or neither")
    if file is not None and values:
        raise InputError(f"--file has the values already; leave {values[0]!r} out")
    rows = (
        [_parse_subscription(name or "", values or [])]
        if file is None
        else _read_subscriptions(file)
    )
    client, path = ServiceClient(url), ("templates", template, "subscriptions")
    if not rows:
        raise InputError(f"{file}: there are no rows")
    for begin in range(0, len(rows), _ROWS_PER_REQUEST):
        answer = client.post(*path, body={"rows": rows[begin : begin + _ROWS_PER_REQUEST]})
    _print_answer(
        {**answer, "message": f"{len(rows)} of {template} begin at the next border"}, json
    )


def unsubscribe_command(
    template: Annotated[str, typer.Argument(help="Name of the template.")],
    names: Annotated[list[str], typer.Argument(help="Names of subscriptions.")],
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """End subscriptions to a template of a running service."""
    client = ServiceClient(url)
    _print_answer(
        client.delete("templates", template, "subscriptions", body={"names": names}), json
    )


def add_worker_command(
    worker: WorkerNumber, url: UrlOption = DEFAULT_URL, json: JsonOption = False
) -> None:
    """Give a drained worker work again."""
    _print_answer(ServiceClient(url).post("workers", worker, "activate"), json)


def drain_worker_command(
    worker: WorkerNumber, url: UrlOption = DEFAULT_URL, json: JsonOption = False
) -> None:
    """Move all work off a worker."""
    _print_answer(ServiceClient(url).post("workers", worker, "drain"), json)


def rollback_command(url: UrlOption = DEFAULT_URL, json: JsonOption = False) -> None:
    """Go back to the plan before the last change."""
    _print_answer(ServiceClient(url).post("rollback"), json)


def _print_answer(answer: dict[str, Any], json: bool) -> None:
    if json:
        print_json(answer)
    else:
        typer.echo(answer["message"])


def _read_sql(sql: str | None, file: Path | None) -> str:
    if sql is not None and file is not None:
        raise InputError("SQL is given twice, as an argument and as --file; give it once")
    if file is not None:
        if not file.is_file():
            raise InputError(f"{file}: there is no such file")
        return file.read_text()
    return sys.stdin.read() if sql in (None, "-") else str(sql)


def _parse_subscription(name: str, values: list[str]) -> dict[str, str]:
    """Read NAME=VALUE; the service brings the text to the parameter's type."""
    found = {"subscription": name}
    for value in values:
        parameter, equals, text = value.partition("=")
        if not equals or not parameter:
            raise InputError(f"parameters are written NAME=VALUE, got {value!r}")
        found[parameter] = text
    return found


def _read_subscriptions(file: Path) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.json
    import pyarrow.parquet

    readers: dict[str, Any] = {
        ".csv": pa.csv.read_csv,
        ".json": pa.json.read_json,
        ".jsonl": pa.json.read_json,
        ".parquet": pa.parquet.read_table,
    }
    if file.suffix not in readers:
        raise InputError(f"{file}: subscriptions are read from {', '.join(readers)}")
    if not file.is_file():
        raise InputError(f"{file}: there is no such file")
    try:
        found: list[dict[str, Any]] = readers[file.suffix](file).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{file}: {error}") from None
    return found
