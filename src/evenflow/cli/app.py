"""The command tree, and how errors leave it."""

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from evenflow import __version__
from evenflow.cli import control, inspect, plan_keys, plan_operators, plan_queries, replay
from evenflow.cli import run as starting
from evenflow.cli.output import print_error
from evenflow.errors import InputError, SetupError
from evenflow.research.cli import reproduce, simulate


class ErrorHandlingGroup(TyperGroup):
    """Turn bad input into clear lines on stderr and exit code 2, a missing set-up into 4."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what the caller must mend becomes a line, not a traceback."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            for problem in getattr(error, "problems", (error,)):
                print_error(str(problem))
            raise typer.Exit(2) from error
        except SetupError as error:
            print_error(str(error))
            raise typer.Exit(4) from error


app = typer.Typer(
    cls=ErrorHandlingGroup,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    help="Keep the workers of a streaming system evenly loaded.",
)
app.command("run")(starting.run_command)
app.command("validate")(starting.validate_command)
app.command("init")(starting.init_command)
plan_app = typer.Typer(no_args_is_help=True, help="Plan from files; changes nothing that runs.")
app.add_typer(plan_app, name="plan")
plan_app.command("keys")(plan_keys.plan_keys_command)
plan_app.command("queries")(plan_queries.plan_queries_command)
plan_app.command("operators")(plan_operators.plan_operators_command)
simulate_app = typer.Typer(no_args_is_help=True, help="Simulate a cluster; nothing really runs.")
app.add_typer(simulate_app, name="simulate")
simulate_app.command("operators")(simulate.simulate_operators)
app.command("reproduce")(reproduce.reproduce)
app.command("replay")(replay.replay_command)
app.command("whatif")(replay.whatif_command)
_SERVICE_PANEL = "A running service"
app.command("ps", rich_help_panel=_SERVICE_PANEL)(inspect.ps_command)
app.command("moves", rich_help_panel=_SERVICE_PANEL)(inspect.moves_command)
app.command("hot-keys", rich_help_panel=_SERVICE_PANEL)(inspect.hot_keys_command)
app.command("explain", rich_help_panel=_SERVICE_PANEL)(inspect.explain_command)
for _name, _command in (
    ("submit", control.submit_command),
    ("cancel", control.cancel_command),
    ("pin", control.pin_command),
    ("unpin", control.unpin_command),
    ("subscribe", control.subscribe_command),
    ("unsubscribe", control.unsubscribe_command),
    ("rollback", control.rollback_command),
):
    app.command(_name, rich_help_panel=_SERVICE_PANEL)(_command)
workers_app = typer.Typer(no_args_is_help=True, help="List, add or drain workers of a service.")
app.add_typer(workers_app, name="workers", rich_help_panel=_SERVICE_PANEL)
workers_app.command("list")(inspect.list_workers_command)
workers_app.command("add")(control.add_worker_command)
workers_app.command("drain")(control.drain_worker_command)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _global_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
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
