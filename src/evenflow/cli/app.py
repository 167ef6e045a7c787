"""The command tree, and how errors leave it."""

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from evenflow import __version__
from evenflow.cli import (
    asking,
    plan_keys,
    plan_operators,
    plan_queries,
    recorded,
    reproduce,
    running,
    simulate_operators,
)
from evenflow.cli import run as starting
from evenflow.cli.output import fail
from evenflow.errors import InputError, SetupError


class OneLineErrors(TyperGroup):
    """Turn bad input into clear lines on stderr and exit code 2, a missing set-up into 4."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what the caller must mend becomes a line, not a traceback."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            for problem in getattr(error, "problems", (error,)):
                fail(str(problem))
            raise typer.Exit(2) from error
        except SetupError as error:
            fail(str(error))
            raise typer.Exit(4) from error


app = typer.Typer(
    cls=OneLineErrors,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    help="Keep the workers of a streaming system evenly loaded.",
)
app.command("run")(starting.run)
app.command("validate")(starting.validate)
app.command("init")(starting.init)
plan = typer.Typer(no_args_is_help=True, help="Plan from files; changes nothing that runs.")
app.add_typer(plan, name="plan")
plan.command("keys")(plan_keys.keys)
plan.command("queries")(plan_queries.queries)
plan.command("operators")(plan_operators.operators)
simulate = typer.Typer(no_args_is_help=True, help="Simulate a cluster; nothing really runs.")
app.add_typer(simulate, name="simulate")
simulate.command("operators")(simulate_operators.operators)
app.command("reproduce")(reproduce.reproduce)
app.command("replay")(recorded.replay)
app.command("whatif")(recorded.whatif)
_SERVICE = "A running service"
app.command("ps", rich_help_panel=_SERVICE)(running.ps)
app.command("moves", rich_help_panel=_SERVICE)(running.moves)
app.command("hot-keys", rich_help_panel=_SERVICE)(running.hot_keys)
app.command("explain", rich_help_panel=_SERVICE)(running.explain)
for _name, _command in (
    ("submit", asking.submit),
    ("cancel", asking.cancel),
    ("pin", asking.pin),
    ("unpin", asking.unpin),
    ("subscribe", asking.subscribe),
    ("unsubscribe", asking.unsubscribe),
    ("rollback", asking.rollback),
):
    app.command(_name, rich_help_panel=_SERVICE)(_command)
workers = typer.Typer(no_args_is_help=True, help="List, add or drain workers of a service.")
app.add_typer(workers, name="workers", rich_help_panel=_SERVICE)
workers.command("list")(running.workers)
workers.command("add")(asking.add)
workers.command("drain")(asking.drain)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Keep the workers of a streaming system evenly loaded."""


def main() -> None:
    """Entry point of the `evenflow` command."""
    code = 0
    try:
        app()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    if "duckdb" not in sys.modules:
        sys.exit(code)
    # DuckDB's binding complains at length on stderr when Python takes itself apart: skip that.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
