"""`evenflow logs`: what a run and its Spark wrote down."""

import time
from collections import deque
from pathlib import Path
from typing import Annotated

import typer

from evenflow.cli.find_run import find_run
from evenflow.cli.options import DEFAULT_URL, UrlOption
from evenflow.cli.status import RunArgument
from evenflow.errors import InputError

_POLL_SECONDS = 0.5


def logs_command(
    run: RunArgument = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Number of last lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    spark: Annotated[bool, typer.Option("--spark", help="Spark's own log.")] = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Show the log of a run: starts and stops, plan changes, failed queries and sinks."""
    found = find_run(run, url)
    if found.store is None and found.client is not None:
        checkpoint = str(found.client.get("run")["checkpoint"])
    else:
        checkpoint = found.require_store().uri
    path = log_path(checkpoint, spark=spark)
    if path is None or not path.is_file():
        place = "logs are kept only next to a local checkpoint" if path is None else f"no {path}"
        raise InputError(f"{place}; `evenflow run` writes it")
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in deque(file, lines):
            typer.echo(line, nl=False)
        while follow:
            if line := file.readline():
                typer.echo(line, nl=False)
            else:
                time.sleep(_POLL_SECONDS)


def log_path(checkpoint: str, *, spark: bool = False) -> Path | None:
    """Return the log file next to a local checkpoint; None for a remote one.

    >>> log_path("file:///data/flow"), log_path("/data/flow", spark=True), log_path("s3://b/flow")
    (PosixPath('/data/flow.log'), PosixPath('/data/flow-spark.log'), None)
    """
    folder = Path(checkpoint.removeprefix("file://"))
    if not folder.is_absolute():
        return None
    return folder.parent / f"{folder.name}{'-spark' if spark else ''}.log"
