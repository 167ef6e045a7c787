"""`evenflow alerts`: what a run tells by its rules."""

import time
from typing import Annotated

import typer

from evenflow.cli.find_run import served_run
from evenflow.cli.options import DEFAULT_URL, JsonOption, RunOption, UrlOption
from evenflow.cli.output import Columns, print_items, print_json

_COLUMNS: Columns = {
    "state": lambda alert: alert["state"],
    "since": lambda alert: time.strftime("%m-%d %H:%M:%S", time.localtime(alert["at"])),
    "batch": lambda alert: str(alert["batch"]),
    "what": lambda alert: alert["message"],
}


def alerts_command(
    everything: Annotated[
        bool, typer.Option("--all", help="Include those that were resolved.")
    ] = False,
    run: RunOption = None,
    url: UrlOption = DEFAULT_URL,
    json: JsonOption = False,
) -> None:
    """List the alerts that fire; the rules are in the section `alerts` of the specification."""
    found = served_run(run, url).get("alerts")
    listed = [each for each in found if everything or each["state"] == "firing"]
    if json:
        print_json({"alerts": listed})
    elif listed:
        print_items(listed, _COLUMNS, numbers=(2,))
    else:
        typer.echo("no alerts" if everything else "no alert fires; --all lists resolved ones")
